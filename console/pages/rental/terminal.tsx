/**
 * A terminal in a machine, relayed by the server. Browsers do not report why a WebSocket was rejected, so an ordinary
 * request checks access first.
 */
import { lazy, Suspense, useRef, useState } from 'react'
import { isClientError, unreachable, type ClientError } from '../../../src/client/error.ts'
import { routes } from '../../../src/contract/routes.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { call } from '../../api/query.ts'
import { checkLogAccess, isSimulatedMachine } from '../../api/rental-log.ts'
import { Button } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'

/** Server side: server/hosts/session-sockets.ts. */
const PROTOCOL = 'berth.terminal'

const TerminalScreen = lazy(() =>
  import('../../ui/terminal.tsx').then((module) => ({ default: module.TerminalScreen })),
)

type State =
  | { readonly is: 'closed' }
  | { readonly is: 'checking' }
  | { readonly is: 'simulated' }
  | { readonly is: 'open'; readonly rentalId: number }
  | { readonly is: 'ended'; readonly rentalId: number; readonly message: string }
  | { readonly is: 'refused'; readonly error: ClientError }

export function RentalTerminal({ id, isRunning }: { id: string; isRunning: boolean }) {
  const [state, setState] = useState<State>({ is: 'closed' })
  const [session, setSession] = useState(0)
  const mayOpen = useMay('compute:write')
  const closeButton = useRef<HTMLButtonElement>(null)
  const open = async (): Promise<void> => {
    setState({ is: 'checking' })
    try {
      await checkLogAccess(id)
      // Instances are addressed by name, terminals by rental id.
      const { rentalId } = await call('getRentalMetrics', { params: { id } })
      setSession((before) => before + 1)
      setState({ is: 'open', rentalId })
    } catch (problem) {
      if (isSimulatedMachine(problem)) return setState({ is: 'simulated' })
      setState({ is: 'refused', error: isClientError(problem) ? problem : unreachable(location.origin, problem) })
    }
  }
  if (state.is === 'refused') return <ErrorNotice error={state.error} onRetry={() => void open()} />
  if (state.is === 'simulated') {
    return <Empty title="This machine is simulated">Simulated machines have no terminal.</Empty>
  }
  if (state.is === 'closed' || state.is === 'checking') {
    const why = isRunning ? (mayOpen ? undefined : missingScope('compute:write')) : 'The machine is not running'
    return (
      <Empty
        title="Terminal"
        action={
          <Button look="primary" busy={state.is === 'checking'} disabledReason={why} onClick={() => void open()}>
            Open terminal
          </Button>
        }
      >
        Runs through this server; no SSH key needed. {why ?? 'Press Shift+Escape to leave the terminal.'}
      </Empty>
    )
  }
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-3">
        <Button ref={closeButton} onClick={() => setState({ is: 'closed' })}>
          Close terminal
        </Button>
        {state.is === 'ended' && (
          <Button look="primary" onClick={() => void open()}>
            Open new terminal
          </Button>
        )}
        <span role="status" className="text-sm text-muted">
          {state.is === 'ended' ? state.message : 'Press Shift+Escape to leave the terminal.'}
        </span>
      </div>
      <Suspense fallback={<Skeleton rows={10} className="h-[28rem] overflow-hidden" />}>
        <TerminalScreen
          key={session}
          path={`${routes.getRental.path.replace('{id}', String(state.rentalId))}/terminal` as `/${string}`}
          protocol={PROTOCOL}
          label="Terminal"
          onEnd={(message) => setState({ is: 'ended', rentalId: state.rentalId, message })}
          onLeave={() => closeButton.current?.focus()}
        />
      </Suspense>
    </div>
  )
}

/**
 * A terminal in a machine, through the server: it needs neither a key nor a way to the machine. A browser is not told
 * why a WebSocket was refused, so the same question is asked by an ordinary request first.
 */
import { lazy, Suspense, useRef, useState } from 'react'
import { isClientError, unreachable, type ClientError } from '../../../src/client/error.ts'
import { api } from '../../../src/contract/api.ts'
import { useMay } from '../../api/me.ts'
import { call } from '../../api/query.ts'
import { checkSight, isSimulatedMachine } from '../../api/rental-log.ts'
import { Button } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'

/** Server side: server/session-sockets.ts. */
const PROTOCOL = 'berth.terminal'

const TerminalScreen = lazy(() =>
  import('../../ui/terminal.tsx').then((module) => ({ default: module.TerminalScreen })),
)

type State =
  | { readonly is: 'closed' }
  | { readonly is: 'checking' }
  | { readonly is: 'unreal' }
  | { readonly is: 'open'; readonly rentalId: number }
  | { readonly is: 'ended'; readonly rentalId: number; readonly words: string }
  | { readonly is: 'refused'; readonly error: ClientError }

export function RentalTerminal({ id, isRunning }: { id: string; isRunning: boolean }) {
  const [state, setState] = useState<State>({ is: 'closed' })
  const [session, setSession] = useState(0)
  const mayOpen = useMay('compute:write')
  const closeButton = useRef<HTMLButtonElement>(null)
  const open = async (): Promise<void> => {
    setState({ is: 'checking' })
    try {
      await checkSight(id)
      // Instances are known by their names, terminals are opened by number.
      const { rentalId } = await call('getRentalMetrics', { params: { id } })
      setSession((before) => before + 1)
      setState({ is: 'open', rentalId })
    } catch (problem) {
      if (isSimulatedMachine(problem)) return setState({ is: 'unreal' })
      setState({ is: 'refused', error: isClientError(problem) ? problem : unreachable(location.origin, problem) })
    }
  }
  if (state.is === 'refused') return <ErrorNotice error={state.error} onRetry={() => void open()} />
  if (state.is === 'unreal') {
    return <Empty title="This machine is simulated">It has no terminal; those of real machines open here.</Empty>
  }
  if (state.is === 'closed' || state.is === 'checking') {
    const why = isRunning ? (mayOpen ? undefined : 'This needs the scope compute:write') : 'It does not run'
    return (
      <Empty
        title="A terminal in this machine"
        action={
          <Button look="primary" busy={state.is === 'checking'} disabledReason={why} onClick={() => void open()}>
            Open a terminal
          </Button>
        }
      >
        It goes through this server, with no SSH key. {why ?? 'Shift+Escape leaves it by keyboard.'}
      </Empty>
    )
  }
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-3">
        <Button ref={closeButton} onClick={() => setState({ is: 'closed' })}>
          Close the terminal
        </Button>
        {state.is === 'ended' && (
          <Button look="primary" onClick={() => void open()}>
            Open another
          </Button>
        )}
        <span role="status" className="text-sm text-muted">
          {state.is === 'ended' ? state.words : 'Shift+Escape leaves it by keyboard.'}
        </span>
      </div>
      <Suspense fallback={<Skeleton rows={10} className="h-[28rem] overflow-hidden" />}>
        <TerminalScreen
          key={session}
          path={`${api.getRental.path.replace('{id}', String(state.rentalId))}/terminal` as `/${string}`}
          protocol={PROTOCOL}
          label="Terminal"
          onEnd={(words) => setState({ is: 'ended', rentalId: state.rentalId, words })}
          onLeave={() => closeButton.current?.focus()}
        />
      </Suspense>
    </div>
  )
}

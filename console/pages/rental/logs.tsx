/** The live log of a machine. While paused, new lines are collected but not shown. */
import { useEffect, useRef, useState } from 'react'
import { count } from '../../../src/view/number.ts'
import { isSimulatedMachine, useRentalLog } from '../../api/rental-log.ts'
import { Button } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'

export function RentalLogs({ id }: { id: string }) {
  const [attempt, setAttempt] = useState(0)
  return <Log key={attempt} id={id} onAgain={() => setAttempt(attempt + 1)} />
}

function Log({ id, onAgain }: { id: string; onAgain: () => void }) {
  const [isPaused, setPaused] = useState(false)
  const log = useRentalLog(id, isPaused)
  if (isSimulatedMachine(log.error)) {
    return <Empty title="This machine is simulated">Simulated machines have no logs.</Empty>
  }
  if (log.error !== null && log.lines.length === 0) return <ErrorNotice error={log.error} onRetry={onAgain} />
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-3">
        <Button disabled={log.state === 'ended'} aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? 'Resume' : 'Pause'}
        </Button>
        {log.state === 'ended' && <Button onClick={onAgain}>Reload</Button>}
        <span role="status" className="text-sm text-muted">
          {isPaused && log.state !== 'ended' ? `Paused, ${count(log.waiting, 'new line')}.` : stateLabels[log.state]}
        </span>
      </div>
      {log.error !== null && <ErrorNotice error={log.error} onRetry={onAgain} />}
      <LogLines lines={log.lines} isFollowing={!isPaused} isEnded={log.state === 'ended'} />
    </div>
  )
}

const stateLabels = {
  opening: 'Opening …',
  open: 'Live',
  ended: 'The log has ended.',
} as const

/** Within this distance of the end, the view follows new lines. */
const AT_END_PX = 40

interface LogLinesProps {
  readonly lines: readonly string[]
  readonly isFollowing: boolean
  readonly isEnded: boolean
}

function LogLines({ lines, isFollowing, isEnded }: LogLinesProps) {
  const box = useRef<HTMLPreElement>(null)
  const isAtEnd = useRef(true)
  useEffect(() => {
    const element = box.current
    if (element !== null && isFollowing && isAtEnd.current) element.scrollTop = element.scrollHeight
  })
  return (
    <pre
      ref={box}
      role="log"
      aria-label="Logs"
      tabIndex={0}
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < AT_END_PX
      }}
      className="h-[28rem] overflow-auto rounded-lg border border-line bg-sunken p-3 font-mono text-sm whitespace-pre-wrap break-words"
    >
      {lines.length === 0 ? (isEnded ? 'The log is empty.' : 'No output yet.') : lines.join('\n')}
    </pre>
  )
}

/** The live log of a machine. While paused, new lines are collected but not shown. */
import { useEffect, useRef, useState } from 'react'
import { count } from '../../../src/view/number.ts'
import { isSimulatedMachine, logFileUrl, useRentalLog, type LogView } from '../../api/rental-log.ts'
import { Button } from '../../ui/button.tsx'
import { cx } from '../../ui/class.ts'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { CheckField, TextField } from '../../ui/field.tsx'

export function RentalLogs({ id }: { id: string }) {
  const [attempt, setAttempt] = useState(0)
  const [view, setView] = useState<LogView>({ search: '', timestamps: false })
  return (
    <Log
      key={`${attempt} ${view.timestamps} ${view.search}`}
      id={id}
      view={view}
      onView={setView}
      onAgain={() => setAttempt(attempt + 1)}
    />
  )
}

interface LogProps {
  readonly id: string
  readonly view: LogView
  readonly onView: (view: LogView) => void
  readonly onAgain: () => void
}

function Log({ id, view, onView, onAgain }: LogProps) {
  const [isPaused, setPaused] = useState(false)
  const [isWrapped, setWrapped] = useState(true)
  const log = useRentalLog(id, isPaused, view)
  if (isSimulatedMachine(log.error)) {
    return <Empty title="This machine is simulated">Simulated machines have no logs.</Empty>
  }
  if (log.error !== null && log.lines.length === 0 && view.search === '') {
    return <ErrorNotice error={log.error} onRetry={onAgain} />
  }
  return (
    <div className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-3">
        <LogSearch search={view.search} onSearch={(search) => onView({ ...view, search })} />
        <CheckField
          label="Timestamps"
          checked={view.timestamps}
          onChange={({ target }) => onView({ ...view, timestamps: target.checked })}
        />
        <CheckField label="Wrap lines" checked={isWrapped} onChange={({ target }) => setWrapped(target.checked)} />
        <Button disabled={log.state === 'ended'} aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? 'Resume' : 'Pause'}
        </Button>
        {log.state === 'ended' && <Button onClick={onAgain}>Reload</Button>}
        <a
          href={logFileUrl(id, view)}
          download
          className="inline-flex min-h-9 items-center rounded-md border border-line-strong bg-surface px-3 py-1.5 text-sm font-medium hover:bg-sunken"
        >
          Download
        </a>
        <span role="status" className="text-sm text-muted">
          {isPaused && log.state !== 'ended' ? `Paused, ${count(log.waiting, 'new line')}.` : stateLabels[log.state]}
        </span>
      </div>
      {log.error !== null && <ErrorNotice error={log.error} onRetry={onAgain} />}
      <LogLines
        lines={log.lines}
        isWrapped={isWrapped}
        isFollowing={!isPaused}
        empty={view.search !== '' ? 'No lines match.' : log.state === 'ended' ? 'The log is empty.' : 'No output yet.'}
      />
    </div>
  )
}

/** Searches the whole log on the server once the text is submitted. */
function LogSearch({ search, onSearch }: { search: string; onSearch: (search: string) => void }) {
  const [text, setText] = useState(search)
  return (
    <form
      role="search"
      className="flex items-center gap-2"
      onSubmit={(event) => {
        event.preventDefault()
        onSearch(text.trim())
      }}
    >
      <TextField
        label="Search the log"
        hideLabel
        type="search"
        placeholder="Search"
        maxLength={200}
        value={text}
        onChange={({ target }) => {
          setText(target.value)
          if (target.value === '' && search !== '') onSearch('')
        }}
      />
      <Button type="submit">Search</Button>
    </form>
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
  readonly isWrapped: boolean
  readonly isFollowing: boolean
  /** The text shown if there are no lines. */
  readonly empty: string
}

function LogLines({ lines, isWrapped, isFollowing, empty }: LogLinesProps) {
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
      className={cx(
        'h-[28rem] overflow-auto rounded-lg border border-line bg-sunken p-3 font-mono text-sm',
        isWrapped ? 'whitespace-pre-wrap break-words' : 'whitespace-pre',
      )}
    >
      {lines.length === 0 ? empty : lines.join('\n')}
    </pre>
  )
}

/** Search over pages, rentals, machines, accounts and request ids. The arrow keys choose, Enter opens. */
import { useRouter } from '@tanstack/react-router'
import { useEffect, useId, useRef, useState, type KeyboardEvent } from 'react'
import { Spinner } from '../ui/button.tsx'
import { cx } from '../ui/class.ts'
import { Icon } from '../ui/icon.tsx'
import { useSearchResults, type SearchResult } from './search-result.ts'

export function SearchDialog({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  const router = useRouter()
  const [typed, setTyped] = useState('')
  const [chosen, setChosen] = useState(0)
  const { results, isBusy } = useSearchResults(typed)
  const at = Math.min(chosen, results.length - 1)
  useEffect(() => {
    const { current } = dialog
    if (current !== null && !current.open) current.showModal()
    return () => current?.close()
  }, [])
  useEffect(() => {
    document.getElementById(`${id}-${at}`)?.scrollIntoView({ block: 'nearest' })
  }, [id, at])
  const open = (result: SearchResult | undefined): void => {
    if (result === undefined) return
    onClose()
    void router.navigate({ href: result.href })
  }
  const onKey = (event: KeyboardEvent): void => {
    if (event.nativeEvent.isComposing) return
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined && results.length > 0) {
      event.preventDefault()
      setChosen((at + step + results.length) % results.length)
    } else if (event.key === 'Enter') {
      event.preventDefault()
      open(results[at])
    }
  }
  return (
    // A click beside it closes it; Escape does for the keyboard.
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-noninteractive-element-interactions
    <dialog
      ref={dialog}
      aria-label="Go to"
      onClose={onClose}
      onClick={(event) => {
        if (event.target === event.currentTarget) onClose()
      }}
      className="mx-auto mt-[10dvh] mb-auto w-[calc(100vw-2rem)] max-w-xl overflow-hidden rounded-lg border border-line bg-surface p-0 text-ink shadow-raised"
    >
      <div className="flex items-center gap-2 border-b border-line px-3">
        <Icon name="search" className="text-muted" />
        <SearchField
          listId={id}
          activeId={results.length === 0 ? undefined : `${id}-${at}`}
          value={typed}
          onChange={(text) => {
            setTyped(text)
            setChosen(0)
          }}
          onKeyDown={onKey}
        />
        <span className="w-4 text-muted">{isBusy && <Spinner />}</span>
      </div>
      <Results id={id} results={results} at={at} onPoint={setChosen} onOpen={open} />
    </dialog>
  )
}

interface SearchFieldProps {
  readonly listId: string
  readonly activeId: string | undefined
  readonly value: string
  readonly onChange: (text: string) => void
  readonly onKeyDown: (event: KeyboardEvent) => void
}

function SearchField({ listId, activeId, value, onChange, onKeyDown }: SearchFieldProps) {
  return (
    <input
      type="text"
      role="combobox"
      aria-label="Search everything"
      aria-expanded="true"
      aria-controls={listId}
      aria-activedescendant={activeId}
      aria-autocomplete="list"
      autoComplete="off"
      spellCheck={false}
      maxLength={200}
      placeholder="Pages, rentals, machines, request ids"
      value={value}
      onChange={(event) => onChange(event.target.value)}
      onKeyDown={onKeyDown}
      className="h-12 min-w-0 flex-1 bg-transparent text-sm outline-none"
    />
  )
}

interface ResultsProps {
  readonly id: string
  readonly results: readonly SearchResult[]
  /** The place of the chosen one. */
  readonly at: number
  readonly onPoint: (at: number) => void
  readonly onOpen: (result: SearchResult) => void
}

function Results({ id, results, at, onPoint, onOpen }: ResultsProps) {
  return (
    <div className="max-h-[60dvh] min-h-24 overflow-y-auto p-2">
      {results.length === 0 && <p className="px-2 py-6 text-center text-sm text-muted">No results</p>}
      <div id={id} role="listbox" aria-label="Results">
        {results.map((result, n) => (
          <Result
            key={result.key}
            id={`${id}-${n}`}
            result={result}
            heading={results[n - 1]?.group === result.group ? undefined : result.group}
            isChosen={n === at}
            onPoint={() => onPoint(n)}
            onOpen={() => onOpen(result)}
          />
        ))}
      </div>
    </div>
  )
}

interface ResultProps {
  readonly id: string
  readonly result: SearchResult
  /** The name of the group that begins here. */
  readonly heading: string | undefined
  readonly isChosen: boolean
  readonly onPoint: () => void
  readonly onOpen: () => void
}

function Result({ id, result, heading, isChosen, onPoint, onOpen }: ResultProps) {
  return (
    <>
      {heading !== undefined && (
        <div role="presentation" className="px-2 pt-2 pb-1 text-xs font-semibold text-muted first:pt-0">
          {heading}
        </div>
      )}
      {/* The keyboard is handled at the text field, which keeps the focus. */}
      {/* oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/interactive-supports-focus */}
      <div
        id={id}
        role="option"
        aria-selected={isChosen}
        onMouseMove={onPoint}
        onClick={onOpen}
        className={cx(
          'flex cursor-pointer items-center gap-2.5 rounded-md px-2 py-2 text-sm',
          isChosen && 'bg-accent-soft',
        )}
      >
        <Icon name={result.icon} className="text-muted" />
        <span className="min-w-0 flex-1 truncate">{result.label}</span>
        <span className="max-w-[45%] truncate text-xs text-muted">{result.detail}</span>
      </div>
    </>
  )
}

/** Pages of a list. The server only gives the next cursor, so the way back is remembered here. */
import { useState } from 'react'
import { Button } from './button.tsx'

export const PAGE_ROWS = 100

interface Pages {
  /** The cursor of the current page; undefined: the first page. */
  readonly cursor: string | undefined
  readonly number: number
  readonly next: (nextCursor: string) => void
  readonly previous: () => void
}

/** `filter`: when it changes, the list starts at its first page again. */
export function usePages(filter = ''): Pages {
  const [state, setState] = useState<{ readonly filter: string; readonly cursors: readonly string[] }>()
  const cursors = state?.filter === filter ? state.cursors : []
  return {
    cursor: cursors.at(-1),
    number: cursors.length + 1,
    next: (nextCursor) => setState({ filter, cursors: [...cursors, nextCursor] }),
    previous: () => setState({ filter, cursors: cursors.slice(0, -1) }),
  }
}

/** Under the list; nothing when there is only one page. */
export function Pager({ pages, nextCursor }: { pages: Pages; nextCursor: string | null }) {
  if (pages.number === 1 && nextCursor === null) return null
  return (
    <nav aria-label="Pages" className="flex items-center justify-end gap-2">
      <Button disabled={pages.number === 1} onClick={pages.previous}>
        Previous
      </Button>
      <span className="px-1 text-sm text-muted tabular-nums">Page {pages.number}</span>
      <Button disabled={nextCursor === null} onClick={() => nextCursor !== null && pages.next(nextCursor)}>
        Next
      </Button>
    </nav>
  )
}

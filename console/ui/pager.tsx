/**
 * Lists in pages of a known size, newest first: the server only knows how to go on, so the way back is remembered here.
 * The first page stays live; older ones stay what they were.
 */
import { useState } from 'react'
import { Button } from './button.tsx'

interface Pages {
  /** Of the page that is shown; undefined: the first. */
  readonly cursor: string | undefined
  readonly number: number
  readonly older: (nextCursor: string) => void
  readonly newer: () => void
}

export function usePages(): Pages {
  const [cursors, setCursors] = useState<readonly string[]>([])
  return {
    cursor: cursors.at(-1),
    number: cursors.length + 1,
    older: (nextCursor) => setCursors([...cursors, nextCursor]),
    newer: () => setCursors(cursors.slice(0, -1)),
  }
}

/** Under the list. With one page there is nothing to turn. */
export function Pager({ pages, nextCursor }: { pages: Pages; nextCursor: string | null }) {
  if (pages.number === 1 && nextCursor === null) return null
  return (
    <nav aria-label="Pages" className="mt-3 flex items-center justify-end gap-2">
      <Button disabled={pages.number === 1} onClick={pages.newer}>
        Newer
      </Button>
      <span className="px-1 text-sm text-muted tabular-nums">Page {pages.number}</span>
      <Button disabled={nextCursor === null} onClick={() => nextCursor !== null && pages.older(nextCursor)}>
        Older
      </Button>
    </nav>
  )
}

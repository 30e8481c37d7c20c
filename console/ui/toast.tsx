/**
 * Short confirmations, announced to screen readers, that disappear on their own. They are above the bars at the end of
 * a page.
 */
import { useSyncExternalStore } from 'react'
import { cx } from './class.ts'

const SHOWN_MS = 5_000
const SHOWN = 3

interface Toast {
  readonly id: number
  readonly text: string
  readonly tone: 'good' | 'bad'
}

let toasts: readonly Toast[] = []
let lastId = 0
const listeners = new Set<() => void>()

function set(next: readonly Toast[]): void {
  toasts = next
  for (const listener of listeners) listener()
}

export function toast(text: string, tone: Toast['tone'] = 'good'): void {
  lastId += 1
  const id = lastId
  set([...toasts, { id, text, tone }].slice(-SHOWN))
  setTimeout(() => set(toasts.filter((one) => one.id !== id)), SHOWN_MS)
}

export function Toasts() {
  const list = useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => toasts,
  )
  return (
    <div
      role="status"
      aria-live="polite"
      className="pointer-events-none fixed inset-x-0 bottom-16 z-50 flex flex-col items-center gap-2 px-4"
    >
      {list.map((one) => (
        <p
          key={one.id}
          className={cx(
            'rounded-md border bg-surface px-4 py-2 text-sm font-medium shadow-raised',
            one.tone === 'good' ? 'border-good text-good' : 'border-bad text-bad',
          )}
        >
          {one.text}
        </p>
      ))}
    </div>
  )
}

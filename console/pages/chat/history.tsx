/** The conversations that this browser keeps. */
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { cx } from '../../ui/class.ts'
import type { Kept } from './kept.ts'

export function ChatHistory({ history, isBusy }: { history: Kept; isBusy: boolean }) {
  if (history.all.length === 0) return null
  return (
    <Card
      title="Conversations"
      actions={
        <Button look="quiet" className="min-h-7 px-2 py-0 text-xs" disabled={isBusy} onClick={history.clearAll}>
          Delete all
        </Button>
      }
    >
      <ul aria-label="Conversations" className="-mx-2 flex max-h-44 flex-col overflow-y-auto">
        {history.all.map(({ id, title }) => (
          <li key={id}>
            <button
              type="button"
              disabled={isBusy}
              aria-current={id === history.current.id}
              onClick={() => history.open(id)}
              className={cx(
                'w-full truncate rounded-md px-2 py-1.5 text-left text-sm hover:bg-sunken disabled:opacity-55',
                id === history.current.id ? 'bg-accent-soft' : 'text-muted',
              )}
            >
              {title}
            </button>
          </li>
        ))}
      </ul>
      <p className="mt-2 text-xs text-muted">Kept in this browser only.</p>
    </Card>
  )
}

/** Shows customers who return from the page for a card whether it was saved. */
import { useCall } from '../../api/query.ts'
import { Button } from '../../ui/button.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Notice } from '../../ui/notice.tsx'

/** The message of the processor takes about a second. */
const OPEN_EVERY_MS = 2_000

const texts = {
  open: 'Waiting for the card. This takes a few seconds.',
  done: 'The card was saved.',
  failed: 'The card could not be saved.',
  expired: 'The page has expired. No card was saved.',
} as const

export function CardNotice({ id, onClose }: { id: string; onClose: () => void }) {
  const first = useCall('getCardSetup', { params: { id } })
  const isOpen = first.data?.state === 'open'
  // The same read, repeated only while something can change.
  const setup = useCall('getCardSetup', { params: { id } }, { everyMs: isOpen ? OPEN_EVERY_MS : undefined })
  if (setup.error !== null && setup.data === undefined) return <ErrorNotice error={setup.error} isRead />
  const state = setup.data?.state ?? 'open'
  return (
    <div role="status">
      <Notice tone={state === 'open' || state === 'done' ? 'info' : 'warn'}>
        <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
          <div className="min-w-0">{texts[state]}</div>
          <Button look="quiet" onClick={onClose}>
            Close
          </Button>
        </div>
      </Notice>
    </div>
  )
}

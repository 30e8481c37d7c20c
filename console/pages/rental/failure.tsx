/** Why a machine failed, is stuck or cannot be reached, and what to do: the first thing on its page. */
import type { ReactNode } from 'react'
import type { EventRecord } from '../../../src/contract/event.ts'
import { localTime } from '../../../src/view/time.ts'
import { rentalReasonNextStep, rentalReasonSentence } from '../../../src/view/rental.ts'

export function FailureNotice({ reason, message }: { reason: string; message: string | null }) {
  return (
    <Notice title={`It failed. ${rentalReasonSentence(reason)}`} look="border-bad bg-bad-soft" titleLook="text-bad">
      {message !== null && <p>{message}</p>}
      <p>{rentalReasonNextStep(reason)} Nothing is charged for it any more.</p>
    </Notice>
  )
}

export function UnreachableNotice({ since }: { since: string | undefined }) {
  return (
    <Notice title="Contact with this machine is lost" look="border-warn bg-warn-soft" titleLook="text-warn">
      <p>
        {since === undefined ? '' : `Last seen before ${localTime(since)}. `}You are not charged while nobody can see
        it. If it comes back and ran all the time, the gap is charged; if it does not come back within an hour, the
        rental fails.
      </p>
    </Notice>
  )
}

/** When contact was lost, by the newest event that says so. */
export function unreachableSince(events: readonly EventRecord[]): string | undefined {
  return events
    .filter(({ type }) => type === 'rental.unknown')
    .map(({ at }) => at)
    .toSorted()
    .at(-1)
}

export function StuckNotice({ since }: { since: string }) {
  return (
    <Notice title="This takes longer than it should" look="border-warn bg-warn-soft" titleLook="text-warn">
      <p>Since {localTime(since)}. The operator can see it, and nothing is charged for the wait.</p>
    </Notice>
  )
}

interface NoticeProps {
  readonly title: string
  readonly look: string
  readonly titleLook: string
  readonly children: ReactNode
}

function Notice({ title, look, titleLook, children }: NoticeProps) {
  return (
    <div role="alert" className={`flex flex-col gap-1 rounded-md border px-4 py-3 text-sm ${look}`}>
      <p className={`font-medium ${titleLook}`}>{title}</p>
      {children}
    </div>
  )
}

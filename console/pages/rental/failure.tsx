/** Why a machine failed, is stuck or is unreachable, and the next step. */
import type { ReactNode } from 'react'
import type { EventRecord } from '../../../src/contract/event.ts'
import { localTime } from '../../../src/view/time.ts'
import { rentalReasonNextStep, rentalReasonSentence } from '../../../src/view/rental.ts'

export function FailureNotice({ reason, message }: { reason: string; message: string | null }) {
  return (
    <Notice
      title={`This machine failed. ${rentalReasonSentence(reason)}`}
      look="border-bad bg-bad-soft"
      titleLook="text-bad"
    >
      {message !== null && <p>{message}</p>}
      <p>{rentalReasonNextStep(reason)} Billing has stopped.</p>
    </Notice>
  )
}

export function UnreachableNotice({ since, reason }: { since: string | undefined; reason: string | null }) {
  const why = reason === null ? '' : `. ${rentalReasonSentence(reason)}`
  return (
    <Notice title={`Contact with this machine was lost${why}`} look="border-warn bg-warn-soft" titleLook="text-warn">
      <p>
        {since === undefined ? '' : `Last seen before ${localTime(since)}. `}Billing is paused while contact is lost. If
        the machine returns and kept running, the gap is billed; if it does not return within an hour, the rental fails.
      </p>
    </Notice>
  )
}

/** The time when contact was last lost. */
export function unreachableSince(events: readonly EventRecord[]): string | undefined {
  return events
    .filter(({ type }) => type === 'rental.unknown')
    .map(({ at }) => at)
    .toSorted()
    .at(-1)
}

export function StuckNotice({ since }: { since: string }) {
  return (
    <Notice title="This is taking longer than expected" look="border-warn bg-warn-soft" titleLook="text-warn">
      <p>Stuck since {localTime(since)}. The operator has been notified, and you are not billed for the wait.</p>
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

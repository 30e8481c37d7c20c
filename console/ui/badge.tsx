/** A label with a tone. The label carries the meaning; the color only helps. */
import type { ReactNode } from 'react'
import { rentalStateTable, type RentalState } from '../../src/contract/rental-state.ts'
import type { Tone } from '../../src/view/tone.ts'
import { cx } from './class.ts'

const tones: Readonly<Record<Tone, string>> = {
  good: 'bg-good-soft text-good',
  warn: 'bg-warn-soft text-warn',
  bad: 'bg-bad-soft text-bad',
  info: 'bg-info-soft text-info',
  plain: 'bg-sunken text-muted',
}

export function Badge({ tone = 'plain', children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span
      className={cx(
        'inline-flex items-center gap-1.5 rounded-full px-2 py-0.5 text-xs font-medium whitespace-nowrap',
        tones[tone],
      )}
    >
      <span aria-hidden="true" className="size-1.5 rounded-full bg-current" />
      {children}
    </span>
  )
}

export function RentalBadge({ status }: { status: RentalState }) {
  return <Badge tone={rentalStateTable[status].tone}>{status}</Badge>
}

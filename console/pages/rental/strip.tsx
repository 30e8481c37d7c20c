/**
 * The strip at the top of a rental's page: state, cost, buttons that open it, and its current load. Pages fill its two
 * slots, `open` with buttons and `live` with small charts.
 */
import type { ReactNode } from 'react'
import type { NanoUsd } from '../../../src/base/money.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { span } from '../../../src/view/time.ts'
import { useNow } from '../../ui/now.ts'

interface RentalStripProps {
  readonly badge: ReactNode
  readonly cost: ReactNode
  readonly pricePerHour: NanoUsd
  /** null: the rental has not started. */
  readonly startedAt: string | null
  readonly endedAt: string | null
  /** Buttons that lead to programs on the machine. */
  readonly open?: ReactNode
  /** Small charts of the current load. */
  readonly live?: ReactNode
}

export function RentalStrip({ badge, cost, pricePerHour, startedAt, endedAt, open, live }: RentalStripProps) {
  return (
    <section aria-label="At a glance" className="rounded-lg border border-line bg-surface">
      <div className="flex flex-wrap items-center justify-between gap-x-10 gap-y-3 px-4 py-3">
        <dl className="grid grid-cols-2 gap-x-6 gap-y-3 max-sm:w-full sm:flex sm:flex-wrap sm:items-center sm:gap-x-10">
          <Item name="State">{badge}</Item>
          <Item name="Total">{cost}</Item>
          <Item name="Per hour">{hourlyPrice(pricePerHour)}</Item>
          <Item name={endedAt === null ? 'Running for' : 'Ran for'}>
            <RunTime startedAt={startedAt} endedAt={endedAt} />
          </Item>
        </dl>
        {open !== undefined && <div className="flex flex-wrap gap-2">{open}</div>}
      </div>
      {live !== undefined && <div className="border-t border-line px-4 py-3">{live}</div>}
    </section>
  )
}

function Item({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-xs text-muted">{name}</dt>
      <dd className="flex min-h-6 items-center text-sm font-medium whitespace-nowrap tabular-nums">{children}</dd>
    </div>
  )
}

function RunTime({ startedAt, endedAt }: Pick<RentalStripProps, 'startedAt' | 'endedAt'>) {
  const now = useNow()
  if (startedAt === null) return '—'
  return span((endedAt === null ? now : Date.parse(endedAt)) - Date.parse(startedAt))
}

/** The price of the order, beside the form. */
import type { ReactNode } from 'react'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import { earlyEndRule } from '../../../src/domain/commitment.ts'
import type { TermQuote } from '../../../src/domain/term.ts'
import { gpusLabel } from '../../../src/view/gpu.ts'
import { hourlyPrice, money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { missingScope, useMay } from '../../api/me.ts'
import type { Form } from '../../form/use-form.ts'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Notice } from '../../ui/notice.tsx'
import { SimulatedNotice } from '../rental/simulated-notice.tsx'
import { stoppedFact, type DiskChoice } from './disk.ts'
import { PriceFacts, TooLittle, useAffordable } from './money.tsx'
import type { Choices } from './option.ts'
import type { Order } from './order.ts'
import { OrderProblems } from './refusal.tsx'

interface RentSummaryProps {
  readonly chosen: Choices['chosen']
  readonly term: TermQuote | undefined
  readonly disk: DiskChoice
  /** The new volume, if one is ordered. */
  readonly storage: { readonly sizeGb: number; readonly perHour: NanoUsd } | undefined
  /** The price of machine and volume. */
  readonly perHour: NanoUsd
  /** The price limit of the last order. */
  readonly priceLimit: string | undefined
  readonly form: Form<Order>
}

export function RentSummary({ chosen, term, disk, storage, perHour, priceLimit, form }: RentSummaryProps) {
  const committed = term?.perHour ?? zeroUsd
  const affordable = useAffordable(nanoUsdOf(perHour - committed), term?.total)
  const mayRent = useMay('compute:write')
  const { option, gpuCount, free } = chosen
  const disabledReason = !mayRent
    ? missingScope('compute:write')
    : free === 0
      ? 'Nothing of this size is available'
      : affordable.isEnough === false
        ? 'Your balance does not cover this order'
        : undefined
  const more: Array<readonly [string, ReactNode]> = []
  if (term !== undefined) {
    more.push(['List price', `${hourlyPrice(chosen.perHour)}, −${term.percentage} %`])
    more.push([`Total for ${term.days} days`, money(term.total)])
    more.push(['Hold', `${money(affordable.needed)} when you order`])
  } else {
    more.push(...stoppedFact(disk))
  }
  if (storage !== undefined) {
    more.push(['Storage', `${number(storage.sizeGb)} GB, ${hourlyPrice(storage.perHour)}`])
  }
  return (
    <Card title="Price" className="lg:sticky lg:top-18">
      <div className="flex flex-col gap-4">
        <p className="text-sm text-muted">
          {gpusLabel(gpuCount, option.gpuType.toUpperCase())} in {option.region}
        </p>
        <div aria-live="polite">
          <PriceFacts perHour={perHour} more={more} committed={committed} />
        </div>
        {term !== undefined && <p className="text-sm text-muted">{earlyEndRule(term)}</p>}
        {free === 0 && (
          <Notice tone="warn">Nothing of this size is available right now. Choose another region or GPU.</Notice>
        )}
        <SimulatedNotice simulated={option.simulated} />
        <TooLittle of={affordable} />
        <OrderProblems form={form} priceLimit={priceLimit} now={term?.perHour ?? chosen.perHour} />
        {/* Fixed to the bottom of the screen on phones, so that the button is always in reach. */}
        <div className="flex flex-col max-lg:fixed max-lg:inset-x-0 max-lg:bottom-0 max-lg:z-20 max-lg:border-t max-lg:border-line max-lg:bg-surface max-lg:p-3">
          <Button type="submit" look="primary" busy={form.isPending} disabledReason={disabledReason}>
            Rent for {hourlyPrice(perHour)}
          </Button>
        </div>
      </div>
    </Card>
  )
}

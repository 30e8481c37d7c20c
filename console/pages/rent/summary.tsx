/** What is about to be ordered and what it costs, beside the form and in sight while one chooses. */
import type { ReactNode } from 'react'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { earlyEndRule } from '../../../src/domain/commitment.ts'
import type { TermQuote } from '../../../src/domain/term.ts'
import { hourlyPrice, money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Notice } from '../../ui/notice.tsx'
import { PriceFacts, TooLittle, useAffordable } from './money.tsx'
import type { Choices } from './option.ts'
import { OrderRefusal } from './refusal.tsx'
import { SimulatedNotice } from '../rental/simulated-notice.tsx'

interface RentSummaryProps {
  readonly chosen: Choices['chosen']
  readonly term: TermQuote | undefined
  /** A new volume. */
  readonly storage: { readonly sizeGb: number; readonly perHour: NanoUsd } | undefined
  /** Of all of it. */
  readonly perHour: NanoUsd
  readonly isPending: boolean
  readonly error: ClientError | null
  /** What the machine may have cost an hour when it was last ordered. */
  readonly asked: string | undefined
}

export function RentSummary({ chosen, term, storage, perHour, isPending, error, asked }: RentSummaryProps) {
  const committed = term?.perHour ?? zeroUsd
  const affordable = useAffordable(nanoUsdOf(perHour - committed), term?.total)
  const mayRent = useMay('compute:write')
  const { option, gpuCount, free } = chosen
  const why = !mayRent
    ? missingScope('compute:write')
    : free === 0
      ? 'Nothing of this shape is free'
      : affordable.isEnough === false
        ? 'The balance does not cover what the order holds'
        : undefined
  const more: Array<readonly [string, ReactNode]> = []
  if (term !== undefined) {
    more.push(['List price', `${hourlyPrice(chosen.perHour)}, −${term.percentage} %`])
    more.push([`Total for ${term.days} days`, money(term.total)])
    more.push(['Hold', `${money(affordable.needed)} when you order`])
  }
  if (storage !== undefined) {
    more.push(['Of it storage', `${number(storage.sizeGb)} GB, ${hourlyPrice(storage.perHour)}`])
  }
  return (
    <Card title="Price" className="lg:sticky lg:top-4">
      <div className="flex flex-col gap-4">
        <p className="text-sm text-muted">
          {gpuCount} × {option.gpuType.toUpperCase()} in {option.region}
        </p>
        <div aria-live="polite">
          <PriceFacts perHour={perHour} more={more} committed={committed} />
        </div>
        {term !== undefined && <p className="text-sm text-muted">{earlyEndRule(term)}</p>}
        {free === 0 && (
          <Notice tone="warn">Nothing of this shape is free right now. Choose another region or GPU.</Notice>
        )}
        <SimulatedNotice simulated={option.simulated} />
        <TooLittle of={affordable} />
        {error !== null && <OrderRefusal error={error} asked={asked} now={term?.perHour ?? chosen.perHour} />}
        <Button type="submit" look="primary" busy={isPending} disabledReason={why}>
          Rent for {hourlyPrice(perHour)}
        </Button>
      </div>
    </Card>
  )
}

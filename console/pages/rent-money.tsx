/**
 * What an order costs and how long the balance lasts with it, before it is placed. All of it is exact: prices are whole
 * nano-dollars an hour, and a balance that does not cover the first hour, which an order sets aside, is told here.
 */
import type { ReactNode } from 'react'
import { DAY_MS } from '../../src/base/instant.ts'
import { costOfSpan, nanoUsdOf, parseUsd, spanAffordable, zeroUsd, type NanoUsd } from '../../src/base/money.ts'
import type { Reply } from '../../src/client/client.ts'
import { HOLD_COVERS_MS } from '../../src/domain/metering.ts'
import { useMay } from '../api/me.ts'
import { useCall } from '../api/query.ts'
import { TextLink } from '../ui/button.tsx'
import { Facts } from '../ui/card.tsx'
import { cx } from '../ui/class.ts'
import { money, span } from '../ui/format.ts'
import { Notice } from '../ui/notice.tsx'
import { SkeletonText } from '../ui/skeleton.tsx'

/** As a month is reckoned here. */
export const MONTH_DAYS = 30

interface Affordable {
  /** false: the first hour is not covered. undefined: the key may not see the balance, or it is still being read. */
  readonly isEnough: boolean | undefined
  readonly needed: NanoUsd
  readonly available: NanoUsd | undefined
}

/** Of a thing that costs so much an hour. */
export function useAffordable(perHour: NanoUsd): Affordable {
  const balance = useBalance()
  const needed = costOfSpan(perHour, HOLD_COVERS_MS)
  const available = balance === undefined ? undefined : (parseUsd(balance.availableUsd) ?? zeroUsd)
  return { isEnough: available === undefined ? undefined : available >= needed, needed, available }
}

function useBalance(): Reply<'getCustomerBalance'> | undefined {
  return useCall('getCustomerBalance', {}, { enabled: useMay('billing:read') }).data
}

interface PriceFactsProps {
  readonly perHour: NanoUsd
  /** Further lines between the prices and the balance. */
  readonly more?: ReadonlyArray<readonly [string, ReactNode]>
  /** Prices and balance beside each other, where there is room. */
  readonly isWide?: boolean
}

export function PriceFacts({ perHour, more = [], isWide = false }: PriceFactsProps) {
  const mayRead = useMay('billing:read')
  const balance = useBalance()
  const wait = <SkeletonText />
  return (
    <div className={cx('grid items-start gap-x-6 gap-y-2', isWide && 'sm:grid-cols-2')}>
      <Facts
        facts={[
          ['Per hour', <strong key="hour">{money(perHour)}</strong>],
          ['Per day', money(costOfSpan(perHour, DAY_MS))],
          [`Per ${MONTH_DAYS} days`, money(costOfSpan(perHour, MONTH_DAYS * DAY_MS))],
          ...more,
        ]}
      />
      {mayRead && (
        <Facts
          facts={[
            ['Balance', balance === undefined ? wait : money(balance.balanceUsd)],
            ['Runs already', balance === undefined ? wait : `${money(balance.hourlySpendUsd)} an hour`],
            ['Balance lasts', balance === undefined ? wait : lastsWords(balance, perHour)],
          ]}
        />
      )}
    </div>
  )
}

/** With what runs already. */
function lastsWords(balance: Reply<'getCustomerBalance'>, perHour: NanoUsd): string {
  const spend = nanoUsdOf((parseUsd(balance.hourlySpendUsd) ?? zeroUsd) + perHour)
  if (spend === 0n) return 'for ever'
  return span(spanAffordable(spend, parseUsd(balance.balanceUsd) ?? zeroUsd))
}

/** Told before anything is ordered. */
export function TooLittle({ of }: { of: Affordable }) {
  if (of.isEnough !== false) return null
  return (
    <Notice tone="warn">
      The first hour costs {money(of.needed)}, and {money(of.available ?? zeroUsd)} is available.{' '}
      <TextLink to="/billing">Add money</TextLink> or end something that runs.
    </Notice>
  )
}

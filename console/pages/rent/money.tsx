/** The cost of an order and how long the balance lasts with it, shown before the order is placed. */
import type { ReactNode } from 'react'
import { DAY_MS } from '../../../src/base/instant.ts'
import { costOfSpan, maxUsd, nanoUsdOf, parseUsd, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import { HOLD_COVERS_MS } from '../../../src/domain/metering.ts'
import { lastsWith } from '../../../src/domain/runway.ts'
import { hourlyPrice, money } from '../../../src/view/money.ts'
import { span } from '../../../src/view/time.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { TextLink } from '../../ui/button.tsx'
import { Facts } from '../../ui/card.tsx'
import { cx } from '../../ui/class.ts'
import { Notice } from '../../ui/notice.tsx'
import { SkeletonText } from '../../ui/skeleton.tsx'

export const MONTH_DAYS = 30

interface Affordable {
  /** undefined: the balance cannot be read, or is still loading. */
  readonly isEnough: boolean | undefined
  readonly needed: NanoUsd
  readonly available: NanoUsd | undefined
  readonly isTerm: boolean
}

/** `term`: the amount held for the whole term of a reserved machine. */
export function useAffordable(perHour: NanoUsd, term?: NanoUsd): Affordable {
  const balance = useBalance()
  const needed = nanoUsdOf(costOfSpan(perHour, HOLD_COVERS_MS) + (term ?? zeroUsd))
  if (balance === undefined) return { isEnough: undefined, needed, available: undefined, isTerm: term !== undefined }
  const amount = (text: string): NanoUsd => parseUsd(text) ?? zeroUsd
  // Only reserved terms may be held on credit.
  const credit = maxUsd(nanoUsdOf(amount(balance.creditLineUsd) - amount(balance.creditUsedUsd)), zeroUsd)
  const available = nanoUsdOf(amount(balance.availableUsd) + (term === undefined ? zeroUsd : credit))
  return { isEnough: available >= needed, needed, available, isTerm: term !== undefined }
}

function useBalance(): Reply<'getCustomerBalance'> | undefined {
  return useCall('getCustomerBalance', {}, { enabled: useMay('billing:read') }).data
}

interface PriceFactsProps {
  readonly perHour: NanoUsd
  /** Rows between the prices and the balance. */
  readonly more?: ReadonlyArray<readonly [string, ReactNode]>
  /** Prices and balance side by side. */
  readonly isWide?: boolean
  /** The part of `perHour` charged from the hold of a reserved term. */
  readonly committed?: NanoUsd
}

export function PriceFacts({ perHour, more = [], isWide = false, committed = zeroUsd }: PriceFactsProps) {
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
            ['Available', balance === undefined ? wait : money(balance.availableUsd)],
            ['On hold', balance === undefined ? wait : money(balance.heldUsd)],
            ['Current spend', balance === undefined ? wait : hourlyPrice(balance.hourlySpendUsd)],
            ['Balance lasts', balance === undefined ? wait : balanceLasts(balance, nanoUsdOf(perHour - committed))],
          ]}
        />
      )}
    </div>
  )
}

function balanceLasts({ runway }: Reply<'getCustomerBalance'>, perHour: NanoUsd): string {
  const amounts = {
    funds: parseUsd(runway.fundsUsd) ?? zeroUsd,
    hourlySpend: parseUsd(runway.hourlySpendUsd) ?? zeroUsd,
  }
  const lasts = lastsWith(amounts, perHour)
  return Number.isFinite(lasts) ? span(lasts) : 'indefinitely'
}

export function TooLittle({ of }: { of: Affordable }) {
  if (of.isEnough !== false) return null
  return (
    <Notice tone="warn">
      This order {of.isTerm ? 'requires a hold of' : 'needs'} {money(of.needed)}, but only{' '}
      {money(of.available ?? zeroUsd)} is available. <TextLink to="/billing">Add money</TextLink> or terminate a rental.
    </Notice>
  )
}

/** Says what stops spending soon or already: a low balance, and budgets that are used up. Below the page, so nothing moves. */
import type { Reply } from '../../src/client/client.ts'
import { HOUR_MS } from '../../src/base/instant.ts'
import { debtOf, money } from '../../src/view/money.ts'
import { span } from '../../src/view/time.ts'
import { useCall } from '../api/query.ts'
import { TextLink } from '../ui/button.tsx'
import { useNow } from '../ui/now.ts'

/** The first of the runway warnings. */
const LOW_MS = 24 * HOUR_MS
const EVERY_MS = 60_000

export function MoneyBanner() {
  const now = useNow()
  const balance = useCall('getCustomerBalance', {}, { everyMs: EVERY_MS })
  const budgets = useCall('listBudgets', {}, { everyMs: EVERY_MS })
  const emptyAt = balance.data?.emptyAt ?? undefined
  const leftMs = emptyAt === undefined ? undefined : Date.parse(emptyAt) - now
  const exceeded = budgets.data?.budgets.filter(({ exceededAt }) => exceededAt !== null) ?? []
  const isLow = leftMs !== undefined && leftMs < LOW_MS
  const debtUsd = balance.data === undefined ? undefined : debtOf(balance.data)
  if (!isLow && debtUsd === undefined && exceeded.length === 0) return null
  return (
    <div role="status" className="sticky bottom-0 z-20 border-t border-warn bg-warn-soft px-4 py-2 text-sm sm:px-6">
      {debtUsd !== undefined && (
        <p>
          {`The account owes ${money(debtUsd)} after a disputed payment; new orders are rejected.`}{' '}
          <TextLink to="/billing">Add money</TextLink>
        </p>
      )}
      {isLow && (
        <p>
          {leftMs > 0 ? `The balance runs out in ${span(leftMs)}.` : 'The balance is used up.'}{' '}
          <TextLink to="/billing">Add money</TextLink>
        </p>
      )}
      {exceeded.map((budget) => (
        <Exceeded key={budget.id} budget={budget} />
      ))}
    </div>
  )
}

function Exceeded({ budget }: { budget: Reply<'listBudgets'>['budgets'][number] }) {
  return (
    <p>
      The budget “{budget.name}” is used up for this month{budget.blocks ? '; new orders are rejected' : ''}.{' '}
      <TextLink to="/billing" search={{ tab: 'budgets' }}>
        See budgets
      </TextLink>
    </p>
  )
}

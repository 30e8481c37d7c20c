/** Balance, statement, invoices and payments. */
import { getRouteApi } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { nanoUsdOf, parseUsd, zeroUsd } from '../../../src/base/money.ts'
import { localDate, localTime, span } from '../../../src/view/time.ts'
import { debtOf, hourlyPrice, money } from '../../../src/view/money.ts'
import { useMe } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { dateColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Card, Stats } from '../../ui/card.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Money } from '../../ui/money.tsx'
import { useNow } from '../../ui/now.ts'
import { Page } from '../../ui/page.tsx'
import { Skeleton, SkeletonText } from '../../ui/skeleton.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { AddFunds } from './add-funds.tsx'
import { AutoTopUpCard } from './auto-top-up.tsx'
import { Budgets } from './budgets.tsx'
import { DailyStatement } from './daily-statement.tsx'
import { Invoices } from './invoices.tsx'
import { PaymentNotice } from './payment-notice.tsx'
import { Payments } from './payments.tsx'
import { Statement } from './statement.tsx'

const route = getRouteApi('/shell/billing')

/** Charges raise no events. */
const BALANCE_EVERY_MS = 10_000
const NANO_PER_CENT = 10_000_000n

const tabs = {
  statement: 'Statement',
  changes: 'All changes',
  budgets: 'Budgets',
  invoices: 'Invoices',
  purchases: 'Purchases',
} as const

const tabsWithCards = { ...tabs, payments: 'Card payments' } as const
type Tab = keyof typeof tabsWithCards

export function BillingPage() {
  const { tab = 'statement', month, payment } = route.useSearch()
  const navigate = route.useNavigate()
  const topUps = useCall('listTopUps')
  const takesCards = topUps.data?.takesCards === true
  const showPayment = (id: string | undefined) =>
    void navigate({ search: (before) => ({ ...before, payment: id }), replace: true })
  return (
    <Page intro="Berth is prepaid. Running machines are billed by the millisecond.">
      {payment !== undefined && <PaymentNotice id={payment} onClose={() => showPayment(undefined)} />}
      <Balance />
      <Answer of={topUps} skeleton={<Skeleton rows={4} />}>
        {() =>
          takesCards ? (
            <div className="grid items-start gap-4 lg:grid-cols-2">
              <AddFunds onOpen={showPayment} />
              <AutoTopUpCard />
            </div>
          ) : (
            <AddMoney />
          )
        }
      </Answer>
      <Tabs
        label="Billing"
        tabs={takesCards ? tabsWithCards : (tabs as Readonly<Record<Tab, string>>)}
        chosen={tab}
        onChoose={(next) => void navigate({ search: { tab: next }, replace: true })}
      >
        {tab === 'statement' && (
          <DailyStatement
            month={month}
            onMonth={(next) => void navigate({ search: { tab, month: next }, replace: true })}
          />
        )}
        {tab === 'changes' && <Statement />}
        {tab === 'budgets' && <Budgets />}
        {tab === 'invoices' && <Invoices />}
        {tab === 'payments' && <Payments />}
        {tab === 'purchases' && <Purchases />}
      </Tabs>
    </Page>
  )
}

function Balance() {
  const balance = useCall('getCustomerBalance', {}, { everyMs: BALANCE_EVERY_MS })
  return (
    <Answer of={balance} skeleton={<BalanceStats />}>
      {(value) => <BalanceStats value={value} />}
    </Answer>
  )
}

function BalanceStats({ value }: { value?: Reply<'getCustomerBalance'> }) {
  const debtUsd = value && debtOf(value)
  const loading = <SkeletonText />
  const amount = (usd: string | undefined): ReactNode => (usd === undefined ? loading : <Money usd={usd} />)
  return (
    <Stats
      stats={[
        ['Balance', amount(value?.balanceUsd), value === undefined ? loading : <Lasts key="lasts" balance={value} />],
        debtUsd === undefined
          ? ['Available', amount(value?.availableUsd), 'For new rentals']
          : ['Debt', amount(debtUsd), 'After a disputed payment; payments repay it first'],
        ['On hold', amount(value?.heldUsd), value === undefined ? loading : holdDetail(value)],
        ['Current spend', value && hourlyPrice(value.hourlySpendUsd), 'Machines and volumes'],
      ]}
    />
  )
}

function holdDetail({ creditLineUsd, creditUsedUsd }: Reply<'getCustomerBalance'>): string {
  const hasCredit = (parseUsd(creditLineUsd) ?? zeroUsd) > 0n || (parseUsd(creditUsedUsd) ?? zeroUsd) > 0n
  const what = 'For running machines and reserved terms'
  return hasCredit ? `${what}; ${money(creditUsedUsd)} of ${money(creditLineUsd)} credit used` : what
}

function Lasts({ balance }: { balance: Reply<'getCustomerBalance'> }) {
  const now = useNow()
  if ((parseUsd(balance.hourlySpendUsd) ?? zeroUsd) === 0n) return 'No current spend'
  if ((parseUsd(balance.runway.hourlySpendUsd) ?? zeroUsd) === 0n) return 'Only reserved machines are running'
  if (balance.emptyAt === null) return 'Lasts for years at this rate'
  const leftMs = Date.parse(balance.emptyAt) - now
  if (leftMs <= 0) return <span className="text-bad">Used up; running machines are terminated</span>
  return <span title={localTime(balance.emptyAt)}>{`Lasts ${span(leftMs)}, until ${localDate(balance.emptyAt)}`}</span>
}

function AddMoney() {
  const { account } = useMe()
  return (
    <Card title="Add money">
      <div className="grid items-center gap-x-6 gap-y-3 lg:grid-cols-2">
        <p className="text-sm text-muted">
          This server does not take card payments. Pay the operator directly and give them your account ID; the balance
          updates here when they record the payment.
        </p>
        <CopyLine label="Account ID" text={account.id} />
      </div>
    </Card>
  )
}

type Purchase = Reply<'getPurchaseHistory'>['purchase_history'][number]

const purchaseColumns: Columns<Purchase> = [
  dateColumn('Date', 'timestamp'),
  textColumn('Description', ({ memo, source }) => memo ?? source),
  textColumn('Amount', ({ amount }) => `+${money(nanoUsdOf(BigInt(amount) * NANO_PER_CENT))}`, { align: 'right' }),
]

function Purchases() {
  return (
    <ListTable
      label="Purchases"
      call="getPurchaseHistory"
      rows={({ purchase_history: rows }) => rows}
      rowKey={({ timestamp, amount, source }) => `${timestamp} ${amount} ${source}`}
      columns={purchaseColumns}
      empty={<Empty title="No purchases yet">See “Add money” above.</Empty>}
    />
  )
}

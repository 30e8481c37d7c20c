/** One account, for the operator: money, quota, status and rentals. */
import { getRouteApi } from '@tanstack/react-router'
import { parseUsd, zeroUsd } from '../../../src/base/money.ts'
import { localTime } from '../../../src/view/time.ts'
import { debtOf, money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { quotaNames } from '../../../src/contract/quota-text.ts'
import { quotaLabel } from '../../../src/view/account.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Card, Facts, Stats, type Fact } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { AccountMoneyDialog, type MoneyMove } from './money.tsx'
import { QuotaDialog } from './standing.tsx'
import { StandingBadge, type Account } from './record.tsx'
import { AccountRentals } from './rentals.tsx'
import { CreditLineDialog, FeeDialog, StandingDialog } from './standing.tsx'

const route = getRouteApi('/shell/operator/accounts/$id')
/** The operator gets no events of the account, so it is polled. */
const ACCOUNT_EVERY_MS = 10_000

export function AccountPage() {
  const { id } = route.useParams()
  const account = useCall('getAccount', { params: { id } }, { everyMs: ACCOUNT_EVERY_MS })
  return (
    <Page
      title={account.data?.name ?? 'Account'}
      intro={<code className="font-mono">{id}</code>}
      actions={
        <ButtonLink to="/operator/audit" search={{ accountId: id }}>
          Audit log
        </ButtonLink>
      }
    >
      <Answer of={account} skeleton={<Skeleton rows={10} />}>
        {(value) => <Parts account={value} />}
      </Answer>
    </Page>
  )
}

function Parts({ account }: { account: Account }) {
  const dialog = useDialog()
  const move = (kind: MoneyMove, rentalId?: number): void =>
    dialog.open((close) => (
      <AccountMoneyDialog
        account={account}
        move={kind}
        onClose={close}
        {...(rentalId === undefined ? {} : { rentalId })}
      />
    ))
  const change = (Dialog: typeof QuotaDialog) => () =>
    dialog.open((close) => <Dialog account={account} onClose={close} />)
  return (
    <>
      <Stats
        stats={[
          [
            'Balance',
            money(account.balanceUsd),
            `${money(account.availableUsd)} available, ${money(account.unbilledUsd)} of cost not charged yet`,
          ],
          ['On hold', money(account.heldUsd), 'For rentals, volumes and reserved terms'],
          [
            'Unpaid earnings',
            account.supplier ? money(account.earningsUsd) : '—',
            account.supplier ? 'After the platform fee' : 'Not a supplier',
          ],
          [
            'Status',
            account.suspended ? 'Suspended' : 'Active',
            account.suspended ? 'Its API keys are rejected' : 'Its API keys work',
          ],
        ]}
      />
      <div className="grid items-start gap-5 xl:grid-cols-2">
        <MoneyCard account={account} onMove={move} />
        <Card title="Details">
          <Facts facts={factsOf(account)} />
          <div className="mt-4 flex flex-wrap gap-2">
            <Button onClick={change(FeeDialog)}>{account.supplier ? 'Change fee' : 'Make supplier'}</Button>
            <Button onClick={change(CreditLineDialog)}>Change credit line</Button>
            <Button look={account.suspended ? 'secondary' : 'danger'} onClick={change(StandingDialog)}>
              {account.suspended ? 'Resume' : 'Suspend'}
            </Button>
          </div>
        </Card>
      </div>
      <QuotaCard account={account} onChange={change(QuotaDialog)} />
      <AccountRentals accountId={account.id} onRefund={(rentalId) => move('refund', rentalId)} />
      {dialog.shown}
    </>
  )
}

function MoneyCard({ account, onMove }: { account: Account; onMove: (move: MoneyMove) => void }) {
  return (
    <Card title="Money">
      <p className="mb-3 text-sm text-muted">
        Each action is one ledger entry, recorded with your key and your reason. Entries are never deleted; correct one
        with another.
      </p>
      <div className="flex flex-wrap gap-2">
        <Button look="primary" onClick={() => onMove('credit')}>
          Add money
        </Button>
        <Button onClick={() => onMove('adjust')}>Adjust balance</Button>
        <Button onClick={() => onMove('refund')}>Refund a rental</Button>
        <Button
          disabledReason={account.supplier ? undefined : 'The account is not a supplier'}
          onClick={() => onMove('payout')}
        >
          Pay out earnings
        </Button>
      </div>
    </Card>
  )
}

function factsOf(account: Account): Fact[] {
  const { platformFeePercentage: fee, creditLineUsd, creditUsedUsd } = account
  const debtUsd = debtOf(account)
  return [
    ['Status', <StandingBadge key="standing" account={account} />],
    ['Created', localTime(account.createdAt)],
    ['Platform fee', fee === null ? 'Not a supplier' : `${number(fee)}%`],
    ['Credit line', hasCredit(account) ? `${money(creditLineUsd)}, ${money(creditUsedUsd)} used` : 'None'],
    ...(debtUsd === undefined ? [] : [['Debt', `${money(debtUsd)}, after a disputed payment`] as const]),
    ['Request bodies', account.keepsBodies ? 'Stored, encrypted' : 'Not stored'],
  ]
}

function hasCredit({ creditLineUsd, creditUsedUsd }: Account): boolean {
  return [creditLineUsd, creditUsedUsd].some((text) => (parseUsd(text) ?? zeroUsd) > 0n)
}

function QuotaCard({ account, onChange }: { account: Account; onChange: () => void }) {
  return (
    <Card title="Quota" actions={<Button onClick={onChange}>Change quota</Button>}>
      <dl className="grid grid-cols-2 gap-x-6 gap-y-3 text-sm md:grid-cols-3 xl:grid-cols-5">
        {quotaNames.map((name) => (
          <div key={name}>
            <dt className="text-muted">{quotaLabel(name)}</dt>
            <dd className="font-medium tabular-nums">{number(account.quota[name] ?? 0)}</dd>
          </div>
        ))}
      </dl>
    </Card>
  )
}

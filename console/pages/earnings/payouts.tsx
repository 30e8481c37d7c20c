/** Shows where earnings are paid, what the next run pays, and past payouts. */
import type { Reply } from '../../../src/client/client.ts'
import { money } from '../../../src/view/money.ts'
import { payoutBlockTexts, payoutDetail, payoutLabel } from '../../../src/view/payout.ts'
import { localDate, localTime } from '../../../src/view/time.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { badgeColumn, dateColumn, moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Card, Facts, Section, type Fact } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { useNow } from '../../ui/now.ts'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'

type Value = Reply<'listPayouts'>
type Payout = Value['payouts'][number]

const refreshes = ['listPayouts'] as const
/** Payouts of the operator raise events, but the age of details does not. */
const EVERY_MS = 60_000

const columns: Columns<Payout> = [
  dateColumn('Date', 'createdAt'),
  badgeColumn('State', payoutLabel),
  moneyColumn('Amount', 'amountUsd'),
  textColumn('To', 'to'),
  textColumn('Details', payoutDetail, { wideOnly: true }),
]

export function Payouts() {
  const payouts = useCall('listPayouts', {}, { everyMs: EVERY_MS })
  return (
    <Answer of={payouts} skeleton={<Skeleton rows={6} />}>
      {(value) => (
        <>
          <Details value={value} />
          <Section title="Payouts">
            <Table
              label="Payouts"
              columns={columns}
              rows={value.payouts}
              rowKey="id"
              empty={<p className="text-sm text-muted">You were not paid yet.</p>}
            />
          </Section>
        </>
      )}
    </Answer>
  )
}

function Details({ value }: { value: Value }) {
  const now = useNow()
  const mayChange = useMay('supply')
  const dialog = useDialog()
  const { details, blockedBy, takesStripe } = value
  const disabledReason = mayChange ? undefined : missingScope('supply')
  const facts: Fact[] = [
    ['Payable', `${money(value.payableUsd)}, at least ${money(value.minimumUsd)} at a time`],
    ['Maturing', `${money(value.maturingUsd)}, payable ${value.holdbackDays} days after the charge`],
    ['Next run', value.nextRunAt === null ? 'When the operator starts one' : localDate(value.nextRunAt)],
    ['Paid to', details === null ? 'Not set up' : details.to],
  ]
  const isNew = details !== null && Date.parse(details.usableAt) > now
  return (
    <Card
      title="Payout details"
      actions={
        <>
          {takesStripe && (
            <Button
              disabledReason={disabledReason}
              onClick={() => dialog.open((close) => <StripeDialog onClose={close} />)}
            >
              {details?.kind === 'stripe' ? 'Change at Stripe' : 'Use Stripe'}
            </Button>
          )}
          <Button
            disabledReason={disabledReason}
            onClick={() => dialog.open((close) => <BankDialog onClose={close} />)}
          >
            {details?.kind === 'bank' ? 'Change bank account' : 'Use a bank account'}
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <Facts facts={facts} />
        {isNew && <p className="text-sm text-warn">Nothing is paid to it before {localTime(details.usableAt)}.</p>}
        {blockedBy !== null && (
          <p className="text-sm text-muted">The next run pays nothing: {payoutBlockTexts[blockedBy]}.</p>
        )}
      </div>
      {dialog.shown}
    </Card>
  )
}

const TOLD = 'All owners of the account are told by e-mail, and nothing is paid to new details for 72 hours.'

function BankDialog({ onClose }: { onClose: () => void }) {
  return (
    <FieldDialog
      operation="setPayoutBank"
      refreshes={refreshes}
      title="Bank account"
      action="Save bank account"
      fields={['holder', 'iban', 'bic', 'accountNumber', 'routingNumber']}
      done="Bank account saved"
      onClose={onClose}
    >
      <p className="text-sm text-muted">{TOLD} Enter an IBAN, or the two numbers of an account in the US.</p>
    </FieldDialog>
  )
}

function StripeDialog({ onClose }: { onClose: () => void }) {
  return (
    <FieldDialog
      operation="openPayoutPage"
      refreshes={refreshes}
      title="Be paid through Stripe"
      action="Continue at Stripe"
      fields={['country']}
      onDone={({ url }) => location.assign(url)}
      onClose={onClose}
    >
      <p className="text-sm text-muted">You enter your details on a page of Stripe. {TOLD}</p>
    </FieldDialog>
  )
}

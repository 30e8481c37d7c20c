/** Payments by card of all accounts: first what an operator must look at, then the newest payments. */
import type { Reply } from '../../../src/client/client.ts'
import { money } from '../../../src/view/money.ts'
import { paymentDetail, paymentLabel } from '../../../src/view/payment.ts'
import { useCall } from '../../api/query.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { actionsColumn, badgeColumn, moneyColumn, textColumn, timeColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'

type Listed = Reply<'listPayments'>
type Alert = Listed['alerts'][number]
type Payment = Listed['payments'][number]

/** Payments of others raise no event here. */
const EVERY_MS = 15_000

const alertLabels = {
  mismatch: ['Mismatch', 'bad'],
  dispute: ['Dispute', 'bad'],
  fraud_warning: ['Fraud warning', 'warn'],
  foreign: ['Unknown payment', 'warn'],
  difference: ['Difference', 'bad'],
  payout: ['Payout', 'warn'],
} as const

const alertColumns: Columns<Alert> = [
  timeColumn('Time', 'at'),
  badgeColumn('Kind', ({ kind }) => alertLabels[kind]),
  textColumn('Details', ({ subject, detail }) => (
    <div className="min-w-48 break-words">
      {detail}
      <p className="font-mono text-xs break-all text-muted">{subject}</p>
    </div>
  )),
  textColumn('Account', ({ accountId }) => accountId && <AccountLink id={accountId} />),
]

export function OperatorPaymentsPage() {
  const listed = useCall('listPayments', {}, { everyMs: EVERY_MS })
  const dialog = useDialog()
  const columns: Columns<Payment> = [
    timeColumn('Time', 'createdAt'),
    textColumn('Account', ({ accountId }) => <AccountLink id={accountId} />),
    badgeColumn('State', paymentLabel),
    moneyColumn('Credit', 'amountUsd'),
    moneyColumn('Tax', 'taxUsd', { wideOnly: true }),
    textColumn('Details', (payment) => (
      <div className="min-w-36">
        {payment.kind === 'automatic' ? 'Automatic top-up' : 'Top-up by card'}
        <p className="text-muted">{paymentDetail(payment)}</p>
      </div>
    )),
    actionsColumn(
      (payment) =>
        payment.state === 'paid' && (
          <Button
            look="quiet"
            aria-label={`Refund ${payment.id}`}
            onClick={() => dialog.open((close) => <RefundDialog payment={payment} onClose={close} />)}
          >
            Refund
          </Button>
        ),
    ),
  ]
  return (
    <Page intro="Money that customers paid by card. Answer disputes at the payment processor.">
      <Answer of={listed} skeleton={<Skeleton rows={8} />}>
        {({ alerts, payments }) => (
          <>
            <Card title="To look at">
              <Table
                label="To look at"
                rows={alerts}
                rowKey={({ kind, subject }) => `${kind} ${subject}`}
                columns={alertColumns}
                empty={<p className="text-sm text-muted">Every payment matches, and none is disputed.</p>}
              />
            </Card>
            <Card title="Payments">
              <Table
                label="Payments"
                rows={payments}
                rowKey="id"
                columns={columns}
                empty={<Empty title="No payments yet">Customers add funds on their billing page.</Empty>}
              />
            </Card>
          </>
        )}
      </Answer>
      {dialog.shown}
    </Page>
  )
}

function AccountLink({ id }: { id: string }) {
  return (
    <TextLink to="/operator/accounts/$id" params={{ id }} className="font-mono text-xs">
      {id}
    </TextLink>
  )
}

function RefundDialog({ payment, onClose }: { payment: Payment; onClose: () => void }) {
  return (
    <FieldDialog
      operation="refundPayment"
      input={{ params: { id: payment.id } }}
      refreshes={['listPayments', 'getAccount', 'listAudit']}
      title="Refund payment"
      action="Refund"
      look="danger"
      initial={{ amountUsd: payment.amountUsd.replace(/\.?0+$/, '') }}
      fields={['amountUsd', ['reason', { as: 'block' }]]}
      done={({ amountUsd, taxUsd }) => `Refunding ${money(amountUsd)} and ${money(taxUsd)} of tax`}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        At most what is left of the {money(payment.amountUsd)} and unspent in the account. Its tax goes back with it.
      </p>
    </FieldDialog>
  )
}

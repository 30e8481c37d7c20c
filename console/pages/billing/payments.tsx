/** Payments by card, with what went back. */
import type { Reply } from '../../../src/client/client.ts'
import { paymentDetail, paymentLabel } from '../../../src/view/payment.ts'
import { badgeColumn, dateColumn, moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Empty } from '../../ui/empty.tsx'

type Payment = Reply<'listTopUps'>['payments'][number]

const columns: Columns<Payment> = [
  dateColumn('Date', 'createdAt'),
  textColumn('Payment', (payment) => (
    <div className="min-w-32">
      {payment.kind === 'automatic' ? 'Automatic top-up' : 'Top-up by card'}
      <p className="text-muted">{paymentDetail(payment)}</p>
    </div>
  )),
  badgeColumn('State', paymentLabel),
  moneyColumn('Credit', 'amountUsd'),
  moneyColumn('Tax', 'taxUsd'),
]

export function Payments() {
  return (
    <ListTable
      label="Payments"
      call="listTopUps"
      rows={({ payments }) => payments}
      rowKey="id"
      columns={columns}
      empty={<Empty title="No payments yet">Add funds above.</Empty>}
    />
  )
}

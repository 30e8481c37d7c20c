/** Monthly invoices, with a printable page for each. */
import type { Reply } from '../../../src/client/client.ts'
import { routes } from '../../../src/contract/routes.ts'
import { localDate } from '../../../src/view/time.ts'
import { money } from '../../../src/view/money.ts'
import { useCall } from '../../api/query.ts'
import { actionColumn, badgeColumn, moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Code, Facts } from '../../ui/card.tsx'
import { Dialog, DialogButtons, useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'

type InvoiceSummary = Reply<'listInvoices'>['invoices'][number]
type InvoiceLine = Reply<'getInvoice'>['lines'][number]

export function Invoices() {
  const dialog = useDialog()
  const show = ({ month }: InvoiceSummary): void =>
    dialog.open((close) => <InvoiceDialog month={month} onClose={close} />)
  return (
    <>
      <ListTable
        label="Invoices"
        call="listInvoices"
        rows={({ invoices }) => invoices}
        rowKey="month"
        columns={[...columns, actionColumn('Show', ({ month }) => monthName(month), show)]}
        empty={<Empty title="No invoices yet">Each month with charges or payments gets one.</Empty>}
      />
      {dialog.shown}
    </>
  )
}

const columns: Columns<InvoiceSummary> = [
  textColumn('Month', ({ month }) => monthName(month), { className: 'whitespace-nowrap' }),
  textColumn('Number', 'number', { wideOnly: true, className: 'font-mono' }),
  badgeColumn('Status', ({ status }) => (status === 'open' ? ['Open', 'info'] : ['Final', 'good'])),
  moneyColumn('Charges', 'chargesUsd'),
]

function InvoiceDialog({ month, onClose }: { month: string; onClose: () => void }) {
  const invoice = useCall('getInvoice', { params: { month } })
  return (
    <Dialog title={`Invoice ${monthName(month)}`} onClose={onClose} wide>
      <Answer of={invoice} skeleton={<Skeleton rows={6} />}>
        {(value) => <InvoiceBody invoice={value} />}
      </Answer>
      <DialogButtons>
        <a
          href={routes.getInvoicePage.path.replace('{month}', month)}
          target="_blank"
          rel="noreferrer"
          className="inline-flex min-h-9 items-center rounded-md border border-line-strong bg-surface px-3 py-1.5 text-sm font-medium hover:bg-sunken"
        >
          Open printable page
        </a>
        <Button onClick={onClose}>Close</Button>
      </DialogButtons>
    </Dialog>
  )
}

function InvoiceBody({ invoice }: { invoice: Reply<'getInvoice'> }) {
  return (
    <div className="flex flex-col gap-4">
      <Facts
        facts={[
          ['Number', <Code key="number" text={invoice.number} />],
          ['Issued', invoice.status === 'open' ? 'At the end of the month' : localDate(invoice.issuedAt)],
          ['Opening balance', money(invoice.openingBalanceUsd)],
          ['Payments', money(invoice.paymentsUsd)],
          ['Charges', money(invoice.chargesUsd)],
          ['Closing balance', money(invoice.closingBalanceUsd)],
        ]}
      />
      <Lines title="Charges" lines={invoice.lines} empty="No charges." />
      <Lines title="Payments" lines={invoice.payments} empty="No payments." />
    </div>
  )
}

const lineColumns: Columns<InvoiceLine> = [
  textColumn('Description', 'description'),
  textColumn('Quantity', 'quantity', { align: 'right', className: 'whitespace-nowrap' }),
  moneyColumn('Unit price', 'unitPriceUsd', { wideOnly: true }),
  moneyColumn('Amount', 'amountUsd'),
]

function Lines({ title, lines, empty }: { title: string; lines: readonly InvoiceLine[]; empty: string }) {
  return (
    <section aria-label={title}>
      <h3 className="mb-2 text-sm font-semibold">{title}</h3>
      <Table
        label={title}
        columns={lineColumns}
        rows={lines}
        // Two lines can be identical, so the key is the index.
        rowKey={(line) => lines.indexOf(line)}
        empty={empty}
      />
    </section>
  )
}

const monthFormat = new Intl.DateTimeFormat('en', { month: 'long', year: 'numeric', timeZone: 'UTC' })

/** "2026-11" → "November 2026". */
function monthName(month: string): string {
  return monthFormat.format(Date.parse(`${month}-01T00:00:00Z`))
}

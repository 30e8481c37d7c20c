/** Monthly invoices, with a printable page for each. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { api } from '../../../src/contract/api.ts'
import { localDate } from '../../../src/view/time.ts'
import { money } from '../../../src/view/money.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Facts } from '../../ui/card.tsx'
import { Dialog, DialogButtons } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Money } from '../../ui/money.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table, type Column } from '../../ui/table.tsx'

type InvoiceSummary = Reply<'listInvoices'>['invoices'][number]
type InvoiceLine = Reply<'getInvoice'>['lines'][number]

export function Invoices() {
  const invoices = useCall('listInvoices')
  const [open, setOpen] = useState<string>()
  return (
    <>
      <Answer of={invoices} skeleton={<Skeleton rows={4} />}>
        {({ invoices: rows }) => (
          <Table
            label="Invoices"
            columns={columnsWith(setOpen)}
            rows={rows}
            rowKey={(one) => one.month}
            empty={<Empty title="No invoices yet">Each month with charges or payments gets one.</Empty>}
          />
        )}
      </Answer>
      {open !== undefined && <InvoiceDialog month={open} onClose={() => setOpen(undefined)} />}
    </>
  )
}

function columnsWith(onOpen: (month: string) => void): ReadonlyArray<Column<InvoiceSummary>> {
  return [
    {
      name: 'month',
      header: 'Month',
      cell: (one) => <span className="whitespace-nowrap">{monthName(one.month)}</span>,
    },
    {
      name: 'number',
      header: 'Number',
      wideOnly: true,
      cell: (one) => <span className="font-mono">{one.number}</span>,
    },
    {
      name: 'status',
      header: 'Status',
      cell: (one) => (one.status === 'open' ? <Badge tone="info">Open</Badge> : <Badge tone="good">Final</Badge>),
    },
    { name: 'charges', header: 'Charges', align: 'right', cell: (one) => money(one.chargesUsd) },
    {
      name: 'actions',
      header: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (one) => (
        <Button onClick={() => onOpen(one.month)} aria-label={`Show ${monthName(one.month)}`}>
          Show
        </Button>
      ),
    },
  ]
}

function InvoiceDialog({ month, onClose }: { month: string; onClose: () => void }) {
  const invoice = useCall('getInvoice', { params: { month } })
  return (
    <Dialog title={`Invoice ${monthName(month)}`} onClose={onClose} wide>
      <Answer of={invoice} skeleton={<Skeleton rows={6} />}>
        {(value) => <InvoiceBody invoice={value} />}
      </Answer>
      <DialogButtons>
        <a
          href={api.getInvoicePage.path.replace('{month}', month)}
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
          [
            'Number',
            <span key="number" className="font-mono">
              {invoice.number}
            </span>,
          ],
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

const lineColumns: ReadonlyArray<Column<InvoiceLine>> = [
  { name: 'description', header: 'Description', cell: (line) => line.description },
  {
    name: 'quantity',
    header: 'Quantity',
    align: 'right',
    cell: (line) => <span className="whitespace-nowrap">{line.quantity}</span>,
  },
  {
    name: 'price',
    header: 'Unit price',
    align: 'right',
    wideOnly: true,
    cell: (line) => (line.unitPriceUsd === null ? '—' : money(line.unitPriceUsd)),
  },
  { name: 'amount', header: 'Amount', align: 'right', cell: (line) => <Money usd={line.amountUsd} /> },
]

function Lines({ title, lines, empty }: { title: string; lines: readonly InvoiceLine[]; empty: string }) {
  return (
    <section aria-label={title}>
      <h3 className="mb-2 text-sm font-semibold">{title}</h3>
      <Table
        label={title}
        columns={lineColumns}
        rows={lines}
        // Two lines can be identical.
        rowKey={(line) => lines.indexOf(line)}
        empty={<p className="text-sm text-muted">{empty}</p>}
      />
    </section>
  )
}

const monthFormat = new Intl.DateTimeFormat('en', { month: 'long', year: 'numeric', timeZone: 'UTC' })

/** "2026-11" → "November 2026". */
function monthName(month: string): string {
  return monthFormat.format(Date.parse(`${month}-01T00:00:00Z`))
}

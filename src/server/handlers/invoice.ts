/** Invoices over HTTP. */
import { listInvoices, readInvoice, type Invoice, type InvoiceLine } from '../../app/money/invoice.ts'
import type { Handlers } from '../http/handler.ts'
import { renderInvoice, type InvoiceRecord } from './invoice-page.ts'
import { mapOk } from './billing.ts'

export const invoiceHandlers = {
  listInvoices: async (app, { actor }) =>
    mapOk(await listInvoices(app, actor), (invoices) => ({
      invoices: invoices.map(({ charges, ...invoice }) => ({ ...invoice, chargesUsd: charges })),
    })),

  getInvoice: async (app, { actor, params }) => mapOk(await readInvoice(app, actor, params), invoiceRecordOf),

  getInvoicePage: async (app, { actor, params }) =>
    mapOk(await readInvoice(app, actor, params), (invoice) => renderInvoice(invoiceRecordOf(invoice))),
} satisfies Partial<Handlers>

function invoiceRecordOf(invoice: Invoice): InvoiceRecord {
  return {
    number: invoice.number,
    month: invoice.month,
    status: invoice.status,
    account: invoice.account,
    issuedAt: invoice.issuedAt,
    openingBalanceUsd: invoice.opening,
    lines: invoice.lines.map(invoiceLineOf),
    chargesUsd: invoice.charges,
    payments: invoice.payments.map(invoiceLineOf),
    paymentsUsd: invoice.paid,
    closingBalanceUsd: invoice.closing,
  }
}

function invoiceLineOf({ description, quantity, unitPrice, amount }: InvoiceLine) {
  return {
    description,
    quantity,
    unitPriceUsd: unitPrice,
    amountUsd: amount,
  }
}

/** The statement of a month as PDF, written anew for each request: that of the current month grows. */
import type { Actor, App } from '../../app/app.ts'
import { buyerOf, sellerParty } from '../../app/document/payment-document.ts'
import { readInvoice } from '../../app/money/invoice.ts'
import type { DocumentParty } from '../../contract/document.ts'
import { ok, type Result } from '../../contract/result.ts'
import { findSeller } from '../../store/document/seller.ts'
import type { Download } from '../http/handler.ts'
import { wholeFile } from './document.ts'
import { invoiceOnWire } from './invoice.ts'

/** An operator that has not said more. */
const unnamed: DocumentParty = { name: 'Berth', lines: [], taxId: null, email: null }

export async function openStatementPdf(app: App, actor: Actor, month: string): Promise<Result<Download>> {
  const read = await readInvoice(app, actor, { month })
  if (!read.ok) return read
  const { db } = app.database
  const seller = await findSeller(db)
  const { buyer } = await buyerOf(db, actor.accountId, null)
  const { printedStatement } = await import('../../artifacts/document/printed-statement.ts')
  const { writePdf } = await import('../../artifacts/document/write-pdf.ts')
  const invoice = invoiceOnWire(read.value)
  const from = seller === undefined ? unnamed : sellerParty(seller)
  const pdf = await writePdf(printedStatement(invoice, from, buyer, seller?.footer ?? null))
  return ok(wholeFile(`statement-${month}.pdf`, pdf))
}

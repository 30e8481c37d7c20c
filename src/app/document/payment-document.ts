/**
 * Documents about payments by card: an invoice when one is credited, a credit note for what a refund or a dispute takes, and an
 * invoice again for what comes back. So documents and ledger always have the same sums. An operator that has not said who
 * sells issues none.
 */
import type { NanoUsd } from '../../base/money.ts'
import type { DocumentParty } from '../../contract/document.ts'
import { addressLines, printedDay, type DocumentContent } from '../../domain/document.ts'
import { taxLabel, type TaxBasis } from '../../domain/tax.ts'
import { findAccount } from '../../store/account/account.ts'
import { findBillingDetails } from '../../store/document/billing-details.ts'
import { findDocumentOf, type IssuedDocument } from '../../store/document/document.ts'
import { addressOf, findSeller, type Seller } from '../../store/document/seller.ts'
import type { Payment, PaymentDispute, PaymentRefund } from '../../store/payment/payment-posting.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import { issueDocument } from './issue-document.ts'

const REVERSE_CHARGE = 'Reverse charge: the recipient owes the tax.'

/** The caller has credited the payment in this transaction, and locks nothing afterwards. */
export async function issueInvoice(tx: Tx, payment: Payment, tax: NanoUsd, basis: TaxBasis | null): Promise<void> {
  const seller = await findSeller(tx.db)
  if (seller === undefined) return
  const { buyer, poNumber } = await buyerOf(tx.db, payment.account_id, basis)
  await issueDocument(tx, {
    kind: 'invoice',
    accountId: payment.account_id,
    subject: payment.id,
    content: {
      seller: sellerParty(seller),
      buyer,
      facts: [
        ['Paid on', printedDay(tx.clock.now())],
        ['Your order', poNumber],
      ],
      lines: [['Prepaid credit for GPU computing', payment.amount_nano]],
      tax: { label: basis === null ? 'Tax' : taxLabel(basis), amount: tax },
      notes: [
        ...(basis?.rule === 'reverse_charge' ? [REVERSE_CHARGE] : []),
        `Paid by card (payment ${payment.id}). No payment is due.`,
      ],
      footer: seller.footer,
    },
  })
}

export async function issueRefundNote(tx: Tx, payment: Payment, refund: PaymentRefund): Promise<void> {
  await correct(tx, payment, {
    subject: refund.id,
    line: 'Refund of prepaid credit',
    note: `Refund ${refund.id} to the card.`,
    amount: refund.amount_nano,
    tax: refund.tax_nano,
  })
}

/** The refund failed, so its credit note no longer holds. */
export async function issueRefundReturn(tx: Tx, refundId: string, failed: Taken): Promise<void> {
  await takeBack(tx, refundId, {
    ...failed,
    subject: `${refundId}:return`,
    line: 'Prepaid credit, after a refund that failed',
  })
}

/** A dispute takes in parts, so each has its number. */
export async function issueDisputeNote(tx: Tx, payment: Payment, dispute: PaymentDispute, part: Taken): Promise<void> {
  await correct(tx, payment, {
    subject: `${dispute.id}:${dispute.takes + 1}`,
    line: 'Prepaid credit that the owner of the card disputed',
    note: `Dispute ${dispute.id}.`,
    ...part,
  })
}

export async function issueDisputeReturn(tx: Tx, dispute: PaymentDispute): Promise<void> {
  await takeBack(tx, `${dispute.id}:${dispute.takes}`, {
    amount: dispute.taken_nano,
    tax: dispute.tax_nano,
    subject: `${dispute.id}:return`,
    line: 'Prepaid credit, after a dispute that was won',
  })
}

interface Taken {
  readonly amount: NanoUsd
  readonly tax: NanoUsd
}

async function correct(
  tx: Tx,
  payment: Payment,
  { subject, line, note, amount, tax }: Taken & { subject: string; line: string; note: string },
): Promise<void> {
  if (amount + tax === 0n) return
  const invoice = await findDocumentOf(tx.db, 'invoice', payment.id)
  // It was paid before the operator issued documents.
  if (invoice === undefined) return
  await issueDocument(tx, {
    kind: 'credit_note',
    accountId: payment.account_id,
    subject,
    corrects: invoice.number,
    content: {
      ...sameParties(invoice),
      facts: [
        ['Corrects', `Invoice ${invoice.number}`],
        ['Invoice date', printedDay(invoice.issued_at)],
        ...orderOf(invoice),
      ],
      lines: [[line, amount]],
      tax: { label: invoice.data.tax.label, amount: tax },
      notes: [
        `This credit note takes back ${amount + tax === invoice.amount_nano + invoice.tax_nano ? 'the whole' : 'a part'} of invoice ${invoice.number}. ${note}`,
      ],
    },
  })
}

async function takeBack(
  tx: Tx,
  noteSubject: string,
  { subject, line, amount, tax }: Taken & { subject: string; line: string },
): Promise<void> {
  const creditNote = await findDocumentOf(tx.db, 'credit_note', noteSubject)
  if (creditNote === undefined) return
  await issueDocument(tx, {
    kind: 'invoice',
    accountId: creditNote.account_id,
    subject,
    corrects: creditNote.number,
    content: {
      ...sameParties(creditNote),
      facts: [['Corrects', `Credit note ${creditNote.number}`], ...orderOf(creditNote)],
      lines: [[line, amount]],
      tax: { label: creditNote.data.tax.label, amount: tax },
      notes: [`The money of credit note ${creditNote.number} is in the balance again. No payment is due.`],
    },
  })
}

/** As they were, whatever has changed since. */
function sameParties({ data }: IssuedDocument): Pick<DocumentContent, 'seller' | 'buyer' | 'footer'> {
  return { seller: data.seller, buyer: data.buyer, footer: data.footer }
}

function orderOf({ data }: IssuedDocument): Array<readonly [string, string]> {
  return data.facts.filter(({ label }) => label === 'Your order').map(({ label, text }) => [label, text] as const)
}

export function sellerParty(seller: Seller): DocumentParty {
  return { name: seller.name, lines: addressLines(addressOf(seller)), taxId: seller.tax_id, email: seller.email }
}

/** An account that has not said more is named as it is. */
export async function buyerOf(
  db: Db,
  accountId: string,
  basis: TaxBasis | null,
): Promise<{ readonly buyer: DocumentParty; readonly poNumber: string | null }> {
  const details = await findBillingDetails(db, accountId)
  if (details === undefined) {
    const account = await findAccount(db, accountId)
    const buyer = { name: account?.name ?? accountId, lines: [], taxId: basis?.vatId ?? null, email: null }
    return { buyer, poNumber: null }
  }
  // The ID that decided about the tax, also if another one was given since.
  const taxId = basis?.vatId ?? (details.vat_state === 'verified' ? details.vat_id : null)
  return {
    buyer: { name: details.name, lines: addressLines(addressOf(details)), taxId, email: null },
    poNumber: details.po_number,
  }
}

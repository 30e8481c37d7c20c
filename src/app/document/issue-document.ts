/**
 * Issues a document: takes the next number of its series and freezes what is printed, in the transaction of what it is about.
 * The number is locked until the transaction ends, so this is the last thing a transaction does, after all its other locks. The file
 * is written afterwards (`write-document.ts`), so a name that cannot be printed delays no money.
 */
import { documentDataOf, documentSeries, subtotalOf, type DocumentContent } from '../../domain/document.ts'
import type { DocumentKind } from '../../contract/document.ts'
import { insertDocument, type IssuedDocument } from '../../store/document/document.ts'
import type { Tx } from '../../store/platform/database.ts'

export interface DocumentOrder {
  readonly kind: DocumentKind
  readonly accountId: string
  /** What it is about: the id of a payment, refund, dispute or payout. A second document of the kind is refused. */
  readonly subject: string
  /** Number of the document that it takes back. Absent: none. */
  readonly corrects?: string
  readonly content: DocumentContent
}

export async function issueDocument(tx: Tx, order: DocumentOrder): Promise<IssuedDocument> {
  const { kind, accountId, subject, corrects = null, content } = order
  const document = await insertDocument(tx, {
    series: documentSeries[kind],
    kind,
    accountId,
    subject,
    corrects,
    amount: subtotalOf(content),
    tax: content.tax.amount,
    data: documentDataOf(content),
  })
  tx.wake.add('documents')
  return document
}

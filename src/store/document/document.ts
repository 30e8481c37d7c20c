/**
 * Issued documents and their files. A document takes its number by a trigger, under a lock that lasts until the end of the
 * transaction, so it is the last thing that a transaction writes.
 */
import { sql, type Selectable } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { DocumentData, DocumentKind } from '../../contract/document.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { DueWork } from '../platform/due-work.ts'
import { hasDue, leaseDue, releaseLease, type Leased, type LeaseOptions } from '../platform/lease.ts'
import type { Tables } from '../platform/tables.ts'

export type IssuedDocument = Selectable<Tables['document']>

export interface NewDocument {
  readonly series: string
  readonly kind: DocumentKind
  readonly accountId: string
  readonly subject: string
  /** null: none. */
  readonly corrects: string | null
  readonly amount: NanoUsd
  readonly tax: NanoUsd
  readonly data: DocumentData
}

export async function insertDocument(tx: Tx, document: NewDocument): Promise<IssuedDocument> {
  const now = tx.clock.now()
  return tx.db
    .insertInto('document')
    .values({
      series: document.series,
      year: new Date(now).getUTCFullYear(),
      kind: document.kind,
      account_id: document.accountId,
      subject: document.subject,
      corrects: document.corrects,
      amount_nano: document.amount,
      tax_nano: document.tax,
      data: JSON.stringify(document.data),
      issued_at: toDate(now),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
}

export async function findDocument(db: Db, number: string, accountId?: string): Promise<IssuedDocument | undefined> {
  let query = db.selectFrom('document').selectAll().where('number', '=', number)
  if (accountId !== undefined) query = query.where('account_id', '=', accountId)
  return query.executeTakeFirst()
}

export async function findDocumentOf(db: Db, kind: DocumentKind, subject: string): Promise<IssuedDocument | undefined> {
  return db
    .selectFrom('document')
    .selectAll()
    .where('kind', '=', kind)
    .where('subject', '=', subject)
    .executeTakeFirst()
}

/** The newest first. */
export async function listDocuments(
  db: Db,
  { accountId, before, limit }: { accountId: string; before?: string | undefined; limit: number },
): Promise<IssuedDocument[]> {
  let query = db.selectFrom('document').selectAll().where('account_id', '=', accountId)
  if (before !== undefined)
    query = query.where(
      sql<boolean>`(issued_at, number) < (select issued_at, number from document where number = ${before} and account_id = ${accountId})`,
    )
  return query.orderBy('issued_at', 'desc').orderBy('number', 'desc').limit(limit).execute()
}

export async function findPdf(db: Db, number: string): Promise<Buffer | undefined> {
  const row = await db.selectFrom('document_pdf').select('pdf').where('number', '=', number).executeTakeFirst()
  return row?.pdf
}

const all = sql`true`

export const hasDueWriting: DueWork = ({ now }) => hasDue('document_writing', all, now)

export async function leaseWritings(db: Db, options: LeaseOptions): Promise<Leased<{ id: string; attempts: number }>> {
  return leaseDue(db, 'document_writing', all, options)
}

/** It failed: another try is due later. */
export async function postponeWriting(db: Db, id: string, token: string, dueAt: Instant): Promise<boolean> {
  return releaseLease(db, 'document_writing', { id }, token, { due_at: toDate(dueAt) })
}

/** Writes the file once: the first one counts. */
export async function insertPdf(
  tx: Tx,
  { number, pdf, sha256, at }: { number: string; pdf: Buffer; sha256: Buffer; at: Instant },
): Promise<void> {
  await tx.db
    .insertInto('document_pdf')
    .values({ number, pdf, sha256, written_at: toDate(at) })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  await tx.db.deleteFrom('document_writing').where('id', '=', number).execute()
}

/** Writes the file of a document, once: whoever comes first. */
import { sha256 } from '../../base/id.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { findDocument, findPdf, insertPdf, type IssuedDocument } from '../../store/document/document.ts'
import { transact } from '../../store/platform/database.ts'
import type { App } from '../app.ts'

export async function writeDocument(app: App, document: IssuedDocument): Promise<void> {
  const { writeDocument: write } = app
  if (write === undefined) throw new Error('this server writes no documents')
  const { number, kind, data, issued_at: issuedAt } = document
  const pdf = await write({ number, kind, data, issuedAt })
  await transact(app.database, (tx) => insertPdf(tx, { number, pdf, sha256: sha256(pdf), at: tx.clock.now() }))
}

/** The file of a document of an account. One that the loop has not come to yet is written now. */
export async function readPdf(app: App, number: string, accountId: string): Promise<Result<Buffer>> {
  const { db } = app.database
  const document = await findDocument(db, number, accountId)
  if (document === undefined) return fail('document_not_found')
  const pdf = await findPdf(db, number)
  if (pdf !== undefined) return ok(pdf)
  await writeDocument(app, document)
  const written = await findPdf(db, number)
  return written === undefined ? fail('document_not_found') : ok(written)
}

/** Documents over HTTP, and their files. */
import type { App } from '../../app/app.ts'
import { readPdf } from '../../app/document/write-document.ts'
import { limits } from '../../base/limits.ts'
import { nanoUsdOf } from '../../base/money.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { findDocument, listDocuments, type IssuedDocument } from '../../store/document/document.ts'
import type { Download, Handlers } from '../http/handler.ts'

export const documentHandlers = {
  listDocuments: async ({ database: { db } }, { actor, query }) => {
    const { accountId } = actor
    const rows = await listDocuments(db, { accountId, before: query.before, limit: limits.listedDocuments })
    return ok({ documents: rows.map(documentOnWire) })
  },

  getDocument: async ({ database: { db } }, { actor, params }) => {
    const document = await findDocument(db, params.number, actor.accountId)
    if (document === undefined) return fail('document_not_found')
    return ok({ ...documentOnWire(document), data: document.data })
  },
} satisfies Partial<Handlers>

export async function openDocumentPdf(app: App, accountId: string, number: string): Promise<Result<Download>> {
  const pdf = await readPdf(app, number, accountId)
  if (!pdf.ok) return pdf
  return ok(wholeFile(`${number}.pdf`, pdf.value))
}

export function wholeFile(name: string, bytes: Buffer): Download {
  return { name, bytes: bytes.length, content: contentOf(bytes) }
}

async function* contentOf(pdf: Buffer): AsyncGenerator<Buffer> {
  yield pdf
}

function documentOnWire(document: IssuedDocument): ResponseOf<Api['listDocuments']>['documents'][number] {
  const { number, kind, corrects, subject, amount_nano: amountUsd, tax_nano: taxUsd } = document
  return {
    number,
    kind,
    issuedAt: document.issued_at,
    amountUsd,
    taxUsd,
    totalUsd: nanoUsdOf(amountUsd + taxUsd),
    corrects,
    subject,
  }
}

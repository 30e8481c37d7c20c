/** Files over HTTP, in the form of OpenAI's API. */
import { createHash, type Hash } from 'node:crypto'
import type { Actor, App } from '../../app/app.ts'
import { discardFile, readFile, writeFile } from '../../app/file/file.ts'
import { createOnce } from '../../app/idempotency.ts'
import { addMs, SECOND_MS, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { isReadByBatch } from '../../store/batch/batch.ts'
import { findFile, finishFile, listFiles, type StoredFile } from '../../store/file/file.ts'
import type { Download, Handlers } from '../http/handler.ts'

export const fileHandlers = {
  uploadFile: async (app, { actor, operation, idempotencyKey, readUpload }) => {
    const upload = await readUpload(
      { fileField: 'file', maxBytes: limits.uploadBytes },
      {
        take: ({ name, content }) => writeUpload(app, actor, name, content),
        drop: ({ file }) => discardFile(app, file),
      },
    )
    if (!upload.ok) return upload
    const { file, digest } = upload.value.file
    const { purpose, expires_after: expiry } = upload.value.body
    const request = { name: file.name, purpose, expiry, digest }
    const created = await createOnce(app, actor, { key: idempotencyKey, operation, request }, async (tx) => {
      const expiresAt = expiry === undefined ? file.expires_at : addMs(file.created_at, expiry.seconds * SECOND_MS)
      const finished = await finishFile(tx, file.id, expiresAt)
      return finished === undefined ? fail('stored_file_not_found') : ok(fileOnWire(finished))
    })
    // The first answer to this key names the file of that request.
    if (!created.ok || created.value.id !== file.id) await discardFile(app, file)
    return created
  },

  listFiles: async (app, { actor, query }) => {
    const { db } = app.database
    const after = query.after === undefined ? undefined : await findFile(db, actor.accountId, query.after)
    if (query.after !== undefined && after === undefined) return fail('stored_file_not_found', { field: ['after'] })
    const files = await listFiles(db, actor.accountId, { ...query, after, limit: query.limit + 1 })
    return ok(pageOnWire(files.map(fileOnWire), query.limit))
  },

  getFile: async (app, { actor, params }) => {
    const file = await findFile(app.database.db, actor.accountId, params.id)
    return file === undefined ? fail('stored_file_not_found') : ok(fileOnWire(file))
  },

  deleteFile: async (app, { actor, params }) => {
    const file = await findFile(app.database.db, actor.accountId, params.id)
    if (file === undefined) return fail('stored_file_not_found')
    if (await isReadByBatch(app.database.db, file.id)) return fail('file_in_use')
    await discardFile(app, file)
    return ok({ id: file.id, object: 'file' as const, deleted: true as const })
  },
} satisfies Partial<Handlers>

interface WrittenUpload {
  readonly file: StoredFile
  readonly digest: string
}

async function writeUpload(
  app: App,
  { accountId }: Actor,
  name: string,
  content: AsyncIterable<Buffer>,
): Promise<Result<WrittenUpload>> {
  const digest = createHash('sha256')
  const input = {
    accountId,
    name: name.slice(0, limits.nameChars) || 'file',
    purpose: 'batch',
    isLimited: true,
  } as const
  const file = await writeFile(app, input, hashed(content, digest))
  return file.ok ? ok({ file: file.value, digest: digest.digest('hex') }) : file
}

async function* hashed(content: AsyncIterable<Buffer>, digest: Hash): AsyncGenerator<Buffer> {
  for await (const bytes of content) {
    digest.update(bytes)
    yield bytes
  }
}

export async function openDownload(app: App, accountId: string, id: string): Promise<Result<Download>> {
  const file = await findFile(app.database.db, accountId, id)
  if (file === undefined) return fail('stored_file_not_found')
  return ok({ name: file.name, bytes: Number(file.size_bytes), content: readFile(app, file) })
}

/** `items` has one more than the page, if there are more. */
export function pageOnWire<T extends { readonly id: string }>(items: readonly T[], limit: number) {
  const data = items.slice(0, limit)
  return {
    object: 'list' as const,
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: items.length > limit,
  }
}

function fileOnWire(file: StoredFile): ResponseOf<Api['getFile']> {
  return {
    id: file.id,
    object: 'file',
    bytes: Number(file.size_bytes),
    created_at: secondsOf(file.created_at),
    expires_at: secondsOf(file.expires_at),
    filename: file.name,
    purpose: file.purpose,
    status: 'processed',
  }
}

export function secondsOf(at: Instant): number {
  return Math.floor(at / SECOND_MS)
}

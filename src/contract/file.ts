/** Files of an account (v1), in the form of OpenAI's API: the input and output of batches. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { openaiForm } from './error-form.ts'
import { filePurposes } from './file-purpose.ts'
import { textIdParams } from './shared.ts'

const MIN_EXPIRY_SECONDS = 3_600
const MAX_EXPIRY_SECONDS = limits.fileDays * 86_400

/** `seconds` is the schema of a whole number. Forms send numbers as text, so theirs differs from that of bodies. */
function expiryWith<T extends z.ZodNumber | z.ZodCoercedNumber>(seconds: T) {
  return z
    .strictObject({
      anchor: z.literal('created_at'),
      seconds: seconds.int().min(MIN_EXPIRY_SECONDS).max(MAX_EXPIRY_SECONDS),
    })
    .describe(`When the file is deleted; by default ${limits.fileDays} days after it was created`)
}

export const expiresAfter = expiryWith(z.number())

const fileRecord = z
  .object({
    id: z.string(),
    object: z.literal('file'),
    bytes: z.int(),
    created_at: z.int(),
    expires_at: z.int(),
    filename: z.string(),
    purpose: z.enum(filePurposes),
    status: z.literal('processed'),
  })
  .meta({ id: 'File' })

const files = { family: 'v1', tag: 'Inference', access: ['inference'], errorForm: openaiForm } as const

/** The query parameters of OpenAI's lists. */
export const pageAfter = {
  after: z.string().max(100).optional().describe('`last_id` of the previous page'),
  limit: z.coerce.number().int().min(1).max(limits.pageRows).default(limits.pageRowsDefault),
}

/** A page of a list in OpenAI's format. */
export function pageOf<T extends z.ZodType>(item: T) {
  return z.object({
    object: z.literal('list'),
    data: z.array(item),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  })
}

export const fileEndpoints = {
  uploadFile: endpoint({
    ...files,
    method: 'POST',
    path: '/v1/files',
    summary: 'Upload a file',
    description: `At most ${limits.uploadBytes / 1_000_000} MB. The files of an account count against its quota.`,
    errors: [400, 401, 403, 422, 500],
    takes: 'multipart',
    body: z
      .strictObject({
        file: z.string().min(1).max(limits.nameChars).meta({ format: 'binary' }).describe('The file, with its name'),
        purpose: z.enum(['batch']),
        expires_after: expiryWith(z.coerce.number()).optional(),
      })
      .meta({ id: 'UploadFile' }),
    response: fileRecord,
    idempotent: true,
  }),
  listFiles: endpoint({
    ...files,
    method: 'GET',
    path: '/v1/files',
    summary: 'List files',
    errors: [400, 401, 403, 422, 500],
    query: z.strictObject({
      ...pageAfter,
      order: z.enum(['asc', 'desc']).default('desc').describe('By time of creation'),
      purpose: z.enum(filePurposes).optional(),
    }),
    response: pageOf(fileRecord),
  }),
  getFile: endpoint({
    ...files,
    method: 'GET',
    path: '/v1/files/{id}',
    summary: 'Get a file',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: fileRecord,
  }),
  downloadFile: endpoint({
    ...files,
    method: 'GET',
    path: '/v1/files/{id}/content',
    summary: 'Download a file',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: z.string(),
    answers: 'file',
  }),
  deleteFile: endpoint({
    ...files,
    method: 'DELETE',
    path: '/v1/files/{id}',
    summary: 'Delete a file that no running batch reads',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: z.object({ id: z.string(), object: z.literal('file'), deleted: z.literal(true) }),
  }),
}

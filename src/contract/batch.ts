/** Batches of requests (v1), in the form of OpenAI's API. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { batchPaths, batchStatuses, batchWaits, type BatchPath } from './batch-state.ts'
import { endpoint } from './endpoint.ts'
import { openaiForm } from './error-form.ts'
import { expiresAfter, pageAfter, pageOf } from './file.ts'
import { textIdParams, usdAmount } from './shared.ts'

const MAX_METADATA = 16
const metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine((pairs) => Object.keys(pairs).length <= MAX_METADATA, `Must have at most ${MAX_METADATA} entries`)

const second = z.int().nullable().describe('In seconds since 1970')

const batchRecord = z
  .object({
    id: z.string(),
    object: z.literal('batch'),
    endpoint: z.string(),
    model: z.string().nullable().describe('null: not read yet'),
    errors: z
      .object({
        object: z.literal('list'),
        data: z.array(
          z.object({
            code: z.string(),
            line: z.int().nullable(),
            message: z.string(),
            param: z.string().nullable(),
          }),
        ),
      })
      .nullable()
      .describe('What is wrong with the input file'),
    input_file_id: z.string(),
    completion_window: z.literal('24h'),
    status: z.enum(batchStatuses),
    output_file_id: z.string().nullable().describe('null: no line has an answer, or the batch has not ended'),
    error_file_id: z.string().nullable().describe('null: no line has failed, or the batch has not ended'),
    created_at: z.int(),
    in_progress_at: second,
    expires_at: z.int(),
    finalizing_at: second,
    completed_at: second,
    failed_at: second,
    expired_at: second,
    cancelling_at: second,
    cancelled_at: second,
    request_counts: z.object({ total: z.int(), completed: z.int(), failed: z.int() }),
    metadata: z.record(z.string(), z.string()).nullable(),
    cost_usd: usdAmount.describe('Charged so far'),
    waiting_for: z.enum(batchWaits).nullable().describe('Why a batch in progress does not advance; null: it does'),
  })
  .meta({ id: 'Batch' })

const batches = { family: 'v1', tag: 'Inference', access: ['inference'], errorForm: openaiForm } as const

export const batchEndpoints = {
  createBatch: endpoint({
    ...batches,
    method: 'POST',
    path: '/v1/batches',
    summary: 'Create a batch',
    description: `Runs the requests of an uploaded file on idle capacity, at the batch price of the model. Each line is \`{"custom_id", "method": "POST", "url", "body"}\`; at most ${limits.batchLines} lines.`,
    errors: [400, 401, 403, 404, 422, 500],
    body: z
      .strictObject({
        input_file_id: z.string().min(1).max(100),
        endpoint: z.enum(batchPaths as [BatchPath, ...BatchPath[]]).describe('The `url` of every line'),
        completion_window: z.literal('24h'),
        metadata: metadata.nullable().optional(),
        output_expires_after: expiresAfter.optional(),
      })
      .meta({ id: 'CreateBatch' }),
    response: batchRecord,
    idempotent: true,
  }),
  listBatches: endpoint({
    ...batches,
    method: 'GET',
    path: '/v1/batches',
    summary: 'List batches, newest first',
    errors: [400, 401, 403, 404, 422, 500],
    query: z.strictObject(pageAfter),
    response: pageOf(batchRecord),
  }),
  getBatch: endpoint({
    ...batches,
    method: 'GET',
    path: '/v1/batches/{id}',
    summary: 'Get a batch',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: batchRecord,
  }),
  cancelBatch: endpoint({
    ...batches,
    method: 'POST',
    path: '/v1/batches/{id}/cancel',
    summary: 'Cancel a batch',
    description: 'Lines that have an answer are kept and charged, the others are not run.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: batchRecord,
  }),
}

/** Batches of messages, in the form of Anthropic's API: another door to the batches of `batch.ts` with the endpoint `/v1/messages`. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { messageErrorForm } from './message-error.ts'
import { messageBody } from './message.ts'
import { textIdParams, timestamp } from './shared.ts'

const MAX_ID_CHARS = 512
const PAGE_ROWS = 20

const messageBatch = z
  .object({
    id: z.string(),
    type: z.literal('message_batch'),
    processing_status: z.enum(['in_progress', 'canceling', 'ended']),
    request_counts: z
      .object({
        processing: z.int(),
        succeeded: z.int(),
        errored: z.int(),
        canceled: z.int(),
        expired: z.int(),
      })
      .describe('All are `processing` until the batch has ended'),
    created_at: timestamp,
    expires_at: timestamp,
    cancel_initiated_at: timestamp.nullable(),
    ended_at: timestamp.nullable(),
    archived_at: timestamp.nullable().describe('When the results were deleted'),
    results_url: z.string().nullable().describe('null: the batch has not ended, or its results were deleted'),
  })
  .meta({ id: 'MessageBatch' })

const batches = { family: 'v1', tag: 'Inference', access: ['inference'], errorForm: messageErrorForm } as const
const path = '/v1/messages/batches/{id}'
const params = textIdParams

export const messageBatchEndpoints = {
  createMessageBatch: endpoint({
    ...batches,
    method: 'POST',
    path: '/v1/messages/batches',
    summary: 'Create a batch of messages',
    description: `Runs messages on idle capacity, at the batch price of their model, which must be the same for all. At most ${limits.batchLines} requests and ${limits.inferenceBodyBytes / 1_048_576} MiB; upload a file and use \`/v1/batches\` for more.`,
    errors: [400, 401, 403, 404, 500],
    maxBytes: limits.inferenceBodyBytes,
    body: z
      .looseObject({
        requests: z
          .array(
            z.strictObject({
              custom_id: z.string().min(1).max(MAX_ID_CHARS).describe('Unique in the batch'),
              params: messageBody.extend({ stream: z.literal(false).nullable().optional() }).describe('A message'),
            }),
          )
          .min(1)
          .max(limits.batchLines),
      })
      .meta({ id: 'CreateMessageBatch' }),
    response: messageBatch,
    idempotent: true,
  }),
  listMessageBatches: endpoint({
    ...batches,
    method: 'GET',
    path: '/v1/messages/batches',
    summary: 'List batches of messages, newest first',
    errors: [400, 401, 403, 404, 500],
    query: z.strictObject({
      after_id: z.string().max(100).optional().describe('`last_id` of a page, for the one after it'),
      before_id: z.string().max(100).optional().describe('`first_id` of a page, for the one before it'),
      limit: z.coerce.number().int().min(1).max(limits.pageRows).default(PAGE_ROWS),
    }),
    response: z.object({
      data: z.array(messageBatch),
      first_id: z.string().nullable(),
      last_id: z.string().nullable(),
      has_more: z.boolean(),
    }),
  }),
  getMessageBatch: endpoint({
    ...batches,
    method: 'GET',
    path,
    summary: 'Get a batch of messages',
    errors: [400, 401, 403, 404, 500],
    params,
    response: messageBatch,
  }),
  getMessageBatchResults: endpoint({
    ...batches,
    method: 'GET',
    path: `${path}/results`,
    summary: 'Download the results of a batch of messages',
    description:
      'A line per request, in any order: `{"custom_id", "result"}`, where the `type` of the result is `succeeded`, `errored`, `canceled` or `expired`.',
    errors: [400, 401, 403, 404, 500],
    params,
    response: z.string(),
    answers: 'file',
  }),
  cancelMessageBatch: endpoint({
    ...batches,
    method: 'POST',
    path: `${path}/cancel`,
    summary: 'Cancel a batch of messages',
    description: 'Requests that have an answer are kept and charged, the others are not run.',
    errors: [400, 401, 403, 404, 500],
    params,
    response: messageBatch,
  }),
  deleteMessageBatch: endpoint({
    ...batches,
    method: 'DELETE',
    path,
    summary: 'Delete a batch of messages that has ended, with its requests and results',
    errors: [400, 401, 403, 404, 500],
    params,
    response: z.object({ id: z.string(), type: z.literal('message_batch_deleted') }),
  }),
}

/** The log of an account's inference requests. Bodies are stored only if the account opts in. */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { pageQuery, textIdParams, time, timestamp, usdAmount } from './shared.ts'
import { requestOperations, requestOutcomes } from './choices.ts'

export const requestOutcome = z.enum(requestOutcomes)

const loggedRequest = z
  .object({
    requestId: z.string().describe('As in the `X-Inference-Request-Id` header'),
    at: timestamp,
    keyId: z.string(),
    operation: z.string().describe('The protocol of a chat (chat, responses, messages), or the kind of work'),
    model: z.string(),
    status: z.number().describe('HTTP status of the response'),
    outcome: requestOutcome.describe(
      'cut: the client disconnected early; broken: the engine failed midway; failed: not answered',
    ),
    reason: z.string().nullable().describe('Why it was not answered completely'),
    streamed: z.boolean(),
    inputUnits: z.number().describe('Prompt tokens, characters to speak, or milliseconds of sound to transcribe'),
    cachedUnits: z.number().describe('Input tokens the engine had cached'),
    outputUnits: z.number().describe('Output tokens, or pixels times steps'),
    costUsd: usdAmount,
    firstByteMs: z.number().nullable().describe('null: no byte was sent'),
    totalMs: z.number(),
    traceId: z.string().describe('From the `traceparent` header, or generated'),
    batchId: z.string().nullable().describe('The batch that it is a line of; null: it was sent by itself'),
  })
  .meta({ id: 'LoggedRequest' })

const log = { family: 'v2', tag: 'Usage and billing' } as const

export const requestLogEndpoints = {
  listInferenceRequests: endpoint({
    ...log,
    method: 'GET',
    path: '/v2/usage/requests',
    access: ['inference', 'billing:read'],
    summary: 'List inference requests and their outcomes, newest first',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({
      model: z.string().max(200).optional(),
      keyId: z.string().max(100).optional(),
      operation: z.enum(requestOperations).optional(),
      outcome: requestOutcome.optional(),
      inBatch: z.stringbool().optional().describe('true: only lines of batches; false: no lines of batches'),
      since: time.optional(),
    }),
    response: z.object({ requests: z.array(loggedRequest), nextCursor: z.string().nullable() }),
  }),
  getInferenceRequest: endpoint({
    ...log,
    method: 'GET',
    path: '/v2/usage/requests/{id}',
    access: ['inference'],
    summary: 'Get an inference request, with its bodies if the account stores them',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: loggedRequest
      .extend({
        requestBody: z.string().nullable().describe('null: not stored, or already deleted'),
        responseBody: z.string().nullable(),
      })
      .meta({ id: 'LoggedRequestWithBodies' }),
  }),
}

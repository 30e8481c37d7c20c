/** The log of an account's inference requests. Texts are in it only where the account has chosen to keep them. */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { pageQuery, textIdParams, timeText } from './shared.ts'

export const requestOutcome = z.enum(['answered', 'cut', 'broken', 'failed'])

const loggedRequest = z
  .object({
    requestId: z.string().describe('Of the `X-Inference-Request-Id` header'),
    at: z.string(),
    keyId: z.string(),
    operation: z.string(),
    model: z.string(),
    status: z.number().describe('Of the answer, as HTTP has it'),
    outcome: requestOutcome.describe(
      'cut: the client went away before the end; broken: the engine failed in the middle; failed: not answered',
    ),
    reason: z.string().nullable().describe('Why it was not answered to the end'),
    streamed: z.boolean(),
    inputUnits: z.number().describe('Tokens of the prompt, or characters to speak'),
    cachedUnits: z.number().describe('Of the input, what the engine had cached'),
    outputUnits: z.number().describe('Tokens of the answer, or pixels times steps'),
    costUsd: z.string(),
    firstByteMs: z.number().nullable().describe('null: no byte came'),
    totalMs: z.number(),
    traceId: z.string().describe('Of the `traceparent` that came with it, or made here'),
  })
  .meta({ id: 'LoggedRequest' })

const log = { family: 'v2', tag: 'Usage and billing' } as const

export const requestLogEndpoints = {
  listInferenceRequests: endpoint({
    ...log,
    method: 'GET',
    path: '/v2/usage/requests',
    access: ['inference', 'billing:read'],
    summary: 'Inference requests and what became of them, newest first',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({
      model: z.string().max(200).optional(),
      keyId: z.string().max(100).optional(),
      outcome: requestOutcome.optional(),
      since: timeText.optional(),
    }),
    response: z.object({ requests: z.array(loggedRequest), nextCursor: z.string().nullable() }),
  }),
  getInferenceRequest: endpoint({
    ...log,
    method: 'GET',
    path: '/v2/usage/requests/{id}',
    access: ['inference'],
    summary: 'One inference request, with its texts where the account keeps them',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: loggedRequest
      .extend({
        requestBody: z.string().nullable().describe('null: not kept, or not any more'),
        responseBody: z.string().nullable(),
      })
      .meta({ id: 'LoggedRequestWithBodies' }),
  }),
}

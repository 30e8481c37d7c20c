/**
 * OpenAI's Responses API. Fields that Berth does not know are accepted, and so are tools that only the vendor could run:
 * agents send whatever their newest version has. The dialect (`gateway/dialect/response.ts`) ignores them by name.
 */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { inference, modelName } from './inference.ts'
import { responseErrorForm } from './response-error.ts'
import { textIdParams } from './shared.ts'

const MAX_TOOLS = 1_024
const MAX_ITEMS = 100_000
const MAX_METADATA_KEYS = 16
const MAX_METADATA_KEY_CHARS = 64
const MAX_METADATA_VALUE_CHARS = 512

/** The fields that an item of this type cannot do without. */
const requiredFields: Readonly<Record<string, readonly string[]>> = {
  message: ['role', 'content'],
  function_call: ['call_id', 'name', 'arguments'],
  custom_tool_call: ['call_id', 'name', 'input'],
  function_call_output: ['call_id', 'output'],
  custom_tool_call_output: ['call_id', 'output'],
  item_reference: ['id'],
}

const part = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  refusal: z.string().optional(),
  image_url: z.string().nullable().optional(),
  detail: z.string().nullable().optional(),
})
const parts = z.union([z.string(), z.array(part)])

const inputItem = z
  .looseObject({
    type: z.string().optional().describe('Absent: `message`'),
    id: z.string().nullable().optional(),
    role: z.enum(['user', 'assistant', 'system', 'developer']).optional(),
    content: parts.nullable().optional(),
    summary: z.array(part).nullable().optional(),
    encrypted_content: z.string().nullable().optional(),
    call_id: z.string().optional(),
    name: z.string().optional(),
    namespace: z.string().nullable().optional(),
    arguments: z.string().optional(),
    input: z.string().optional(),
    output: parts.optional(),
  })
  .superRefine((item, context) => {
    for (const name of requiredFields[item.type ?? 'message'] ?? []) {
      if (item[name] === undefined || item[name] === null)
        context.addIssue({ code: 'invalid_type', expected: 'string', path: [name] })
    }
  })

const tool = z.looseObject({
  type: z.string(),
  name: z.string().optional(),
  description: z.string().nullable().optional(),
  parameters: z.record(z.string(), z.unknown()).nullable().optional(),
  strict: z.boolean().nullable().optional(),
  tools: z.array(z.looseObject({ type: z.string(), name: z.string().optional() })).optional(),
})

const prompt = {
  model: modelName,
  input: z
    .union([z.string(), z.array(inputItem).max(MAX_ITEMS)])
    .optional()
    .describe('A text of the user, or items: messages, reasoning, calls and their results'),
  instructions: z.string().nullable().optional(),
  previous_response_id: z
    .string()
    .max(100)
    .nullable()
    .optional()
    .describe('A stored response that this one continues; its `instructions` are not inherited'),
  tools: z
    .array(tool)
    .max(MAX_TOOLS)
    .nullable()
    .optional()
    .describe('`function`, `custom` and `namespace`; others are ignored'),
  tool_choice: z
    .union([z.string(), z.looseObject({ type: z.string(), name: z.string().optional() })])
    .nullable()
    .optional(),
  parallel_tool_calls: z.boolean().nullable().optional(),
  reasoning: z.looseObject({ effort: z.string().nullable().optional() }).nullable().optional(),
  text: z
    .looseObject({
      format: z
        .looseObject({
          type: z.string(),
          name: z.string().optional(),
          schema: z.record(z.string(), z.unknown()).optional(),
        })
        .nullable()
        .optional(),
    })
    .nullable()
    .optional(),
  truncation: z.string().nullable().optional().describe('Only `disabled`'),
}

const metadata = z
  .record(z.string().max(MAX_METADATA_KEY_CHARS), z.string().max(MAX_METADATA_VALUE_CHARS))
  .refine((pairs) => Object.keys(pairs).length <= MAX_METADATA_KEYS, `has at most ${MAX_METADATA_KEYS} keys`)

const responseBody = z
  .looseObject({
    ...prompt,
    include: z.array(z.string()).nullable().optional(),
    max_output_tokens: z.int().min(1).nullable().optional().describe('Lowered to what the model and its context leave'),
    metadata: metadata.nullable().optional(),
    prompt_cache_key: z
      .string()
      .nullable()
      .optional()
      .describe('Requests with the same key go to the same engine if possible'),
    store: z.boolean().nullable().optional().describe('Default: true, unless the account stores no responses'),
    stream: z.boolean().nullable().optional(),
    temperature: z.number().min(0).max(2).nullable().optional(),
    top_p: z.number().min(0).max(1).nullable().optional(),
    top_logprobs: z.int().min(0).max(20).nullable().optional(),
    background: z.boolean().nullable().optional().describe('Only false'),
  })
  .meta({ id: 'ResponseRequest' })

const usage = z.object({
  input_tokens: z.int().describe('With those that the engine had cached'),
  input_tokens_details: z.object({ cached_tokens: z.int(), cache_write_tokens: z.literal(0) }),
  output_tokens: z.int(),
  output_tokens_details: z.object({ reasoning_tokens: z.int() }),
  total_tokens: z.int(),
})

const item = z.looseObject({ type: z.string(), id: z.string() })

const response = z
  .looseObject({
    id: z.string(),
    object: z.literal('response'),
    created_at: z.int(),
    completed_at: z.int().nullable(),
    status: z.enum(['in_progress', 'completed', 'incomplete', 'failed']),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    incomplete_details: z.object({ reason: z.enum(['max_output_tokens', 'content_filter']) }).nullable(),
    model: z.string(),
    output: z.array(item),
    usage: usage.nullable(),
    previous_response_id: z.string().nullable(),
    store: z.boolean().describe('Whether `GET /v1/responses/{id}` and `previous_response_id` find it'),
  })
  .meta({ id: 'Response' })

const event = z
  .looseObject({ type: z.string(), sequence_number: z.int() })
  .describe('With `stream: true`: named events; the last is `response.completed`, `.incomplete` or `.failed`.')
  .meta({ id: 'ResponseEvent' })

const example = { model: 'tinyllama-1.1b-chat', input: 'What is a berth?', max_output_tokens: 200 }

const stored = { family: 'v1', tag: 'Inference', access: ['inference'], errorForm: responseErrorForm } as const

export const responseEndpoints = {
  createResponse: endpoint({
    ...inference,
    errorForm: responseErrorForm,
    method: 'POST',
    path: '/v1/responses',
    summary: 'Create a response',
    description: `For clients of OpenAI's Responses API, at the price of a chat. With \`stream: true\`, the response is a stream of named server-sent events. A response is stored for ${limits.responseDays} days unless \`store\` is false. The header \`X-Berth-Ignored\` names what only another service could honor.`,
    errors: [400, 401, 402, 403, 404, 500],
    body: responseBody,
    example,
    response,
    chunk: event,
  }),
  countResponseTokens: endpoint({
    ...stored,
    method: 'POST',
    path: '/v1/responses/input_tokens',
    summary: 'Count the input tokens of a response',
    description:
      'Free. The header `X-Berth-Token-Count` is `exact` where the engine has counted, else `estimate`: a quarter of the bytes.',
    errors: [400, 401, 403, 404, 500],
    // The count depends on nothing else: other parameters are dropped unread.
    body: z.object(prompt).meta({ id: 'ResponseTokensRequest' }),
    response: z.object({ object: z.literal('response.input_tokens'), input_tokens: z.int() }),
  }),
  getResponse: endpoint({
    ...stored,
    method: 'GET',
    path: '/v1/responses/{id}',
    summary: 'Get a stored response',
    description: 'With `stream=true`: its events, as they were sent when it was created.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    query: z.looseObject({
      stream: z.stringbool().optional(),
      starting_after: z.coerce.number().int().min(0).optional().describe('Only events with a higher sequence number'),
    }),
    response,
    chunk: event,
  }),
  deleteResponse: endpoint({
    ...stored,
    method: 'DELETE',
    path: '/v1/responses/{id}',
    summary: 'Delete a stored response',
    description: 'Responses that continue it remain, and can be continued no more.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: z.object({ id: z.string(), object: z.literal('response'), deleted: z.literal(true) }),
  }),
  listResponseInput: endpoint({
    ...stored,
    method: 'GET',
    path: '/v1/responses/{id}/input_items',
    summary: 'List the input items of a stored response',
    description: 'Also those of the responses that it continues, and their output.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    query: z.looseObject({
      after: z.string().max(100).optional().describe('`last_id` of the previous page'),
      limit: z.coerce.number().int().min(1).max(100).default(20),
      order: z.enum(['asc', 'desc']).default('desc'),
    }),
    response: z.object({
      object: z.literal('list'),
      data: z.array(item),
      first_id: z.string().nullable(),
      last_id: z.string().nullable(),
      has_more: z.boolean(),
    }),
  }),
}

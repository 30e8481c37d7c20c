/**
 * Anthropic's Messages API. Fields that Berth does not know are accepted, and so are tools that only the vendor could run:
 * agents send whatever their newest version has. The dialect (`gateway/dialect/message.ts`) ignores them by name.
 */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { inference, modelName } from './inference.ts'
import { messageErrorForm } from './message-error.ts'

const MAX_STOPS = 1_024
const MAX_TOOLS = 1_024

/** The fields that a part of this type cannot do without. */
const requiredFields: Readonly<Record<string, readonly string[]>> = {
  text: ['text'],
  image: ['source'],
  document: ['source'],
  thinking: ['thinking'],
  tool_use: ['id', 'name'],
  tool_result: ['tool_use_id'],
}

const source = z.looseObject({
  type: z.string(),
  media_type: z.string().optional(),
  data: z.string().optional(),
  url: z.string().optional(),
})

const contentPart = z
  .looseObject({
    type: z.string(),
    text: z.string().optional(),
    source: z.union([source, z.string()]).optional(),
    thinking: z.string().optional(),
    id: z.string().optional(),
    name: z.string().optional(),
    input: z.unknown().optional(),
    tool_use_id: z.string().optional(),
    content: z.unknown().optional().describe('Of a result: a text, or a list of parts'),
    is_error: z.boolean().nullable().optional(),
  })
  .superRefine((part, context) => {
    for (const name of requiredFields[part.type] ?? []) {
      const expected = name === 'source' ? 'object' : 'string'
      if (part[name] === undefined) context.addIssue({ code: 'invalid_type', expected, path: [name] })
    }
  })

const systemPart = z.looseObject({ type: z.string(), text: z.string() })

const messageParam = z.looseObject({
  role: z.enum(['user', 'assistant', 'system']),
  content: z.union([z.string(), z.array(contentPart)]),
})

const tool = z.looseObject({
  type: z.string().nullable().optional(),
  name: z.string().optional(),
  description: z.string().nullable().optional(),
  input_schema: z.record(z.string(), z.unknown()).nullable().optional().describe('Tools without one are ignored'),
})

const jsonFormat = z.looseObject({ type: z.string(), schema: z.record(z.string(), z.unknown()).optional() })

const prompt = {
  model: modelName,
  messages: z.array(messageParam).min(1),
  system: z
    .union([z.string(), z.array(systemPart)])
    .nullable()
    .optional(),
  tools: z.array(tool).max(MAX_TOOLS).nullable().optional(),
  tool_choice: z
    .looseObject({
      type: z.enum(['auto', 'any', 'tool', 'none']),
      name: z.string().optional(),
      disable_parallel_tool_use: z.boolean().nullable().optional(),
    })
    .nullable()
    .optional(),
  thinking: z.looseObject({ type: z.string() }).nullable().optional(),
  output_config: z
    .looseObject({ effort: z.string().nullable().optional(), format: jsonFormat.nullable().optional() })
    .nullable()
    .optional(),
}

export const messageBody = z
  .looseObject({
    ...prompt,
    max_tokens: z.int().min(1).describe('Lowered to what the model and its context leave'),
    stop_sequences: z.array(z.string()).max(MAX_STOPS).nullable().optional(),
    stream: z.boolean().nullable().optional(),
    temperature: z.number().min(0).max(2).nullable().optional(),
    top_p: z.number().min(0).max(1).nullable().optional(),
    top_k: z.int().min(0).nullable().optional(),
    metadata: z
      .looseObject({ user_id: z.string().nullable().optional() })
      .nullable()
      .optional()
      .describe('Requests with the same `user_id` go to the same engine if possible'),
  })
  .meta({ id: 'MessageRequest' })

const answerPart = z.looseObject({ type: z.enum(['text', 'thinking', 'tool_use']) })

const usage = z.object({
  input_tokens: z.int().describe('Without those that the engine had cached'),
  cache_read_input_tokens: z.int(),
  cache_creation_input_tokens: z.int(),
  cache_creation: z.null(),
  output_tokens: z.int(),
  output_tokens_details: z.object({ thinking_tokens: z.int() }),
  server_tool_use: z.null(),
  service_tier: z.null(),
  inference_geo: z.null(),
  speed: z.null(),
})

const message = z
  .object({
    id: z.string(),
    type: z.literal('message'),
    role: z.literal('assistant'),
    model: z.string(),
    content: z.array(answerPart),
    stop_reason: z.string().nullable(),
    stop_sequence: z.string().nullable(),
    stop_details: z.looseObject({ type: z.literal('refusal') }).nullable(),
    container: z.null(),
    diagnostics: z.null(),
    usage,
  })
  .meta({ id: 'Message' })

const event = z
  .looseObject({
    type: z.enum([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
      'ping',
      'error',
    ]),
  })
  .meta({ id: 'MessageEvent' })

const example = {
  model: 'tinyllama-1.1b-chat',
  max_tokens: 200,
  messages: [{ role: 'user' as const, content: 'What is a berth?' }],
}

export const messageEndpoints = {
  createMessage: endpoint({
    ...inference,
    errorForm: messageErrorForm,
    method: 'POST',
    path: '/v1/messages',
    summary: 'Create a message',
    description:
      'For clients of the Anthropic API, at the price of a chat. With `stream: true`, the response is a stream of named server-sent events. The header `X-Berth-Ignored` names what only another service could honor.',
    errors: [400, 401, 402, 403, 404, 500],
    body: messageBody,
    example,
    response: message,
    chunk: event,
  }),
  countMessageTokens: endpoint({
    family: 'v1',
    tag: 'Inference',
    access: ['inference'],
    errorForm: messageErrorForm,
    method: 'POST',
    path: '/v1/messages/count_tokens',
    summary: 'Count the input tokens of a message',
    description:
      'Free. The header `X-Berth-Token-Count` is `exact` where the engine has counted, else `estimate`: a quarter of the bytes.',
    errors: [400, 401, 403, 404, 500],
    // The count depends on nothing else: other parameters are dropped unread.
    body: z.object(prompt).meta({ id: 'MessageTokensRequest' }),
    response: z.object({ input_tokens: z.int() }),
  }),
}

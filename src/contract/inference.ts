/** Serverless inference (v1). */
import { z } from 'zod'
import { chatMessage } from './chat-message.ts'
import { endpoint } from './endpoint.ts'
import { openaiForm } from './error-form.ts'
import { modelKind } from './model.ts'
import { timestamp } from './shared.ts'

export const modelName = z.string().min(1).max(200)
const model = modelName

const maxCompletionTokens = z.int().min(1).nullable().optional().describe('Newer name of `max_tokens`')

const MAX_ANSWERS = 1_024
const MAX_STOPS = 1_024
const MAX_LOGPROBS = 1_000

/** Clients send 64-bit seeds, which exceed the safe integers. */
const seed = z
  .number()
  .min(-(2 ** 63))
  .max(2 ** 64)
  .superRefine((input, context) => {
    // The same issue as for other integers.
    if (!Number.isInteger(input)) context.addIssue({ code: 'invalid_type', expected: 'int', format: 'safeint', input })
  })
  .meta({ type: 'integer' })

const sampling = {
  frequency_penalty: z.number().min(0).max(1).nullable().optional(),
  logit_bias: z.record(z.string(), z.number().min(-100).max(100)).nullable().optional(),
  max_tokens: z.int().min(1).nullable().optional(),
  n: z.int().min(1).max(MAX_ANSWERS).nullable().optional(),
  presence_penalty: z.number().min(0).max(1).nullable().optional(),
  seed: seed.nullable().optional(),
  stop: z
    .union([z.string(), z.array(z.string()).max(MAX_STOPS)])
    .nullable()
    .optional(),
  stream: z.boolean().nullable().optional(),
  temperature: z.number().min(0).max(2).nullable().optional(),
  top_p: z.number().min(0).max(1).nullable().optional(),
  user: z.string().nullable().optional(),
  top_k: z.int().min(-1).nullable().optional(),
  min_p: z.number().min(0).max(1).nullable().optional(),
  repetition_penalty: z.number().min(0).default(1),
}

/** Only the fields Berth uses are validated; the rest goes to the engine unchanged. */
const tool = z.looseObject({
  type: z.string(),
  function: z
    .looseObject({
      name: z.string(),
      description: z.string().nullable().optional(),
      parameters: z.unknown().optional(),
    })
    .optional(),
})

const chatBody = z
  .looseObject({
    messages: z.array(chatMessage).min(1),
    model,
    ...sampling,
    max_completion_tokens: maxCompletionTokens,
    tools: z.array(tool).nullable().optional(),
    tool_choice: z
      .union([z.string(), z.looseObject({ type: z.string() })])
      .nullable()
      .optional()
      .describe('`auto`, `none`, `required`, or the function to call'),
    parallel_tool_calls: z.boolean().nullable().optional(),
    response_format: z
      .looseObject({ type: z.string(), json_schema: z.looseObject({ name: z.string() }).nullable().optional() })
      .nullable()
      .optional()
      .describe('`text`, `json_object`, or `json_schema` with a schema'),
    stream_options: z
      .looseObject({ include_usage: z.boolean().nullable().optional() })
      .nullable()
      .optional()
      .describe('`include_usage`: the last chunk has the usage'),
    logprobs: z
      .union([z.boolean(), z.int().min(0).max(MAX_LOGPROBS)])
      .nullable()
      .optional()
      .describe('`true`, or the number of alternatives per token (at most 20 are returned)'),
    top_logprobs: z.int().min(0).max(20).nullable().optional(),
  })
  .meta({ id: 'ChatCompletionRequest' })

const usage = z.object({
  prompt_tokens: z.int(),
  total_tokens: z.int(),
  completion_tokens: z.int(),
  prompt_tokens_details: z
    .looseObject({ cached_tokens: z.int().nullable().optional() })
    .nullable()
    .optional()
    .describe('`cached_tokens`: prompt tokens the engine had cached'),
})

/** A tool call, as the engine returns it. In a stream the parts of one call share an `index`. */
const toolCall = z.looseObject({
  index: z.int().optional(),
  id: z.string().nullable().optional(),
  type: z.string().nullable().optional(),
  function: z.looseObject({ name: z.string().nullable().optional(), arguments: z.string().nullable().optional() }),
})
const toolCalls = z.array(toolCall).nullable().optional()
const logprobs = z.record(z.string(), z.unknown()).nullable().optional()

const chatCompletion = z
  .object({
    id: z.string(),
    object: z.literal('chat.completion'),
    created: z.int(),
    model: z.string(),
    choices: z.array(
      z.object({
        index: z.int(),
        message: z.object({ role: z.literal('assistant'), content: z.string().nullable(), tool_calls: toolCalls }),
        logprobs,
        finish_reason: z.string(),
      }),
    ),
    usage,
  })
  .meta({ id: 'ChatCompletion' })

/** A text as token IDs of the model. */
export const tokenList = z.array(z.int().min(0)).min(1)

const textCompletion = z
  .object({
    id: z.string(),
    object: z.literal('text_completion'),
    created: z.int(),
    model: z.string(),
    choices: z.array(z.object({ index: z.int(), text: z.string(), logprobs, finish_reason: z.string() })),
    usage,
  })
  .meta({ id: 'TextCompletion' })

/** Chunks of a streamed response. `usage` is on a last chunk without choices, and only if requested. */
const chunkFields = { id: z.string(), created: z.int(), model: z.string(), usage: usage.nullable().optional() }
const chatChunk = z
  .object({
    ...chunkFields,
    object: z.literal('chat.completion.chunk'),
    choices: z.array(
      z.object({
        index: z.int(),
        delta: z.object({
          role: z.literal('assistant').optional(),
          content: z.string().nullable().optional(),
          tool_calls: toolCalls,
        }),
        logprobs,
        finish_reason: z.string().nullable(),
      }),
    ),
  })
  .meta({ id: 'ChatCompletionChunk' })
const textChunk = z
  .object({
    ...chunkFields,
    object: z.literal('text_completion'),
    choices: z.array(z.object({ index: z.int(), text: z.string(), logprobs, finish_reason: z.string().nullable() })),
  })
  .meta({ id: 'TextCompletionChunk' })

const modelRecord = z
  .object({
    id: z.string(),
    object: z.literal('model'),
    type: z.literal('model'),
    display_name: z.string(),
    created: z.int(),
    created_at: timestamp,
    owned_by: z.string(),
    context_length: z.int().nullable(),
    max_input_tokens: z.int().nullable().describe('The same as `context_length`'),
    max_tokens: z.int().nullable().describe('The most output tokens of an answer; null: the context is the limit'),
    input_price: z.number().nullable().describe('USD per million tokens'),
    output_price: z.number().nullable().describe('USD per million tokens'),
    batch_input_price: z.number().nullable().optional().describe('The same for lines of batches'),
    batch_output_price: z.number().nullable().optional(),
    pixel_step_price: z.number().optional().describe('Image models: USD per million pixels times steps'),
    sound_ms_price: z.number().optional().describe('Transcription models: USD per million milliseconds of sound'),
    supports_chat: z.boolean(),
    supports_tools: z.boolean(),
    supports_image_input: z.boolean(),
    kind: modelKind.optional(),
    status: z
      .enum(['ready', 'loading', 'unavailable'])
      .optional()
      .describe('loading: being downloaded or started; unavailable: no deployment runs it'),
  })
  .meta({ id: 'Model' })

export const inference = { family: 'v1', tag: 'Inference', access: ['inference'], answers: 'inference' } as const

/** Operations of OpenAI's API beside those of the published interface. */
export const openaiInference = { ...inference, errorForm: openaiForm } as const

export const inferenceEndpoints = {
  createChatCompletion: endpoint({
    ...inference,
    method: 'POST',
    path: '/v1/chat/completions',
    summary: 'Create a chat completion',
    description: 'With `stream: true`, the response is a stream of server-sent events that ends with `data: [DONE]`.',
    errors: [400, 401, 402, 403, 422, 500],
    body: chatBody,
    example: {
      model: 'tinyllama-1.1b-chat',
      messages: [{ role: 'user', content: 'What is a berth?' }],
      max_tokens: 200,
    },
    response: chatCompletion,
    chunk: chatChunk,
  }),
  createCompletion: endpoint({
    ...openaiInference,
    method: 'POST',
    path: '/v1/completions',
    summary: 'Create a text completion',
    description: 'With `stream: true`, the response is a stream of server-sent events that ends with `data: [DONE]`.',
    errors: [400, 401, 402, 403, 422, 500],
    body: z
      .looseObject({
        prompt: z
          .union([z.string(), z.array(z.string()), tokenList, z.array(tokenList)])
          .describe('One or more inputs, each a text or a list of tokens'),
        model,
        ...sampling,
        max_completion_tokens: maxCompletionTokens,
        logprobs: z.int().min(0).max(20).nullable().optional(),
      })
      .meta({ id: 'CompletionRequest' }),
    example: { model: 'tinyllama-1.1b-chat', prompt: 'A berth is', max_tokens: 40 },
    response: textCompletion,
    chunk: textChunk,
  }),
  listModels: endpoint({
    family: 'v1',
    tag: 'Inference',
    access: ['inference'],
    errorForm: openaiForm,
    method: 'GET',
    path: '/v1/models',
    summary: 'List available models',
    description: 'The list is one page, in a form that clients of OpenAI and of Anthropic read.',
    errors: [401, 403, 500],
    response: z.object({
      object: z.literal('list'),
      data: z.array(modelRecord),
      has_more: z.literal(false),
      first_id: z.string().nullable(),
      last_id: z.string().nullable(),
    }),
  }),
  getModel: endpoint({
    family: 'v1',
    tag: 'Inference',
    access: ['inference'],
    errorForm: openaiForm,
    method: 'GET',
    path: '/v1/models/{id}',
    restOfPath: true,
    summary: 'Get a model',
    description: 'Slashes in the ID can be written as `/` or `%2F`.',
    errors: [400, 401, 403, 404, 500],
    params: z.strictObject({ id: modelName }),
    response: modelRecord,
  }),
}

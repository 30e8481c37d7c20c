/** Serverless inference (v1). */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { modelKind } from './model.ts'

const model = z.string().min(1).max(200)

const chatMessage = z.looseObject({
  role: z.enum(['system', 'assistant', 'user', 'tool', 'developer']),
  content: z
    .union([z.string(), z.array(z.looseObject({ type: z.string() }))])
    .nullable()
    .optional(),
})

const maxCompletionTokens = z.int().min(1).nullable().optional().describe('The newer name of `max_tokens`')

const sampling = {
  frequency_penalty: z.number().min(0).max(1).nullable().optional(),
  logit_bias: z.record(z.string(), z.number().min(-100).max(100)).nullable().optional(),
  max_tokens: z.int().min(1).nullable().optional(),
  n: z.int().min(1).max(128).nullable().optional(),
  presence_penalty: z.number().min(0).max(1).nullable().optional(),
  seed: z.int().nullable().optional(),
  stop: z
    .union([z.string(), z.array(z.string())])
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

/** Only what we look at has a shape; the rest goes to the engine as it came. */
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
      .describe('`include_usage`: the last chunk says what was used'),
    logprobs: z
      .union([z.boolean(), z.int().min(0)])
      .nullable()
      .optional(),
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
    .describe('`cached_tokens`: of the prompt, what the engine had at hand'),
})

/** As the engine gives them. In a stream a call comes in parts, which `index` holds together. */
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

/** Parts of a streamed answer. `usage` comes on a last chunk, with no choices, and only when it was asked for. */
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
    created: z.int(),
    owned_by: z.string(),
    context_length: z.int().nullable(),
    input_price: z.number().nullable().describe('USD per million tokens'),
    output_price: z.number().nullable().describe('USD per million tokens'),
    pixel_step_price: z.number().optional().describe('Of an image model: USD per million pixels times steps'),
    supports_chat: z.boolean(),
    supports_tools: z.boolean(),
    supports_image_input: z.boolean(),
    kind: modelKind.optional(),
    status: z
      .enum(['ready', 'loading', 'unavailable'])
      .optional()
      .describe('loading: it is being downloaded or started; unavailable: nothing runs it at the moment'),
  })
  .meta({ id: 'Model' })

/** Width and height of a picture, in pixels. */
export const pictureSide = z.int().min(128).max(2496)

const imageBody = z
  .looseObject({
    model_name: model,
    prompt: z.string().min(1).max(10_000),
    height: pictureSide.default(1024),
    width: pictureSide.default(1024),
    steps: z.int().min(1).max(1000).default(30),
    cfg_scale: z.number().min(0).max(50).default(5),
    seed: z.int().optional(),
    negative_prompt: z.string().max(10_000).optional(),
    backend: z.string().default('auto'),
    stream: z
      .boolean()
      .nullable()
      .optional()
      .describe('true: events that tell how far it is, and at last the whole answer; default false'),
  })
  .meta({ id: 'ImageGenerationRequest' })

const imageReply = z
  .object({
    images: z.array(z.object({ index: z.int(), image: z.string().describe('PNG, base64'), random_seed: z.int() })),
    inference_time: z.number().describe('Seconds'),
    notes: z.array(z.string()).optional().describe('What the engine has to say about what it made of the request'),
  })
  .meta({ id: 'ImageGeneration' })

/** The same with the names that clients of the OpenAI convention send and read. */
const secondImageBody = z
  .looseObject({
    ...imageBody.shape,
    model_name: model.optional().describe('This or `model` is required'),
    model: model.optional(),
    size: z
      .string()
      .max(20)
      .nullable()
      .optional()
      .describe('Width and height, as in `512x512`; `auto` for the usual one. `width` and `height` come first'),
    n: z.int().min(1).max(1).nullable().optional(),
    response_format: z.enum(['b64_json']).nullable().optional(),
  })
  .meta({ id: 'SecondImageGenerationRequest' })

const secondImageReply = z
  .object({
    ...imageReply.shape,
    created: z.int().describe('Seconds since 1970'),
    data: z.array(z.object({ b64_json: z.string() })).describe('The pictures of `images` once more'),
  })
  .meta({ id: 'SecondImageGeneration' })

/** Events of a streamed picture. `queued` and `progress` come from engines that tell them; then the result or an error. */
const imageEvents = [
  z.object({
    type: z.literal('queued'),
    ahead: z.int().describe('Requests before it, those that are worked on included'),
  }),
  z.object({ type: z.literal('progress'), step: z.int().describe('Steps that are done'), steps: z.int() }),
  z.object({
    type: z.literal('error'),
    error: z.object({
      message: z.string(),
      type: z.string(),
      param: z.string().nullable(),
      code: z.string().nullable().describe('A stable word'),
    }),
  }),
] as const
const imageResult = z.literal('result')
const imageChunk = z
  .discriminatedUnion('type', [...imageEvents, z.object({ type: imageResult, ...imageReply.shape })])
  .meta({ id: 'ImageGenerationEvent' })
const secondImageChunk = z
  .discriminatedUnion('type', [...imageEvents, z.object({ type: imageResult, ...secondImageReply.shape })])
  .meta({ id: 'SecondImageGenerationEvent' })

const IMAGE_STREAM =
  'With `stream: true` the answer is a sequence of server-sent events: how long it waits, how far it is, and at last the whole answer in one event, or an error. A client that goes away pays for the steps that it was told of.'

const inference = { family: 'v1', tag: 'Inference', access: ['inference'], inference: true } as const

export const inferenceEndpoints = {
  createChatCompletion: endpoint({
    ...inference,
    method: 'POST',
    path: '/v1/chat/completions',
    summary: 'Chat',
    description: 'With `stream: true` the answer is a sequence of server-sent events that ends with `data: [DONE]`.',
    errors: [400, 401, 402, 403, 422, 500],
    body: chatBody,
    response: chatCompletion,
    chunk: chatChunk,
  }),
  createCompletion: endpoint({
    ...inference,
    method: 'POST',
    path: '/v1/completions',
    summary: 'Complete a text',
    description: 'With `stream: true` the answer is a sequence of server-sent events that ends with `data: [DONE]`.',
    errors: [400, 401, 402, 403, 422, 500],
    body: z
      .looseObject({
        prompt: z.union([z.string(), z.array(z.string())]),
        model,
        ...sampling,
        max_completion_tokens: maxCompletionTokens,
        logprobs: z.int().min(0).max(20).nullable().optional(),
      })
      .meta({ id: 'CompletionRequest' }),
    response: textCompletion,
    chunk: textChunk,
  }),
  listModels: endpoint({
    family: 'v1',
    tag: 'Inference',
    access: ['inference'],
    method: 'GET',
    path: '/v1/models',
    summary: 'Models that can be called',
    errors: [401, 403, 500],
    response: z.object({ object: z.literal('list'), data: z.array(modelRecord) }),
  }),
  createEmbedding: endpoint({
    ...inference,
    method: 'POST',
    path: '/v1/embeddings',
    summary: 'Turn texts into vectors',
    errors: [400, 401, 402, 403, 422, 500],
    body: z
      .looseObject({
        model,
        input: z.union([z.string(), z.array(z.string()).min(1).max(2048)]),
        encoding_format: z.enum(['float', 'base64']).nullable().optional(),
        dimensions: z.int().min(1).nullable().optional(),
      })
      .meta({ id: 'EmbeddingRequest' }),
    response: z
      .object({
        object: z.literal('list'),
        model: z.string(),
        data: z.array(
          z.object({
            object: z.literal('embedding'),
            index: z.int(),
            embedding: z
              .union([z.array(z.number()), z.string()])
              .describe('With `encoding_format: base64`, 32-bit floats in little-endian order, base64'),
          }),
        ),
        usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
      })
      .meta({ id: 'EmbeddingList' }),
  }),
  generateImage: endpoint({
    ...inference,
    method: 'POST',
    path: '/v1/image/generation',
    summary: 'Make a picture',
    description: IMAGE_STREAM,
    errors: [400, 401, 402, 403, 422, 500],
    body: imageBody,
    response: imageReply,
    chunk: imageChunk,
  }),
  generateImageBySecondPath: endpoint({
    ...inference,
    method: 'POST',
    path: '/v1/images/generations',
    summary: 'Make a picture (second path)',
    description: `Takes the names of the first path, and those of the OpenAI convention. ${IMAGE_STREAM}`,
    errors: [400, 401, 402, 403, 422, 500],
    body: secondImageBody,
    response: secondImageReply,
    chunk: secondImageChunk,
  }),
  generateAudio: endpoint({
    ...inference,
    method: 'POST',
    path: '/v1/audio/generation',
    summary: 'Speak a text',
    errors: [400, 401, 402, 403, 422, 500],
    body: z
      .looseObject({
        text: z.string().min(1).max(100_000),
        language: z.string().max(20).optional(),
        speaker: z.string().max(100).optional(),
        speed: z.number().min(0.1).max(5).default(1),
        model: model.optional(),
      })
      .meta({ id: 'AudioGenerationRequest' }),
    response: z
      .object({
        audio: z.string().describe('MP3, base64'),
        inference_time: z.number(),
        sample_rate: z.number(),
        usage: z.number().describe('Characters'),
        duration: z.number().describe('Seconds'),
      })
      .meta({ id: 'AudioGeneration' }),
  }),
}

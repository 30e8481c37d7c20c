/** Inference that is answered in one piece (v1): embeddings, pictures and speech. */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { inference, modelName, tokenList } from './inference.ts'

const MAX_INPUTS = 2_048
const MAX_PICTURES = 4
const MAX_SPOKEN_CHARS = 100_000

/** Width and height of a picture, in pixels. */
export const pictureSide = z.int().min(128).max(2496)

const imageBody = z
  .looseObject({
    model_name: modelName,
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
    model_name: modelName.optional().describe('This or `model` is required'),
    model: modelName.optional(),
    size: z
      .string()
      .max(20)
      .nullable()
      .optional()
      .describe('Width and height, as in `512x512`; `auto` for the usual one. `width` and `height` come first'),
    n: z.int().min(1).max(MAX_PICTURES).nullable().optional().describe('How many pictures; each costs as one does'),
    response_format: z
      .enum(['b64_json', 'url'])
      .nullable()
      .optional()
      .describe('`url`: as `data:` URLs; default `b64_json`'),
  })
  .meta({ id: 'SecondImageGenerationRequest' })

const secondImageReply = z
  .object({
    ...imageReply.shape,
    created: z.int().describe('Seconds since 1970'),
    data: z
      .array(
        z.object({ b64_json: z.string().optional(), url: z.string().optional().describe('`data:image/png;base64,…`') }),
      )
      .describe('The pictures once more, as `response_format` says'),
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

export const mediaEndpoints = {
  createEmbedding: endpoint({
    ...inference,
    method: 'POST',
    path: '/v1/embeddings',
    summary: 'Turn texts into vectors',
    errors: [400, 401, 402, 403, 422, 500],
    body: z
      .looseObject({
        model: modelName,
        input: z
          .union([
            z.string(),
            z.array(z.string()).min(1).max(MAX_INPUTS),
            tokenList,
            z.array(tokenList).min(1).max(MAX_INPUTS),
          ])
          .describe('One or several, each as text or as tokens of the model'),
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
        text: z.string().min(1).max(MAX_SPOKEN_CHARS),
        language: z.string().max(20).optional(),
        speaker: z.string().max(100).optional(),
        speed: z.number().min(0.1).max(5).default(1),
        model: modelName.optional(),
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
  createSpeech: endpoint({
    ...inference,
    method: 'POST',
    path: '/v1/audio/speech',
    summary: 'Speak a text, and answer with the audio itself',
    description: 'For clients of the OpenAI convention. Costs and speaks the same as `/v1/audio/generation`.',
    errors: [400, 401, 402, 403, 422, 500],
    body: z
      .looseObject({
        input: z.string().min(1).max(MAX_SPOKEN_CHARS),
        model: modelName.optional(),
        voice: z
          .union([z.string().max(100), z.looseObject({ id: z.string().max(100) })])
          .nullable()
          .optional()
          .describe('A speaker of the model. The names of the convention (`alloy`, …) mean the default voice'),
        response_format: z.enum(['mp3']).nullable().optional(),
        speed: z.number().min(0.1).max(5).nullable().optional(),
      })
      .meta({ id: 'SpeechRequest' }),
    answers: 'audio',
    response: z.string().meta({ format: 'binary' }),
  }),
}

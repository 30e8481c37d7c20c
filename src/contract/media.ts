/** Inference for media (v1): embeddings, images and speech. */
import { z } from 'zod'
import { audioFormats } from './audio-format.ts'
import { endpoint } from './endpoint.ts'
import { inference, modelName, openaiInference, tokenList } from './inference.ts'

const MAX_INPUTS = 2_048
const MAX_IMAGES = 4
const MAX_SPOKEN_CHARS = 100_000

/** Width or height of an image, in pixels. */
export const imageSide = z.int().min(128).max(2496)

const imageBody = z
  .looseObject({
    model_name: modelName,
    prompt: z.string().min(1).max(10_000),
    height: imageSide.default(1024),
    width: imageSide.default(1024),
    steps: z.int().min(1).max(1000).default(30),
    cfg_scale: z.number().min(0).max(50).default(5),
    seed: z.int().optional(),
    negative_prompt: z.string().max(10_000).optional(),
    backend: z.string().default('auto'),
    stream: z
      .boolean()
      .nullable()
      .optional()
      .describe('If true, streams progress events and then the whole response; default: false'),
  })
  .meta({ id: 'ImageGenerationRequest' })

const imageReply = z
  .object({
    images: z.array(z.object({ index: z.int(), image: z.string().describe('PNG, base64'), random_seed: z.int() })),
    inference_time: z.number().describe('Seconds'),
    notes: z.array(z.string()).optional().describe('Notes from the engine on how it handled the request'),
  })
  .meta({ id: 'ImageGeneration' })

/** The body with the field names of the OpenAI API. */
const secondImageBody = z
  .looseObject({
    ...imageBody.shape,
    model_name: modelName.optional().describe('Either this or `model` is required'),
    model: modelName.optional(),
    size: z
      .string()
      .max(20)
      .nullable()
      .optional()
      .describe('Width and height, such as `512x512`, or `auto`; `width` and `height` take precedence'),
    n: z.int().min(1).max(MAX_IMAGES).nullable().optional().describe('Number of images; each is billed separately'),
    response_format: z
      .enum(['b64_json', 'url'])
      .nullable()
      .optional()
      .describe('`url`: as `data:` URLs; default: `b64_json`'),
    partial_images: z
      .int()
      .min(0)
      .max(3)
      .nullable()
      .optional()
      .describe(
        'With `stream: true` and `n: 1`: the number of unfinished images to send before the image. Fewer are sent if there are few steps, and none by engines without them; they are free',
      ),
  })
  .meta({ id: 'SecondImageGenerationRequest' })

const secondImageReply = z
  .object({
    ...imageReply.shape,
    created: z.int().describe('Unix time in seconds'),
    data: z
      .array(
        z.object({ b64_json: z.string().optional(), url: z.string().optional().describe('`data:image/png;base64,…`') }),
      )
      .describe('The images in the requested `response_format`'),
  })
  .meta({ id: 'SecondImageGeneration' })

const streamError = z.object({
  type: z.literal('error'),
  error: z.object({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string().nullable().describe('Stable, for programs'),
  }),
})

/** Events of a streamed image: `queued` and `progress` from engines that report them, then the result or an error. */
const imageEvents = [
  z.object({
    type: z.literal('queued'),
    ahead: z.int().describe('Requests ahead of it, including those in progress'),
  }),
  z.object({ type: z.literal('progress'), step: z.int().describe('Completed steps'), steps: z.int() }),
  streamError,
] as const
const openaiImage = {
  b64_json: z.string().describe('PNG, base64'),
  created_at: z.int(),
  size: z.string(),
  quality: z.literal('auto'),
  background: z.literal('auto'),
  output_format: z.literal('png'),
} as const
const partialImage = z.object({
  type: z.literal('image_generation.partial_image'),
  partial_image_index: z.int(),
  ...openaiImage,
})
/** OpenAI counts usage in tokens, of which images have none here. The last two fields are ours. */
const completedImage = z.object({
  type: z.literal('image_generation.completed'),
  ...openaiImage,
  usage: z.object({
    input_tokens: z.literal(0),
    output_tokens: z.literal(0),
    total_tokens: z.literal(0),
    input_tokens_details: z.object({ image_tokens: z.literal(0), text_tokens: z.literal(0) }),
  }),
  random_seed: z.int(),
  notes: imageReply.shape.notes,
})
const imageChunk = z
  .discriminatedUnion('type', [...imageEvents, z.object({ type: z.literal('result'), ...imageReply.shape })])
  .meta({ id: 'ImageGenerationEvent' })
const secondImageChunk = z
  .discriminatedUnion('type', [partialImage, completedImage, streamError])
  .meta({ id: 'SecondImageGenerationEvent' })

const LEAVING = 'A client that disconnects pays for the steps completed until then.'
const IMAGE_STREAM = `With \`stream: true\`, the response is a stream of server-sent events: queue position, progress, and finally the whole response or an error. ${LEAVING}`
const OPENAI_IMAGE_STREAM = `With \`stream: true\`, the response is a stream of the events of the OpenAI API: as many unfinished images as \`partial_images\` asks for, where the engine has them, then each image, or an error. ${LEAVING}`

/** Events of speech. OpenAI counts tokens; ours are the billed characters. */
const speechChunk = z
  .discriminatedUnion('type', [
    z.object({ type: z.literal('speech.audio.delta'), audio: z.string().describe('A part of the file, base64') }),
    z.object({
      type: z.literal('speech.audio.done'),
      usage: z.object({
        input_tokens: z.int().describe('Billed characters'),
        output_tokens: z.literal(0),
        total_tokens: z.int(),
      }),
    }),
    streamError,
  ])
  .meta({ id: 'SpeechEvent' })
  .describe('With `stream_format: sse`: parts of the file, then its usage or an error.')

const imageExample = { model_name: 'pictogram', prompt: 'a red apple beside a blue cup', width: 512, height: 512 }

export const mediaEndpoints = {
  createEmbedding: endpoint({
    ...openaiInference,
    method: 'POST',
    path: '/v1/embeddings',
    summary: 'Create embeddings',
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
          .describe('One or more inputs, each a text or a list of tokens'),
        encoding_format: z.enum(['float', 'base64']).nullable().optional(),
        dimensions: z.int().min(1).nullable().optional(),
      })
      .meta({ id: 'EmbeddingRequest' }),
    example: { model: 'all-minilm-l6-v2', input: ['a ship', 'a harbour'] },
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
              .describe('With `encoding_format: base64`: little-endian 32-bit floats in base64'),
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
    summary: 'Generate an image',
    description: IMAGE_STREAM,
    errors: [400, 401, 402, 403, 422, 500],
    body: imageBody,
    example: imageExample,
    response: imageReply,
    chunk: imageChunk,
  }),
  generateImageBySecondPath: endpoint({
    ...openaiInference,
    method: 'POST',
    path: '/v1/images/generations',
    summary: 'Generate an image (second path)',
    description: `Accepts the parameter names of the first path and those of the OpenAI API. ${OPENAI_IMAGE_STREAM}`,
    errors: [400, 401, 402, 403, 422, 500],
    body: secondImageBody,
    example: imageExample,
    response: secondImageReply,
    chunk: secondImageChunk,
  }),
  generateAudio: endpoint({
    ...inference,
    method: 'POST',
    path: '/v1/audio/generation',
    summary: 'Generate speech',
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
    example: { text: 'Welcome aboard.', speed: 1 },
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
    ...openaiInference,
    method: 'POST',
    path: '/v1/audio/speech',
    summary: 'Generate speech and return the audio file',
    description:
      'For OpenAI clients. The price is that of `/v1/audio/generation`. The file is sent while it is synthesized, by engines that can.',
    errors: [400, 401, 402, 403, 422, 500],
    body: z
      .looseObject({
        input: z.string().min(1).max(MAX_SPOKEN_CHARS),
        model: modelName.optional(),
        voice: z
          .union([z.string().max(100), z.looseObject({ id: z.string().max(100) })])
          .nullable()
          .optional()
          .describe('A speaker of the model; the names of the OpenAI API (`alloy`, …) select the default voice'),
        response_format: z
          .enum(audioFormats)
          .nullable()
          .optional()
          .describe(
            'Default: `mp3`. `opus` is in Ogg, and `pcm` has 16-bit samples at 24 kHz. Built-in voices have no `aac`',
          ),
        stream_format: z
          .enum(['audio', 'sse'])
          .nullable()
          .optional()
          .describe('`sse`: events with parts of the file; default: the file'),
        speed: z.number().min(0.1).max(5).nullable().optional(),
      })
      .meta({ id: 'SpeechRequest' }),
    example: { model: 'berth-voices', input: 'Welcome aboard.', voice: 'alloy' },
    answers: 'audio',
    response: z.string().meta({ format: 'binary' }),
    chunk: speechChunk,
  }),
}

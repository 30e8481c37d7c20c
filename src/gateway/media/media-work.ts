/** The requests for each kind of media and protocol, and how their answers are read. */
import { failField, type Failure } from '../../contract/result.ts'
import { noUnits } from '../../domain/inference.ts'
import type { Collected } from '../upstream/collect.ts'
import type { Deployment } from '../catalog.ts'
import type { MediaAnswer, MediaWork } from './media.ts'
import { parseObject } from '../dialect/usage.ts'

const JSON_TYPE = 'application/json'
const FLOAT_BYTES = 4

export interface EmbeddingBody {
  readonly model: string
  /** Texts, or lists of token ids. */
  readonly input: string | readonly string[] | readonly number[] | ReadonlyArray<readonly number[]>
  readonly encoding_format?: 'float' | 'base64' | null | undefined
}

export function embeddingWork(body: EmbeddingBody): MediaWork {
  const { input } = body
  const isOne = typeof input === 'string' || typeof input[0] === 'number'
  const inputs = (isOne ? [input] : input) as ReadonlyArray<string | readonly number[]>
  // The number of bytes is at least the number of tokens; each text has a start and an end token.
  const sizeOf = (text: string | readonly number[]) =>
    typeof text === 'string' ? Buffer.byteLength(text) : text.length
  const inputTokens = inputs.reduce((sum, text) => sum + sizeOf(text) + 2, 0)
  return {
    operation: 'embedding',
    kind: 'embedding',
    modelName: body.model,
    modelField: 'model',
    maxUnits: { ...noUnits, inputTokens },
    refusal: (deployment) => protocolFault(deployment, ['chat', 'embedded'], 'model'),
    request: (deployment) => embeddingRequest(deployment, body),
    read: ({ body: bytes }) => {
      const answer = parseObject(bytes.toString('utf8'))
      const data = readEmbeddings(answer?.['data'], body.encoding_format === 'base64')
      if (data === undefined) return undefined
      const tokens = tokensOf(answer?.['usage']) ?? Math.ceil(inputTokens / 4)
      return {
        body: {
          ...answer,
          object: 'list',
          model: body.model,
          data,
          usage: { prompt_tokens: tokens, total_tokens: tokens },
        },
        units: { ...noUnits, inputTokens: tokens },
      }
    },
    body: { ...body },
  }
}

export function embeddingRequest(deployment: Deployment, body: EmbeddingBody & { readonly truncate?: boolean }) {
  return json('/v1/embeddings', { ...body, ...deployment.members, model: deployment.upstreamModel })
}

/** undefined: the engine reports no usage. */
export function tokensOf(usage: unknown): number | undefined {
  const { prompt_tokens: prompt, total_tokens: total } = (usage ?? {}) as Record<string, unknown>
  return [prompt, total].find((count): count is number => Number.isSafeInteger(count) && (count as number) >= 0)
}

/** undefined: not a list of embeddings. */
export function readVectors(list: unknown): Array<readonly number[]> | undefined {
  const data = readEmbeddings(list, false) as ReadonlyArray<{ embedding: readonly number[] }> | undefined
  return data?.map(({ embedding }) => embedding)
}

/** Not every engine supports both formats, and clients read only the one they asked for. */
function readEmbeddings(list: unknown, asBase64: boolean): unknown[] | undefined {
  if (!Array.isArray(list)) return undefined
  const read: unknown[] = []
  for (const [index, one] of (list as Array<{ embedding?: unknown } | null>).entries()) {
    const vector = one?.embedding
    if (typeof vector !== 'string' && !isVector(vector)) return undefined
    const embedding = asBase64 ? toBase64(vector) : toNumbers(vector)
    read.push({ index, ...one, object: 'embedding', embedding })
  }
  return read
}

function isVector(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'number')
}

/** Encodes the numbers as 32-bit little-endian floats. */
function toBase64(vector: readonly number[] | string): string {
  if (typeof vector === 'string') return vector
  const bytes = Buffer.alloc(vector.length * FLOAT_BYTES)
  for (const [at, value] of vector.entries()) bytes.writeFloatLE(value, at * FLOAT_BYTES)
  return bytes.toString('base64')
}

function toNumbers(vector: readonly number[] | string): readonly number[] {
  if (typeof vector !== 'string') return vector
  const bytes = Buffer.from(vector, 'base64')
  return Array.from({ length: Math.floor(bytes.length / FLOAT_BYTES) }, (_, at) => bytes.readFloatLE(at * FLOAT_BYTES))
}

export interface ImageBody {
  readonly model_name: string
  readonly prompt: string
  readonly height: number
  readonly width: number
  readonly steps: number
  readonly cfg_scale: number
  readonly seed?: number | undefined
  readonly negative_prompt?: string | undefined
}

/** Parameters that OpenAI-compatible image servers do not have. */
const beyondPlainImages = ['negative_prompt', 'seed', 'cfg_scale', 'steps'] as const

export interface ImageForm {
  /** The parameters that the client sent; the others have default values. */
  readonly named: ReadonlySet<string>
  /** The name of the model field in the client's format. */
  readonly modelField: 'model_name' | 'model'
  /** Format of the second copy of the images, for OpenAI clients. */
  readonly data?: 'b64_json' | 'url' | undefined
  /** Number of images; absent: one. */
  readonly count?: number | undefined
  /** Number of unfinished images to report before the image; absent: none. */
  readonly partials?: number | undefined
}

export function imageWork(body: ImageBody, { named, modelField, data, count = 1, partials }: ImageForm): MediaWork {
  const { width, height, steps } = body
  // The customer pays for no more images than requested.
  const unitsOf = (done: number) => ({ ...noUnits, pixelSteps: width * height * Math.min(done, steps * count) })
  const units = unitsOf(steps)
  const seedOf = (part: number) => (body.seed === undefined ? undefined : body.seed + part)
  return {
    operation: 'image',
    kind: 'image',
    modelName: body.model_name,
    modelField,
    maxUnits: unitsOf(steps * count),
    unitsOf,
    refusal: (deployment) => {
      const fault = protocolFault(deployment, ['images', 'txt2img', 'embedded'], modelField)
      if (fault !== undefined || deployment.protocol !== 'images') return fault
      const beyond = beyondPlainImages.find((name) => named.has(name))
      if (beyond === undefined) return undefined
      return failField([beyond], 'not_supported', { feature: beyond })
    },
    request: (deployment, part) => imageRequest(deployment, { ...body, seed: seedOf(part) }, partials),
    parts: { count, steps, merge: (answers) => mergeImages(answers, unitsOf(steps * answers.length)) },
    read: (collected, { seconds, at, part }) => {
      const parsed = parseObject(collected.body.toString('utf8'))
      const images = parsed === undefined ? undefined : readImages(parsed, collected, seedOf(part))
      if (images === undefined) return undefined
      const answer = { images, inference_time: seconds, ...readNotes(parsed?.['notes']) }
      if (data === undefined) return { body: answer, units }
      const again = images.map(({ image }) =>
        data === 'url' ? { url: `data:image/png;base64,${image}` } : { b64_json: image },
      )
      return { body: { ...answer, created: Math.floor(at / 1_000), data: again }, units }
    },
    body: { ...body },
  }
}

/** Merges several answers: the images in order, and all notes. */
function mergeImages(answers: readonly MediaAnswer[], units: MediaAnswer['units']): MediaAnswer {
  const bodies = answers.map((answer) => answer.body as { images: Image[]; data?: unknown[]; notes?: string[] })
  const last = bodies.at(-1)
  const notes = [...new Set(bodies.flatMap((body) => body.notes ?? []))]
  return {
    body: {
      ...last,
      images: bodies.flatMap((body) => body.images).map((image, index) => ({ ...image, index })),
      ...(last?.data === undefined ? {} : { data: bodies.flatMap((body) => body.data ?? []) }),
      ...(notes.length === 0 ? {} : { notes }),
    },
    units,
  }
}

function imageRequest(deployment: Deployment, body: ImageBody, partials: number | undefined) {
  const { prompt, width, height, steps, cfg_scale, seed, negative_prompt } = body
  switch (deployment.protocol) {
    case 'txt2img':
      return json('/sdapi/v1/txt2img', {
        prompt,
        negative_prompt: negative_prompt ?? '',
        width,
        height,
        steps,
        cfg_scale,
        seed: seed ?? -1,
        batch_size: 1,
        override_settings: { sd_model_checkpoint: deployment.upstreamModel },
      })
    case 'images':
      return json('/v1/images/generations', {
        model: deployment.upstreamModel,
        prompt,
        size: `${width}x${height}`,
        n: 1,
        response_format: 'b64_json',
      })
    case 'embedded':
    case 'chat':
    case 'speech':
    case 'tei':
      // Our own engine is asked for events, which show that it is working: an image may take minutes.
      return json('/v1/image/generation', {
        ...body,
        model_name: deployment.upstreamModel,
        stream: true,
        partial_images: partials,
      })
  }
}

interface Image {
  readonly index: number
  readonly image: string
  readonly random_seed: number
}

function readImages(
  answer: Readonly<Record<string, unknown>>,
  { head }: Collected,
  requestedSeed: number | undefined,
): Image[] | undefined {
  const { protocol } = head.deployment
  if (protocol === 'embedded') return readOwnImages(answer['images'])
  const list = protocol === 'images' ? answer['data'] : answer['images']
  if (!Array.isArray(list) || list.length === 0) return undefined
  const images = list.map((one) =>
    protocol === 'images' ? (one as { b64_json?: unknown } | null)?.b64_json : (one as unknown),
  )
  if (!images.every((image) => typeof image === 'string' && image !== '')) return undefined
  const info = typeof answer['info'] === 'string' ? parseObject(answer['info']) : undefined
  const reported = info?.['seed']
  const seed = Number.isSafeInteger(reported) ? (reported as number) : (requestedSeed ?? 0)
  return images.map((image, index) => ({ index, image: String(image), random_seed: seed + index }))
}

function readOwnImages(list: unknown): Image[] | undefined {
  if (!Array.isArray(list) || list.length === 0) return undefined
  const images = list as Array<Partial<Image> | null>
  return images.every((one) => typeof one?.image === 'string' && Number.isSafeInteger(one.random_seed))
    ? images.map((one, index) => ({ index, image: one?.image ?? '', random_seed: one?.random_seed ?? 0 }))
    : undefined
}

/** An engine's notes about the request. */
function readNotes(notes: unknown): { notes?: string[] } {
  const texts = Array.isArray(notes) ? notes.filter((note) => typeof note === 'string') : []
  return texts.length === 0 ? {} : { notes: texts }
}

export function protocolFault(
  deployment: Deployment,
  able: ReadonlyArray<Deployment['protocol']>,
  field: string,
): Failure | undefined {
  return able.includes(deployment.protocol)
    ? undefined
    : failField([field], 'not_supported', { feature: 'this operation' })
}

export function json(path: string, body: unknown) {
  return { path, contentType: JSON_TYPE, body: [Buffer.from(JSON.stringify(body))] }
}

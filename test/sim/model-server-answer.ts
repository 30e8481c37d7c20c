/** The answers of a simulated model server: small, valid, and always the same. */
import zlib from 'node:zlib'

export interface ChatShape {
  readonly id: string
  readonly model: string
  /** One token each. */
  readonly words: readonly string[]
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly finish: 'stop' | 'length'
}

const CREATED = 1_767_225_600
const CHARS_PER_TOKEN = 4

export function countTokens(text: string): number {
  return Math.ceil(text.length / CHARS_PER_TOKEN)
}

/** An invalid body counts as empty: a simulated server does not validate. */
export function parseBody(body: Buffer): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(body.toString())
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

/** vLLM counts a chat; llama.cpp writes its prompt, and counts texts. A letter of that prompt is a token. */
export function tokenizeAnswer(
  tokenizer: 'vllm' | 'llama' | 'none',
  operation: 'tokenize' | 'apply-template',
  { messages, content }: Readonly<Record<string, unknown>>,
): string {
  if (tokenizer === 'none') return '{"object":"unknown"}'
  const count = [messages ?? []].flat().reduce((sum: number, one) => sum + countTokens(JSON.stringify(one)), 0)
  if (operation === 'apply-template') return JSON.stringify({ prompt: '.'.repeat(count) })
  if (tokenizer === 'vllm') return JSON.stringify({ count, max_model_len: 8_192, tokens: [] })
  return JSON.stringify({ tokens: Array.from(typeof content === 'string' ? content : '', () => 1) })
}

function usageOf(shape: ChatShape, completionTokens: number): Record<string, unknown> {
  return {
    prompt_tokens: shape.promptTokens,
    completion_tokens: completionTokens,
    total_tokens: shape.promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: shape.cachedTokens },
  }
}

export function chatAnswer(shape: ChatShape, hasUsage: boolean): string {
  return JSON.stringify({
    id: shape.id,
    object: 'chat.completion',
    created: CREATED,
    model: shape.model,
    choices: [{ index: 0, message: { role: 'assistant', content: shape.words.join('') }, finish_reason: shape.finish }],
    ...(hasUsage ? { usage: usageOf(shape, shape.words.length) } : {}),
  })
}

export function completionAnswer(shape: ChatShape, hasUsage: boolean): string {
  return JSON.stringify({
    id: shape.id,
    object: 'text_completion',
    created: CREATED,
    model: shape.model,
    choices: [{ index: 0, text: shape.words.join(''), finish_reason: shape.finish }],
    ...(hasUsage ? { usage: usageOf(shape, shape.words.length) } : {}),
  })
}

/** The events of a stream: the role, one per word, the finish reason, the usage if requested, and the end marker. */
export function chatEvents(shape: ChatShape, usage: 'always' | 'continuous' | 'none', isChat: boolean): string[] {
  const event = (choices: unknown[], completionTokens: number, hasUsage: boolean): string =>
    `data: ${JSON.stringify({
      id: shape.id,
      object: isChat ? 'chat.completion.chunk' : 'text_completion',
      created: CREATED,
      model: shape.model,
      choices,
      ...(hasUsage ? { usage: usageOf(shape, completionTokens) } : {}),
    })}\n\n`
  const choice = (delta: Record<string, string>, reason: string | null): unknown =>
    isChat
      ? { index: 0, delta, finish_reason: reason }
      : { index: 0, text: delta['content'] ?? '', finish_reason: reason }
  const isContinuous = usage === 'continuous'
  return [
    ...(isChat ? [event([choice({ role: 'assistant', content: '' }, null)], 0, isContinuous)] : []),
    ...shape.words.map((word, n) => event([choice({ content: word }, null)], n + 1, isContinuous)),
    event([choice({}, shape.finish)], shape.words.length, isContinuous),
    ...(usage === 'none' ? [] : [event([], shape.words.length, true)]),
    'data: [DONE]\n\n',
  ]
}

export function embeddingsAnswer(model: string, texts: readonly string[]): string {
  const data = texts.map((text, index) => ({
    object: 'embedding',
    index,
    embedding: Array.from({ length: 8 }, (_, n) => ((text.length + n * 7) % 13) / 13),
  }))
  const tokens = texts.reduce((sum, text) => sum + countTokens(text), 0)
  return JSON.stringify({ object: 'list', model, data, usage: { prompt_tokens: tokens, total_tokens: tokens } })
}

/** Scores by length, best last: callers sort. `tei` has other names, and its tokens are in a header. */
export function rerankAnswer(model: string, query: string, documents: readonly string[], isTei: boolean): string {
  const scores = documents.map((text, index) => ({ index, score: text.length / 100 }))
  scores.sort((one, other) => one.score - other.score)
  if (isTei) return JSON.stringify(scores)
  const results = scores.map(({ index, score }) => ({ index, relevance_score: score }))
  return JSON.stringify({ id: 'rerank-1', model, results, usage: { total_tokens: rerankTokens(query, documents) } })
}

export function rerankTokens(query: string, documents: readonly string[]): number {
  return documents.reduce((sum, text) => sum + countTokens(query + text), 0)
}

export function imagesAnswer(width: number, height: number, count: number): string {
  const image = grayPng(width, height).toString('base64')
  return JSON.stringify({ created: CREATED, data: Array.from({ length: count }, () => ({ b64_json: image })) })
}

export function txt2imgAnswer(width: number, height: number, count: number, seed: number): string {
  const image = grayPng(width, height).toString('base64')
  const info = { seed, all_seeds: Array.from({ length: count }, (_, n) => seed + n), width, height }
  return JSON.stringify({
    images: Array.from({ length: count }, () => image),
    parameters: {},
    info: JSON.stringify(info),
  })
}

export interface ImageShape {
  readonly width: number
  readonly height: number
  readonly steps: number
  readonly seed: number
  readonly notes: readonly string[]
}

/** In the form of our own engine. */
export function imageAnswer(shape: ImageShape): string {
  return JSON.stringify(ownImage(shape))
}

/** The same as events: queued, one per step, the complete answer, and the end marker. */
export function imageEvents(shape: ImageShape): string[] {
  const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
  const { steps } = shape
  return [
    event({ type: 'queued', ahead: 1 }),
    ...Array.from({ length: steps }, (_, n) => event({ type: 'progress', step: n + 1, steps })),
    event({ type: 'result', ...ownImage(shape) }),
    'data: [DONE]\n\n',
  ]
}

function ownImage({ width, height, seed, notes }: ImageShape): Record<string, unknown> {
  const image = grayPng(width, height).toString('base64')
  return { images: [{ index: 0, image, random_seed: seed }], ...(notes.length === 0 ? {} : { notes }) }
}

const PNG_MAGIC = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

/** One bit per pixel, all black. */
export function grayPng(width: number, height: number): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header[8] = 1
  const rows = Buffer.alloc((Math.ceil(width / 8) + 1) * height)
  return Buffer.concat([
    PNG_MAGIC,
    pngChunk('IHDR', header),
    pngChunk('IDAT', zlib.deflateSync(rows)),
    pngChunk('IEND', Buffer.alloc(0)),
  ])
}

function pngChunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data])
  const chunk = Buffer.alloc(body.length + 8)
  chunk.writeUInt32BE(data.length, 0)
  body.copy(chunk, 4)
  chunk.writeUInt32BE(zlib.crc32(body), body.length + 4)
  return chunk
}

const MP3_FRAME_BYTES = 417
/** 1,152 samples at 44,100 Hz. */
const MP3_FRAMES_PER_CHARACTER = 2

/** Silence: MPEG 1, layer III, 128 kbit/s, 44.1 kHz, one channel. */
export function silentMp3(text: string): Buffer {
  const frame = Buffer.alloc(MP3_FRAME_BYTES)
  Buffer.from([0xff, 0xfb, 0x90, 0xc0]).copy(frame)
  return Buffer.concat(Array.from({ length: Math.max(1, text.length * MP3_FRAMES_PER_CHARACTER) }, () => frame))
}

/** Speech in the form of our own engine. */
export function ownSpeech(text: string): string {
  return JSON.stringify({ audio: silentMp3(text).toString('base64'), ...speechFacts(text) })
}

/** The same as events: one per word, whose sound is the word itself, and the facts. */
export function speechEvents(text: string): string[] {
  const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
  let characters = 0
  const parts = text.split(/(?<= )/).map((word) => {
    characters += word.length
    return { type: 'audio', audio: Buffer.from(word).toString('base64'), characters }
  })
  return [...parts, { type: 'result', ...speechFacts(text) }].map(event)
}

function speechFacts(text: string): object {
  return { inference_time: 0.1, sample_rate: 44_100, usage: text.length, duration: 1 }
}

/** A server with a model that knows times says this about every recording. */
export function transcriptionAnswer(isVerbose: boolean): string {
  const segments = [
    { id: 0, seek: 0, start: 0.5, end: 1.25, text: ' The ship left' },
    { id: 1, seek: 0, start: 1.5, end: 3.25, text: ' the harbor --> early.' },
  ]
  const text = segments
    .map((one) => one.text)
    .join('')
    .trim()
  const usage = { type: 'duration', seconds: 99 }
  return JSON.stringify(isVerbose ? { text, language: 'en', duration: 3.5, segments, usage } : { text, usage })
}

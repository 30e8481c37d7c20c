/**
 * Writes a complete language model into a file of about 110 KB, so that every test can run a real engine. It is a llama
 * of one layer with random weights: its output means nothing, but it loads, samples and batches like larger ones.
 *
 * Each byte is a token, so any text round-trips. The first dimension of every embedding is the same number and nothing
 * adds to it; the first column of the output matrix is therefore a bias per token, which makes most output printable and
 * its end rare.
 */
import { writeFile } from 'node:fs/promises'

export interface TinyGgufOptions {
  /** The same seed gives the same file, byte for byte. */
  readonly seed?: number
  /** null: a file without one. undefined: ChatML, with Hermes-style tools. */
  readonly chatTemplate?: string | null
}

export async function writeTinyGguf(path: string, options: TinyGgufOptions = {}): Promise<void> {
  const { seed = 1, chatTemplate = CHAT_TEMPLATE } = options
  await writeFile(path, formatGguf(metadataOf(chatTemplate), tensorsOf(randomNormal(seed))))
}

const CONTEXT_TOKENS = 2048
const WIDTH = 32
const HEADS = 2
const FEED_FORWARD = 64
const BYTE_TOKENS = 256
/** Their ids follow those of the bytes. */
const SPECIAL_TOKENS = ['<s>', '</s>', '<unk>', '<|im_start|>', '<|im_end|>'] as const
const VOCABULARY = BYTE_TOKENS + SPECIAL_TOKENS.length

/** The id of a special token; a byte's id is the byte. */
function tokenId(text: (typeof SPECIAL_TOKENS)[number]): number {
  return BYTE_TOKENS + SPECIAL_TOKENS.indexOf(text)
}

const CHAT_TEMPLATE = `{%- if tools %}<|im_start|>system
You may call these functions:
{% for tool in tools %}
{{ tool | tojson }}
{% endfor %}
Call one with
<tool_call>
{"name": "...", "arguments": {}}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}{{ '\\n' }}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

/** In the file, each value is preceded by its type number. */
type Value =
  | { readonly type: 'uint32'; readonly value: number }
  | { readonly type: 'float32'; readonly value: number }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'string'; readonly value: string }
  | { readonly type: 'strings'; readonly value: readonly string[] }
  | { readonly type: 'int32s'; readonly value: readonly number[] }

const typeNumbers = { uint32: 4, int32: 5, float32: 6, bool: 7, string: 8, array: 9 } as const

const tokenTypes = { normal: 1, unknown: 2, control: 3 } as const

function metadataOf(chatTemplate: string | null): Map<string, Value> {
  const uint32 = (value: number): Value => ({ type: 'uint32', value })
  const string = (value: string): Value => ({ type: 'string', value })
  const specialTypes = SPECIAL_TOKENS.map((text) => (text === '<unk>' ? tokenTypes.unknown : tokenTypes.control))
  return new Map<string, Value>([
    ['general.architecture', string('llama')],
    ['general.name', string('tiny')],
    ['llama.context_length', uint32(CONTEXT_TOKENS)],
    ['llama.embedding_length', uint32(WIDTH)],
    ['llama.block_count', uint32(1)],
    ['llama.feed_forward_length', uint32(FEED_FORWARD)],
    ['llama.attention.head_count', uint32(HEADS)],
    ['llama.attention.head_count_kv', uint32(HEADS)],
    ['llama.attention.layer_norm_rms_epsilon', { type: 'float32', value: 1e-5 }],
    ['llama.rope.dimension_count', uint32(WIDTH / HEADS)],
    ['llama.vocab_size', uint32(VOCABULARY)],
    ['tokenizer.ggml.model', string('gpt2')],
    ['tokenizer.ggml.pre', string('default')],
    ['tokenizer.ggml.tokens', { type: 'strings', value: [...byteTexts(), ...SPECIAL_TOKENS] }],
    [
      'tokenizer.ggml.token_type',
      { type: 'int32s', value: [...Array<number>(BYTE_TOKENS).fill(tokenTypes.normal), ...specialTypes] },
    ],
    ['tokenizer.ggml.merges', { type: 'strings', value: [] }],
    ['tokenizer.ggml.bos_token_id', uint32(tokenId('<s>'))],
    ['tokenizer.ggml.eos_token_id', uint32(tokenId('</s>'))],
    ['tokenizer.ggml.unknown_token_id', uint32(tokenId('<unk>'))],
    ['tokenizer.ggml.add_bos_token', { type: 'bool', value: true }],
    ...(chatTemplate === null ? [] : [['tokenizer.chat_template', string(chatTemplate)] as const]),
  ])
}

/** How byte-level vocabularies write each byte: as itself if printable, else as a letter from 256 on. */
function byteTexts(): string[] {
  const isSeen = (byte: number): boolean =>
    (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte <= 0xff && byte !== 0xad)
  let hidden = 0
  return Array.from({ length: BYTE_TOKENS }, (_, byte) =>
    String.fromCodePoint(isSeen(byte) ? byte : BYTE_TOKENS + hidden++),
  )
}

interface Tensor {
  readonly name: string
  /** The row length comes first. */
  readonly shape: readonly number[]
  readonly values: Float32Array
}

function tensorsOf(normal: () => number): Tensor[] {
  const ones = (name: string): Tensor => ({ name, shape: [WIDTH], values: new Float32Array(WIDTH).fill(1) })
  const matrix = (name: string, rowLength: number, rows: number, scale: number, first?: FirstOf): Tensor => ({
    name,
    shape: [rowLength, rows],
    values: Float32Array.from({ length: rowLength * rows }, (_, at) => {
      const random = normal() * scale
      return first?.(Math.floor(at / rowLength), at % rowLength) ?? random
    }),
  })
  const block = (name: string): string => `blk.0.${name}.weight`
  const even = 1 / Math.sqrt(WIDTH)
  // Row 0 of anything added to the stream stays empty, so that its first dimension keeps the embedding's value.
  const addsNothingToFirst: FirstOf = (row) => (row === 0 ? 0 : undefined)
  return [
    matrix('token_embd.weight', WIDTH, VOCABULARY, 1, (_, column) => (column === 0 ? STEADY : undefined)),
    ones(block('attn_norm')),
    matrix(block('attn_q'), WIDTH, WIDTH, 2 * even),
    matrix(block('attn_k'), WIDTH, WIDTH, 2 * even),
    matrix(block('attn_v'), WIDTH, WIDTH, 2 * even),
    matrix(block('attn_output'), WIDTH, WIDTH, 2 * even, addsNothingToFirst),
    ones(block('ffn_norm')),
    matrix(block('ffn_gate'), WIDTH, FEED_FORWARD, even),
    matrix(block('ffn_up'), WIDTH, FEED_FORWARD, even),
    matrix(block('ffn_down'), FEED_FORWARD, WIDTH, even, addsNothingToFirst),
    ones('output_norm.weight'),
    matrix('output.weight', WIDTH, VOCABULARY, 1.5 * even, (row, column) => (column === 0 ? biasOf(row) : undefined)),
  ]
}

/** A fixed value in place of the random one. undefined: the random one. */
type FirstOf = (row: number, column: number) => number | undefined

/** The last norm scales it to about 1. */
const STEADY = 2

function biasOf(token: number): number {
  const letter = String.fromCodePoint(token)
  if (token === tokenId('</s>') || token === tokenId('<|im_end|>')) return -2.5
  if (token >= BYTE_TOKENS) return -20
  if (/[a-z ]/.test(letter)) return 3
  if (/[A-Z0-9.,!?"'(){}:;\n-]/.test(letter)) return 0.5
  return token > 0x20 && token < 0x7f ? -1 : -6
}

function formatGguf(metadata: ReadonlyMap<string, Value>, tensors: readonly Tensor[]): Buffer {
  const VERSION = 3
  const ALIGNMENT = 32
  const head = new Writer()
  head.bytes(Buffer.from('GGUF'))
  head.uint32(VERSION)
  head.uint64(tensors.length)
  head.uint64(metadata.size)
  for (const [key, value] of metadata) {
    head.string(key)
    writeValue(head, value)
  }
  const body = new Writer()
  const F32 = 0
  for (const { name, shape, values } of tensors) {
    head.string(name)
    head.uint32(shape.length)
    for (const length of shape) head.uint64(length)
    head.uint32(F32)
    head.uint64(body.length)
    for (const value of values) body.float32(value)
    body.align(ALIGNMENT)
  }
  head.align(ALIGNMENT)
  return Buffer.concat([head.toBuffer(), body.toBuffer()])
}

function writeValue(writer: Writer, value: Value): void {
  const writeArray = (type: number, length: number): void => {
    writer.uint32(typeNumbers.array)
    writer.uint32(type)
    writer.uint64(length)
  }
  switch (value.type) {
    case 'uint32':
      writer.uint32(typeNumbers.uint32)
      return writer.uint32(value.value)
    case 'float32':
      writer.uint32(typeNumbers.float32)
      return writer.float32(value.value)
    case 'bool':
      writer.uint32(typeNumbers.bool)
      return writer.bytes(Buffer.of(value.value ? 1 : 0))
    case 'string':
      writer.uint32(typeNumbers.string)
      return writer.string(value.value)
    case 'strings':
      writeArray(typeNumbers.string, value.value.length)
      return value.value.forEach((text) => writer.string(text))
    case 'int32s':
      writeArray(typeNumbers.int32, value.value.length)
      return value.value.forEach((number) => writer.int32(number))
  }
}

/** Little-endian, like the format. */
class Writer {
  readonly #parts: Buffer[] = []
  #length = 0

  get length(): number {
    return this.#length
  }

  bytes(bytes: Buffer): void {
    this.#parts.push(bytes)
    this.#length += bytes.length
  }

  uint32(value: number): void {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32LE(value)
    this.bytes(bytes)
  }

  int32(value: number): void {
    const bytes = Buffer.alloc(4)
    bytes.writeInt32LE(value)
    this.bytes(bytes)
  }

  uint64(value: number): void {
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64LE(BigInt(value))
    this.bytes(bytes)
  }

  float32(value: number): void {
    const bytes = Buffer.alloc(4)
    bytes.writeFloatLE(value)
    this.bytes(bytes)
  }

  string(text: string): void {
    const bytes = Buffer.from(text)
    this.uint64(bytes.length)
    this.bytes(bytes)
  }

  align(to: number): void {
    this.bytes(Buffer.alloc((to - (this.#length % to)) % to))
  }

  toBuffer(): Buffer {
    return Buffer.concat(this.#parts)
  }
}

/** Normally distributed numbers: the sum of twelve uniform ones, minus six. */
function randomNormal(seed: number): () => number {
  let state = seed >>> 0
  const even = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return () => Array.from({ length: 12 }, even).reduce((sum, one) => sum + one, -6)
}

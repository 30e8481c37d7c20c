/**
 * Sends JSON answers. Long answers are compressed: ten thousand machines are 13 MB. Some must not be: the length of a
 * compressed answer reveals whether a text that an attacker placed in it also occurs in a secret beside it (BREACH). So
 * only reads are compressed, and none with secrets or private texts.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { limits } from '../../base/limits.ts'
import type { OperationId } from '../../contract/api.ts'
import type { Endpoint } from '../../contract/endpoint.ts'
import type { Convert } from '../../contract/wire.ts'
import { addVary } from './cross-origin.ts'
import { chooseEncoding, compress } from './encoding.ts'

/** Low, since each answer is compressed anew. */
const BROTLI_QUALITY = 4
/** Below this, compression costs more than it saves. */
const COMPRESS_FROM_BYTES = 8_192

/** Reads that use POST. */
const readsByPost: readonly OperationId[] = ['listMachines']
/** Reads with prompts and answers of a model, with names of secrets, or with scripts that customers wrote. */
const privateReads: readonly OperationId[] = [
  'getInferenceRequest',
  'getResponse',
  'listResponseInput',
  'listSecrets',
  'listTemplates',
  'getTemplate',
  'getRentalOrder',
]

export function isCompressible(operation: OperationId, endpoint: Endpoint): boolean {
  if (endpoint.answers !== 'json' || privateReads.includes(operation)) return false
  return endpoint.method === 'GET' || readsByPost.includes(operation)
}

/** Compression uses the thread pool that also reads files and resolves names. */
let compressing = 0

interface Rendered {
  readonly bytes: Buffer
  readonly compressed: Map<string, Buffer>
}

/** Values that answer several requests. They never change, and their entries are collected with them. */
const rendered = new WeakMap<object, Rendered | null>()

/** Renders the JSON of a value, and its compressed forms, once for all requests. */
export function renderOnce<T extends object>(value: T): T {
  if (!rendered.has(value)) rendered.set(value, null)
  return value
}

/** The JSON of an answer that its handler wrote itself, because most of it is the same in many answers. */
export class WrittenJson {
  readonly bytes: Buffer
  constructor(bytes: Buffer) {
    this.bytes = bytes
  }
}

/** Casts the JSON to the type that its operation answers. */
export function writtenJson<T>(bytes: Buffer): T {
  return new WrittenJson(bytes) as unknown as T
}

/** An answer as events, of an operation that answers with JSON otherwise. */
export class WrittenEvents {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** Has the type that its operation answers. */
export function writtenEvents<T>(text: string): T {
  return new WrittenEvents(text) as unknown as T
}

function render(value: unknown, write: Convert): Rendered {
  if (value instanceof WrittenJson) return { bytes: value.bytes, compressed: new Map() }
  const isShared = typeof value === 'object' && value !== null && rendered.has(value)
  const cached = isShared ? rendered.get(value) : undefined
  if (cached !== undefined && cached !== null) return cached
  const fresh = { bytes: Buffer.from(JSON.stringify(write(value))), compressed: new Map<string, Buffer>() }
  if (isShared) rendered.set(value, fresh)
  return fresh
}

interface JsonAnswer {
  readonly value: unknown
  /** Encodes the values of an operation's answer. Absent: the value is the JSON. */
  readonly write?: Convert
  /** The answer is safe to compress (`isCompressible`). */
  readonly mayCompress: boolean
}

export async function sendJson(
  request: FastifyRequest,
  reply: FastifyReply,
  { value, write = (json) => json, mayCompress }: JsonAnswer,
): Promise<FastifyReply> {
  reply.type('application/json; charset=utf-8')
  const { bytes, compressed: forms } = render(value, write)
  if (!mayCompress) return reply.send(bytes)
  addVary(reply, 'Accept-Encoding')
  const encoding = chooseEncoding(request.headers['accept-encoding'])
  const fits = bytes.length >= COMPRESS_FROM_BYTES && bytes.length <= limits.compressedAnswerBytes
  if (encoding === undefined || !fits) return reply.send(bytes)
  const cached = forms.get(encoding)
  if (cached !== undefined) return reply.header('Content-Encoding', encoding).send(cached)
  if (compressing >= limits.concurrentCompressions) return reply.send(bytes)
  compressing += 1
  try {
    const compressed = await compress(bytes, encoding, BROTLI_QUALITY)
    forms.set(encoding, compressed)
    return reply.header('Content-Encoding', encoding).send(compressed)
  } finally {
    compressing -= 1
  }
}

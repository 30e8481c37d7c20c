/**
 * Sends JSON answers. Long ones are compressed: ten thousand machines are 13 MB. Not all may be: the length of a
 * compressed answer reveals whether a text that an attacker placed in it also occurs in a secret beside it (BREACH). So
 * only reads are compressed, and none with secrets or private texts.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { limits } from '../base/limits.ts'
import type { OperationId } from '../contract/api.ts'
import type { Endpoint } from '../contract/endpoint.ts'
import { chooseEncoding, pack } from './encoding.ts'

/** Low, since each answer is compressed anew. */
const BROTLI_QUALITY = 4
/** Below this, compression costs more than it saves. */
const PACK_FROM_BYTES = 8_192

/** Reads that use POST. */
const readsByPost: readonly OperationId[] = ['listMachines']
/** Reads with prompts and answers of a model. */
const privateReads: readonly OperationId[] = ['getInferenceRequest']

export function isPackable(operation: OperationId, endpoint: Endpoint): boolean {
  if (endpoint.answers !== 'json' || privateReads.includes(operation)) return false
  return endpoint.method === 'GET' || readsByPost.includes(operation)
}

/** Compression uses the thread pool that also reads files and resolves names. */
let packing = 0

interface Rendered {
  readonly bytes: Buffer
  readonly packed: Map<string, Buffer>
}

/** For values that answer several requests. They never change, and their entries go when they do. */
const rendered = new WeakMap<object, Rendered | null>()

/** Renders the JSON of a value, and its compressed forms, once for all requests. */
export function renderOnce<T extends object>(value: T): T {
  if (!rendered.has(value)) rendered.set(value, null)
  return value
}

function render(value: unknown): Rendered {
  const isShared = typeof value === 'object' && value !== null && rendered.has(value)
  const known = isShared ? rendered.get(value) : undefined
  if (known !== undefined && known !== null) return known
  const made = { bytes: Buffer.from(JSON.stringify(value)), packed: new Map<string, Buffer>() }
  if (isShared) rendered.set(value, made)
  return made
}

/** `mayPack`: the answer is safe to compress (`isPackable`). */
export async function sendJson(
  request: FastifyRequest,
  reply: FastifyReply,
  { value, mayPack }: { readonly value: unknown; readonly mayPack: boolean },
): Promise<FastifyReply> {
  reply.type('application/json; charset=utf-8')
  const { bytes, packed: kept } = render(value)
  if (!mayPack) return reply.send(bytes)
  reply.header('Vary', 'Accept-Encoding')
  const encoding = chooseEncoding(request.headers['accept-encoding'])
  const fits = bytes.length >= PACK_FROM_BYTES && bytes.length <= limits.packedAnswerBytes
  if (encoding === undefined || !fits) return reply.send(bytes)
  const known = kept.get(encoding)
  if (known !== undefined) return reply.header('Content-Encoding', encoding).send(known)
  if (packing >= limits.packedAnswersAtOnce) return reply.send(bytes)
  packing += 1
  try {
    const packed = await pack(bytes, encoding, BROTLI_QUALITY)
    kept.set(encoding, packed)
    return reply.header('Content-Encoding', encoding).send(packed)
  } finally {
    packing -= 1
  }
}

/**
 * The JSON of an operation on its way out. Long answers are packed: ten thousand machines are 13 MB. Not all may be:
 * the length of a packed answer tells whether a text that a stranger had put into it is also in a secret beside it. So
 * only what is read is packed, and of that nothing with secrets or private texts.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { limits } from '../base/limits.ts'
import type { OperationId } from '../contract/api.ts'
import type { Endpoint } from '../contract/endpoint.ts'
import { chooseEncoding, pack } from './encoding.ts'

/** Low, since each answer is packed anew. */
const BROTLI_QUALITY = 4
/** Below it, packing costs more than the way. */
const PACK_FROM_BYTES = 8_192

/** Reads, in all but their method. */
const readsByPost: readonly OperationId[] = ['listMachines']
/** What people have asked a model, and what it said. */
const privateReads: readonly OperationId[] = ['getInferenceRequest']

export function isPackable(operation: OperationId, endpoint: Endpoint): boolean {
  if (endpoint.answers !== 'json' || privateReads.includes(operation)) return false
  return endpoint.method === 'GET' || readsByPost.includes(operation)
}

/** Packing takes threads that files and names are read with too. */
let packing = 0

interface Rendered {
  readonly bytes: Buffer
  readonly packed: Map<string, Buffer>
}

/** Of values that several requests are answered with. They are never changed, and go when the value does. */
const rendered = new WeakMap<object, Rendered | null>()

/** Makes the JSON of a value, and its packed forms, once for all requests that are answered with it. */
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

/** `mayPack`: for what `isPackable`, whoever asks. */
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

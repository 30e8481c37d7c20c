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
  if (endpoint.media !== undefined || endpoint.inference === true || privateReads.includes(operation)) return false
  return endpoint.method === 'GET' || readsByPost.includes(operation)
}

/** Packing takes threads that files and names are read with too. */
let packing = 0

/** `mayPack`: for what `isPackable`, whoever asks. */
export async function sendJson(
  request: FastifyRequest,
  reply: FastifyReply,
  { text, mayPack }: { readonly text: string; readonly mayPack: boolean },
): Promise<FastifyReply> {
  reply.type('application/json; charset=utf-8')
  if (!mayPack) return reply.send(text)
  reply.header('Vary', 'Accept-Encoding')
  const encoding = chooseEncoding(request.headers['accept-encoding'])
  const bytes = Buffer.byteLength(text)
  const fits = bytes >= PACK_FROM_BYTES && bytes <= limits.packedAnswerBytes
  if (encoding === undefined || !fits || packing >= limits.packedAnswersAtOnce) return reply.send(text)
  packing += 1
  try {
    const packed = await pack(Buffer.from(text), encoding, BROTLI_QUALITY)
    return reply.header('Content-Encoding', encoding).send(packed)
  } finally {
    packing -= 1
  }
}

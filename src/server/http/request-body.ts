/**
 * Request bodies on the full path. Nothing of a body is read before its sender was admitted by the head (access.ts) and
 * there is room for the announced length; a body of unknown length takes room as it arrives. The room is released when
 * the response closes.
 */
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { BodyBuffer, FREE_BODY_BYTES, type BodyBudget, type BodyRoom } from '../../domain/body-budget.ts'
import { decodeUtf8 } from '../../base/json.ts'
import { limits } from '../../base/limits.ts'
import type { Endpoint } from '../../contract/endpoint.ts'
import type { Failure } from '../../contract/result.ts'

/**
 * The rest of a body whose request was already answered is read and dropped: a closed connection would destroy the
 * answer, and the next request on it. A large body takes its client seconds, and many clients read nothing before they
 * have sent all of it.
 */
export interface RefusedBodyLimits {
  /** A client that sends nothing for this long, or up to twice as long, is cut off. */
  readonly silentMs: number
  readonly totalMs: number
}

const refusedBodyLimits: RefusedBodyLimits = { silentMs: 5_000, totalMs: 30_000 }

/** There was no room for more of a body of unknown length. */
export class NoRoomForBody extends Error {
  readonly failure: Failure

  constructor(failure: Failure) {
    super(failure.message)
    this.failure = failure
  }
}

/** The body is larger than the operation accepts, or than this sender may send. */
export class BodyTooLarge extends Error {}

const rooms = new WeakMap<FastifyRequest, BodyRoom>()

/**
 * Call once the sender of a request is known. Returns a failure if there is no room for the announced length. Without
 * this call, the limit for unauthenticated senders applies.
 */
export function openBodyRoom(
  budget: BodyBudget,
  accountId: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Failure | undefined {
  const room = budget.open(accountId)
  rooms.set(request, room)
  // For a client that has gone, 'close' is not emitted again.
  if (reply.raw.destroyed) room.release()
  else reply.raw.once('close', () => room.release())
  const announced = announcedBytes(request) ?? 0
  // A body over the operation's limit is refused for that reason when it is read.
  return announced > request.routeOptions.bodyLimit ? undefined : room.grow(announced)
}

/** For a form that its handler reads: bytes of a body of unknown length. A failure: there is no room for them. */
export function growBodyRoom(request: FastifyRequest, bytes: number): Failure | undefined {
  return announcedBytes(request) === undefined ? rooms.get(request)?.grow(bytes) : undefined
}

/** Tells whether the body takes room. A body of unknown length may be large. */
export function isLargeBody(request: FastifyRequest): boolean {
  const announced = announcedBytes(request)
  return announced === undefined ? request.headers['transfer-encoding'] !== undefined : announced > FREE_BODY_BYTES
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The size of the body as it was sent. */
    bodyBytes: number
  }
}

/** UTF-8 JSON only; an empty body counts as none, whatever the header says. */
export function readJsonBodies(server: FastifyInstance, refused = refusedBodyLimits): void {
  const parse = server.getDefaultJsonParser('error', 'error')
  server.decorateRequest('bodyBytes', 0)
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('application/json', async (request: FastifyRequest, payload: IncomingMessage) => {
    // The answer to an unknown path does not depend on the body.
    if (request.is404) return undefined
    const body = await readBody(request, payload)
    request.bodyBytes = body.length
    if (body.length === 0) return undefined
    const text = decodeUtf8(body)
    if (text === undefined) throw new SyntaxError('The body is not UTF-8')
    return new Promise((resolve, reject) => {
      void parse(request, text, (error, value) => (error === null ? resolve(value) : reject(error)))
    })
  })
  // The handler reads this body, piece by piece.
  server.addContentTypeParser('multipart/form-data', async (request: FastifyRequest) => {
    const { endpoint } = request.routeOptions.config as { endpoint?: Endpoint }
    if (request.is404 || endpoint?.takes === 'multipart') return undefined
    throw Object.assign(new Error('a form was sent in place of JSON'), { code: 'FST_ERR_CTP_INVALID_MEDIA_TYPE' })
  })
  // Fastify would close the connection at once, and the client would see a reset instead of its answer.
  server.addHook('onSend', async (request, reply) => {
    if (!request.raw.complete) reply.removeHeader('connection')
  })
  server.addHook('onResponse', async ({ raw }) => dropRemainder(raw, refused))
}

/** node:http reads it, since its response has ended. */
function dropRemainder(message: IncomingMessage, { silentMs, totalMs }: RefusedBodyLimits): void {
  const { socket } = message
  if (message.complete || socket.destroyed) return
  const until = performance.now() + totalMs
  let lastBytes = socket.bytesRead
  const timer = setInterval(() => {
    const isSilent = socket.bytesRead === lastBytes
    lastBytes = socket.bytesRead
    if (message.complete || socket.destroyed) clearInterval(timer)
    else if (isSilent || performance.now() >= until) socket.destroy()
  }, silentMs).unref()
}

function announcedBytes(request: FastifyRequest): number | undefined {
  const length = request.headers['content-length']
  return length === undefined ? undefined : Number.parseInt(length, 10)
}

function readBody(request: FastifyRequest, payload: IncomingMessage): Promise<Buffer> {
  const room = rooms.get(request)
  const { bodyLimit } = request.routeOptions
  const limit = room === undefined ? Math.min(bodyLimit, FREE_BODY_BYTES) : bodyLimit
  const announced = announcedBytes(request)
  if (announced !== undefined && announced > limit) return Promise.reject(new BodyTooLarge())
  const buffer = new BodyBuffer(announced)
  return new Promise((resolve, reject) => {
    // Uploads may take longer, so the server's own limit cannot be used here.
    const deadline = setTimeout(() => broken(), limits.requestTimeoutMs).unref()
    const stop = (): void => {
      clearTimeout(deadline)
      payload.off('data', add).off('end', end).off('error', broken).off('close', broken)
    }
    const refuse = (error: Error): void => {
      stop()
      // Reads and drops the remaining body.
      payload.resume()
      reject(error)
    }
    const add = (bytes: Buffer): void => {
      if (buffer.bytes + bytes.length > limit) return refuse(new BodyTooLarge())
      const refused = announced === undefined ? room?.grow(bytes.length) : undefined
      if (refused !== undefined) return refuse(new NoRoomForBody(refused))
      buffer.add(bytes)
    }
    const end = (): void => {
      stop()
      resolve(buffer.whole())
    }
    // Nobody is left to answer.
    const broken = (): void => refuse(Object.assign(new Error('the body ended early'), { statusCode: 400 }))
    if (payload.destroyed) broken()
    else payload.on('data', add).on('end', end).on('error', broken).on('close', broken)
  })
}

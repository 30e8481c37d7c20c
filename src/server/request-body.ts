/**
 * Request bodies that come through node:http. Nothing of a body is read before its sender was admitted from the head
 * (bind.ts) and has room for what it announces; a body of unknown length takes room as it arrives. The room is given back
 * when the response has closed, however that happens.
 */
import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { BodyBuffer, FREE_BODY_BYTES, type BodyBudget, type BodyRoom } from '../domain/body-budget.ts'
import { decodeUtf8 } from '../base/json.ts'
import type { Failure } from '../contract/result.ts'

/** A client that goes on sending after its answer is listened to for this long, so that it can read the answer. */
const REFUSED_BODY_MS = 1_000

/** There was no room left for a body that did not announce its length. */
export class NoRoomForBody extends Error {
  readonly failure: Failure

  constructor(failure: Failure) {
    super(failure.message)
    this.failure = failure
  }
}

/** More than the operation, or this sender, may send. */
export class BodyTooLarge extends Error {}

const rooms = new WeakMap<FastifyRequest, BodyRoom>()

/**
 * Called once the sender of a request is known. A failure: what it announces does not fit now. Requests for which this
 * was not called may send no more than everybody may.
 */
export function openBodyRoom(
  budget: BodyBudget,
  accountId: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Failure | undefined {
  const room = budget.open(accountId)
  rooms.set(request, room)
  // A client that has gone meanwhile will not close a second time.
  if (reply.raw.destroyed) room.release()
  else reply.raw.once('close', () => room.release())
  const announced = announcedBytes(request) ?? 0
  // A body that is too large in any case is refused for that, when it is read.
  return announced > request.routeOptions.bodyLimit ? undefined : room.grow(announced)
}

/** Whether a body is announced that takes room. One of unknown length may be of any. */
export function isLargeBody(request: FastifyRequest): boolean {
  const announced = announcedBytes(request)
  return announced === undefined ? request.headers['transfer-encoding'] !== undefined : announced > FREE_BODY_BYTES
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Of the body, as it was sent. */
    bodyBytes: number
  }
}

/** JSON in UTF-8 only; no body at all counts as none, whatever the header says. */
export function readJsonBodies(server: FastifyInstance): void {
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
  // Fastify would end the connection at once and the client would see a reset in place of its answer.
  server.addHook('onSend', async (request, reply) => {
    if (!request.raw.complete) reply.removeHeader('connection')
  })
  server.addHook('onResponse', async ({ raw }) => {
    if (raw.complete || raw.socket.destroyed) return
    setTimeout(() => {
      if (!raw.complete) raw.socket.destroy()
    }, REFUSED_BODY_MS).unref()
  })
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
    const stop = (): void => void payload.off('data', add).off('end', end).off('error', broken).off('close', broken)
    const refuse = (error: Error): void => {
      stop()
      // What still comes is read and dropped.
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
    // Nobody is there to be answered.
    const broken = (): void => refuse(Object.assign(new Error('the body ended early'), { statusCode: 400 }))
    if (payload.destroyed) broken()
    else payload.on('data', add).on('end', end).on('error', broken).on('close', broken)
  })
}

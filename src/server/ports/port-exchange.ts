/**
 * One request to a port and its answer, or one WebSocket. Bodies are passed on as they arrive, and a reader that stalls
 * slows the sender down, on both sides and through the host's connection. Each request has its own stream to the host,
 * so that bytes of one request can never become part of the next.
 */
import http, { type ClientRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { contained } from '../../base/net/contained.ts'
import { BadHead, mendHead } from '../../base/net/mended-head.ts'
import { MuxClosed } from '../../base/net/mux-closed.ts'
import { fail, type Failure } from '../../contract/result.ts'
import { headersForClient, headersForWorkload, type Client } from './port-headers.ts'

/**
 * How long the unread part of a request is read after the answer, so that the answer is not lost with the connection.
 */
const LINGER_MS = 5_000
const KEEP_ALIVE_MS = 30_000
const MAX_HEADER_BYTES = 65_536

/** A request from a client. */
export interface Incoming {
  readonly request: IncomingMessage
  readonly client: Client
  /**
   * Returns the same response each time. For an upgrade it is created when it is needed, since a WebSocket has no
   * response.
   */
  readonly response: () => ServerResponse
  readonly upgraded: { readonly socket: Socket; readonly head: Buffer } | undefined
}

export interface ExchangeEnds {
  readonly port: number
  /** Leads to the port of the workload. */
  readonly stream: Duplex
  refuse(failure: Failure): void
  answered(status: number): void
  closed(): void
}

export class Exchange {
  readonly incoming: Incoming
  /** When either side last sent a byte. */
  lastMs = performance.now()
  checkedMs = this.lastMs
  isAnswered = false
  #isOver = false
  #isSwitched = false
  readonly #ends: ExchangeEnds
  readonly #upstream: ClientRequest

  constructor(incoming: Incoming, ends: ExchangeEnds) {
    this.incoming = incoming
    this.#ends = ends
    const { request, upgraded, client } = incoming
    const { method = 'GET', rawHeaders } = request
    this.#upstream = http.request({
      createConnection: () => mendHead(ends.stream, { mayUpgrade: upgraded !== undefined }),
      method,
      path: request.url,
      headers: headersForWorkload({ method, rawHeaders, isUpgrade: upgraded !== undefined }, client),
      maxHeaderSize: MAX_HEADER_BYTES,
    })
    const end = (error: Error): void => this.cut(this.#whyNoAnswer(error))
    this.#upstream.on('error', end)
    this.#upstream.once(
      'response',
      contained(end, (answer) => this.#respond(answer)),
    )
    const onClose = (): void => this.#over()
    if (upgraded === undefined) {
      incoming.response().once('close', onClose)
      request.on('data', this.#touch)
      request.pipe(this.#upstream)
      // An application may answer before the first byte of the body.
      this.#upstream.flushHeaders()
    } else {
      upgraded.socket.once('close', onClose)
      this.#upstream.once(
        'upgrade',
        contained(end, (answer, stream, head) => this.#switch(upgraded, answer, { stream, head })),
      )
      this.#upstream.end()
    }
  }

  /** Ends the exchange with this failure, or cuts the answer if it has begun. */
  cut(failure: Failure): void {
    if (this.#isOver) return
    this.#isOver = true
    const { response, upgraded } = this.incoming
    if (!this.isAnswered) this.#ends.refuse(failure)
    else if (upgraded === undefined) response().destroy()
    else upgraded.socket.destroy()
    this.#upstream.destroy()
    this.#ends.stream.destroy()
  }

  readonly #touch = (): void => {
    this.lastMs = performance.now()
  }

  #over(): void {
    this.#isOver = true
    this.#upstream.destroy()
    // An application may keep its end open after a complete answer, but the host has a limited number of streams.
    if (!this.#isSwitched) this.#ends.stream.destroy()
    this.#ends.closed()
    if (this.incoming.upgraded !== undefined) return
    this.incoming.request.unpipe(this.#upstream)
    readRest(this.incoming.request)
  }

  #respond(answer: IncomingMessage): void {
    const { statusCode = 502, statusMessage = '' } = answer
    const target = this.incoming.response()
    target.sendDate = false
    const message = /^[\x20-\x7e]+$/.test(statusMessage) ? statusMessage : undefined
    try {
      target.writeHead(statusCode, message, headersForClient(answer.rawHeaders, this.incoming.client.protocol))
    } catch {
      // Node reads heads that it refuses to write, such as a head with the status 099.
      return this.cut(fail('port_not_http', { port: this.#ends.port }))
    }
    this.isAnswered = true
    // The head of an event stream may come long before its first event.
    target.flushHeaders()
    this.#ends.answered(statusCode)
    answer.on('data', this.#touch)
    // The workload broke the answer off; destroying the socket tells the client that it is incomplete.
    answer.once('error', () => target.destroy())
    answer.pipe(target)
    if (this.incoming.upgraded === undefined) return
    // Nobody else reads what the client still sends, so nobody would notice its end.
    closeAfterEnd(this.incoming.upgraded.socket)
    this.incoming.upgraded.socket.resume()
  }

  #switch(
    upgraded: NonNullable<Incoming['upgraded']>,
    answer: IncomingMessage,
    { stream, head }: { readonly stream: Duplex; readonly head: Buffer },
  ): void {
    const switched = upgradeHead(answer, this.incoming.client)
    this.#isSwitched = true
    this.isAnswered = true
    this.#ends.answered(101)
    const { socket } = upgraded
    socket.setNoDelay(true)
    socket.setKeepAlive(true, KEEP_ALIVE_MS)
    socket.write(switched)
    if (head.length > 0) socket.write(head)
    if (upgraded.head.length > 0) stream.write(upgraded.head)
    socket.on('data', this.#touch)
    stream.on('data', this.#touch)
    stream.once('error', () => socket.destroy())
    closeAfterEnd(socket)
    socket.once('close', () => {
      // A socket that closed normally may still have bytes on their way to the host.
      if (!socket.readableEnded || !socket.writableFinished) stream.destroy()
    })
    socket.pipe(stream).pipe(socket)
  }

  #whyNoAnswer(error: NodeJS.ErrnoException): Failure {
    const { port } = this.#ends
    if (error instanceof MuxClosed) return fail('host_not_connected', { retryAfterMs: 3_000 })
    if (error instanceof BadHead || error.code?.startsWith('HPE_') === true) return fail('port_not_http', { port })
    return fail('port_not_answering', { port })
  }
}

/** Creates the answer to an upgrade that does not become a WebSocket. */
export function responseOn(request: IncomingMessage, socket: Socket): ServerResponse {
  const response = new http.ServerResponse(request)
  response.shouldKeepAlive = false
  response.assignSocket(socket)
  response.once('finish', () => {
    socket.end()
    // Reads and drops what the client still sends until it closes.
    socket.resume()
  })
  return response
}

/**
 * After an upgrade nobody closes only one half: a client that ends is gone, and an application may not notice for long.
 */
function closeAfterEnd(socket: Socket): void {
  socket.once('end', () => setTimeout(() => socket.destroy(), LINGER_MS).unref())
}

/** Reads the remaining request, since an answer may come before the whole request is read. */
export function readRest(request: IncomingMessage): void {
  if (request.complete || request.destroyed) return
  request.resume()
  const timer = setTimeout(() => request.socket.destroy(), LINGER_MS).unref()
  request.once('close', () => clearTimeout(timer))
}

function upgradeHead(answer: IncomingMessage, { protocol }: Client): Buffer {
  const headers = [...headersForClient(answer.rawHeaders, protocol), 'Connection', 'Upgrade', 'Upgrade', 'websocket']
  const lines = Array.from({ length: headers.length / 2 }, (_, at) => `${headers[2 * at]}: ${headers[2 * at + 1]}`)
  return Buffer.from(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('\r\n')}\r\n\r\n`, 'latin1')
}

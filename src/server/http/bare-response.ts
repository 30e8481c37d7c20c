/**
 * Event streams on bare sockets. A connection of node:http with an open response takes 11.5 KB, most of it for the
 * parser and the objects of the request and the response; a bare socket takes 3 KB. So a connection that asks for an
 * event stream gets no parser. Its head is read here, and a request and a response made by hand go through the same
 * routing, access control and handlers as all others. A stream that has begun lets go of both and keeps only the socket.
 *
 * The reader is strict: a head with anything unusual is left to node:http, so no request is ever read in two ways. Every
 * answer closes its connection, as streams always did, so there is no second request.
 */
import http from 'node:http'
import type { Socket } from 'node:net'
import { changesReading, hostsOf, isPlainLine, isToken } from '../../gateway/fast-path/fast-path-head.ts'
import { api } from '../../contract/api.ts'
import type { Endpoint } from '../../contract/endpoint.ts'

export interface StreamHead {
  readonly url: string
  readonly hosts: readonly string[]
  /** Lower-case names, each once. */
  readonly headers: Readonly<Record<string, string>>
}

const MAX_HEAD_BYTES = 8_192
const END_OF_HEAD = '\r\n\r\n'

const streamPaths = new Set(
  (Object.values(api) as Endpoint[])
    .filter(({ answers, method }) => answers === 'events' && method === 'GET')
    .map(({ path }) => path),
)

/** undefined: for node:http. */
export function readStreamHead(bytes: Buffer): StreamHead | undefined {
  // The first byte rules out requests with a body; nothing may follow the head.
  if (bytes[0] !== 0x47 || bytes.length > MAX_HEAD_BYTES) return undefined
  const text = bytes.toString('latin1')
  const [requestLine = '', ...lines] = text.slice(0, -END_OF_HEAD.length).split('\r\n')
  const [, path = '', query = ''] = /^GET (\/[\w/.-]*)(\?[\w=&.~%-]*)? HTTP\/1\.1$/.exec(requestLine) ?? []
  if (!streamPaths.has(path) || text.indexOf(END_OF_HEAD) !== text.length - END_OF_HEAD.length) return undefined
  const headers = readHeaders(lines)
  const host = headers?.['host']
  if (headers === undefined || host === undefined) return undefined
  return { url: path + query, hosts: hostsOf(host, headers['x-forwarded-host']), headers }
}

function readHeaders(lines: readonly string[]): Record<string, string> | undefined {
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    const value = line.slice(colon + 1).trim()
    if (colon < 1 || !isPlainLine(line) || !isToken(name) || name in headers) return undefined
    if (name === 'content-length' || changesReading(name)) return undefined
    if (name === 'connection' && !/^(keep-alive|close)$/i.test(value)) return undefined
    headers[name] = value
  }
  return headers
}

/** The answer to a request that was read without node:http. */
export class BareResponse extends http.ServerResponse {
  #isReleased = false

  /** Once the head is sent: ends the response for all who wait for its end. What follows goes to the socket. */
  release(): Socket {
    const { socket } = this
    if (socket === null || !this.headersSent) throw new Error('a response without a connection or a head was released')
    this.#isReleased = true
    this.detachSocket(socket)
    this.emit('finish')
    this.emit('close')
    return socket
  }

  /** As node:http does after the last answer of a connection. */
  static open(request: http.IncomingMessage, socket: Socket): BareResponse {
    const response = new BareResponse(request)
    response.shouldKeepAlive = false
    response.assignSocket(socket)
    response.once('finish', () => {
      if (response.#isReleased) return
      response.detachSocket(socket)
      response.emit('close')
      socket.destroySoon()
    })
    return response
  }
}

export interface BareConnections {
  /** Answers the request as `server` would. */
  take(socket: Socket, head: StreamHead): void
  hasAny(): boolean
  destroy(): void
}

export function makeBareConnections(server: http.Server): BareConnections {
  const sockets = new Set<Socket>()
  // One function for all of them: a closure would keep request and response in memory.
  function forget(this: Socket): void {
    sockets.delete(this)
  }
  return {
    take: (socket, head) => {
      sockets.add(socket)
      socket.on('close', forget).on('end', closeWithClient).on('error', ignore)
      // Bytes after the request are read and dropped; without reading, the end of the client would go unnoticed.
      socket.resume()
      const request = requestOf(socket, head)
      server.emit('request', request, BareResponse.open(request, socket))
    },
    hasAny: () => sockets.size > 0,
    destroy: () => {
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** A client that closes its side has gone, as for node:http. */
function closeWithClient(this: Socket): void {
  this.destroy()
}

/** 'close' follows. */
function ignore(): void {}

function requestOf(socket: Socket, { url, headers }: StreamHead): http.IncomingMessage {
  const request = new http.IncomingMessage(socket)
  request.method = 'GET'
  request.url = url
  request.httpVersion = '1.1'
  request.httpVersionMajor = 1
  request.httpVersionMinor = 1
  request.headers = { ...headers }
  request.rawHeaders = Object.entries(headers).flat()
  request.complete = true
  request.push(null)
  return request
}

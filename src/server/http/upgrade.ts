/**
 * Upgrade requests. Once there is a listener for them, node:http no longer answers any request with an `Upgrade`
 * header, and some clients send an upgrade to `h2c` with every first request, which servers may ignore. So a request
 * that no handler takes is put back without that header and answered normally.
 */
import { STATUS_CODES, type IncomingMessage, type Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { contained } from '../../base/net/contained.ts'
import { randomId } from '../../base/id.ts'
import type { ErrorPage } from '../../contract/error-form.ts'
import type { Accept } from './connections.ts'

/** Returns whether the handler took the request. If so, it also answers. */
export type UpgradeHandler = (request: IncomingMessage, socket: Socket, head: Buffer) => boolean

/** `accept` gets the connections of requests that are put back. */
export function openUpgrades(server: Server, handlers: readonly UpgradeHandler[], accept: Accept): void {
  const take = (request: IncomingMessage, stream: Duplex, head: Buffer): void => {
    const socket = stream as Socket
    if (isWebSocket(request) && handlers.some((handle) => handle(request, socket, head))) return
    socket.unshift(Buffer.concat([plainHead(request), head]))
    accept(socket)
  }
  server.on(
    'upgrade',
    contained((_error, [, stream]) => stream.destroy(), take),
  )
}

export function pathOf(request: IncomingMessage): string {
  return request.url?.split('?')[0] ?? ''
}

/** Answers with an error instead of upgrading, and closes the connection. Returns the request id, for the log. */
export function refuseUpgrade(socket: Socket, page: ErrorPage, retryAfterMs?: number): string {
  const requestId = randomId('req')
  const body = Buffer.from(JSON.stringify(page.body))
  const retry = retryAfterMs === undefined ? '' : `Retry-After: ${Math.ceil(retryAfterMs / 1_000)}\r\n`
  // The client may have gone already.
  socket.on('error', () => {})
  socket.write(
    `HTTP/1.1 ${page.status} ${STATUS_CODES[page.status] ?? 'Error'}\r\n` +
      `Content-Type: application/json; charset=utf-8\r\nContent-Length: ${body.length}\r\n` +
      `X-Request-Id: ${requestId}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n${retry}Connection: close\r\n\r\n`,
  )
  socket.end(body)
  // Read and drop anything the client still sends until it closes.
  socket.resume()
  return requestId
}

function isWebSocket(request: IncomingMessage): boolean {
  return request.method === 'GET' && request.headers.upgrade?.toLowerCase() === 'websocket'
}

function plainHead(request: IncomingMessage): Buffer {
  const lines = [`${request.method} ${request.url} HTTP/${request.httpVersion}`]
  for (let at = 0; at < request.rawHeaders.length; at += 2) {
    const name = request.rawHeaders[at] ?? ''
    const value = request.rawHeaders[at + 1] ?? ''
    if (name.toLowerCase() === 'upgrade') continue
    lines.push(`${name}: ${name.toLowerCase() === 'connection' ? withoutUpgrade(value) : value}`)
  }
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
}

function withoutUpgrade(connection: string): string {
  const otherOptions = connection.split(',').filter((one) => one.trim().toLowerCase() !== 'upgrade')
  return otherOptions.length === 0 ? 'keep-alive' : otherOptions.join(',')
}

/**
 * The line between Berth and the API server of a test cluster, which a test can disturb: answers get lost, requests do
 * not arrive, the server is busy or away. Everything else goes through to the real server.
 */
import { readFile } from 'node:fs/promises'
import type http from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { KubeKeys } from '../lab/kube-keys.ts'

/** `METHOD /path?query` of a request. */
export type Asked = (request: string) => boolean

interface Fault {
  readonly asked: Asked
  readonly how: 'lose-request' | 'lose-answer' | { readonly status: number; readonly headers?: Record<string, string> }
  left: number
}

export interface KubeLine {
  readonly url: string
  /** Requests so far, as `METHOD /path?query`. */
  readonly requests: readonly string[]
  /** How many came in all. */
  readonly received: number
  /** Disturbs the next requests that match. */
  disturb(asked: Asked, how: Fault['how'], times?: number): void
  /** Cuts all connections, and refuses new ones until it is up again. */
  down(): void
  up(): void
  /** Cuts the connections of watches. */
  cutWatches(): void
  close(): Promise<void>
}

const MAX_REQUESTS = 10_000

export async function openKubeLine(server: string, keys: KubeKeys): Promise<KubeLine> {
  const [ca, cert, key] = await Promise.all(
    [keys.ca, keys.cert('server'), keys.key('server')].map((file) => readFile(file)),
  )
  const { hostname, port } = new URL(server)
  const agent = new https.Agent({ ca, keepAlive: true })
  const faults: Fault[] = []
  const requests: string[] = []
  let received = 0
  const sockets = new Set<Duplex>()
  const watches = new Set<Duplex>()
  let isDown = false

  const faultOf = (asked: string): Fault['how'] | undefined => {
    const fault = faults.find((one) => one.left > 0 && one.asked(asked))
    if (fault !== undefined) fault.left -= 1
    return fault?.how
  }
  const forward = (request: IncomingMessage): http.ClientRequest =>
    https.request({
      host: hostname,
      port,
      agent: request.headers.upgrade === undefined ? agent : false,
      ca,
      method: request.method,
      path: request.url,
      headers: request.headers,
    })
  const note = (request: IncomingMessage): string => {
    const asked = `${request.method ?? ''} ${request.url ?? ''}`
    received += 1
    if (requests.length < MAX_REQUESTS) requests.push(asked)
    return asked
  }
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    const how = faultOf(note(request))
    if (how === 'lose-request') return void request.socket.destroy()
    if (typeof how === 'object') return void response.writeHead(how.status, how.headers).end('{"message":"disturbed"}')
    const upstream = forward(request)
    upstream.on('error', () => request.socket.destroy())
    upstream.once('response', (reply) => {
      if (how === 'lose-answer') return void request.socket.destroy()
      if (request.url?.includes('watch=true') === true) watches.add(request.socket)
      response.writeHead(reply.statusCode ?? 500, reply.headers)
      // The head of a watch must not wait for its first event.
      response.flushHeaders()
      reply.pipe(response)
      reply.on('error', () => request.socket.destroy())
    })
    response.once('close', () => upstream.destroy())
    request.pipe(upstream)
  }
  const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    note(request)
    const upstream = forward(request)
    upstream.on('error', () => socket.destroy())
    upstream.once('response', (reply) => {
      socket.write(`HTTP/1.1 ${reply.statusCode ?? 500} refused\r\nconnection: close\r\n\r\n`)
      reply.pipe(socket)
    })
    upstream.once('upgrade', (reply, far, first) => {
      const lines = Object.entries(reply.headers).map(([name, value]) => `${name}: ${String(value)}`)
      socket.write(['HTTP/1.1 101 Switching Protocols', ...lines, '', ''].join('\r\n'))
      if (first.length > 0) socket.write(first)
      if (head.length > 0) far.write(head)
      far.on('error', () => socket.destroy())
      socket.on('error', () => far.destroy())
      far.pipe(socket).pipe(far)
    })
    upstream.end()
  }
  const line = https.createServer({ cert, key }, answer)
  line.on('upgrade', upgrade)
  line.on('connection', (socket) => {
    if (isDown) return void socket.destroy()
    sockets.add(socket)
    socket.once('close', () => void sockets.delete(socket))
  })
  line.on('secureConnection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => {
      sockets.delete(socket)
      watches.delete(socket)
    })
  })
  await new Promise<void>((resolve) => line.listen(0, '127.0.0.1', resolve))
  const cut = (all: Set<Duplex>): void => {
    for (const socket of all) socket.destroy()
  }
  return {
    url: `https://127.0.0.1:${(line.address() as AddressInfo).port}`,
    requests,
    get received() {
      return received
    },
    disturb: (asked, how, times = 1) => void faults.push({ asked, how, left: times }),
    down: () => {
      isDown = true
      cut(sockets)
    },
    up: () => (isDown = false),
    cutWatches: () => cut(watches),
    close: async () => {
      cut(sockets)
      agent.destroy()
      await new Promise((resolve) => line.close(resolve))
    },
  }
}

/** Connections of the HTTP server: the fast path for chats in front of it, and the end of all of them at a stop. */
import type http from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../base/instant.ts'
import type { BodyBudget } from '../domain/body-budget.ts'
import { makeFastPath, type FastPath } from '../gateway/fast-path.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { inferencePage } from './answer-inference.ts'
import type { Authenticator } from './authenticate.ts'

export interface FastPathParts {
  readonly gateway: Gateway
  readonly bodies: BodyBudget
  readonly authenticator: Authenticator
  readonly clock: Clock
  /** Whether a host name is that of an HTTP port of a rental. */
  readonly isOther: (host: string) => boolean
  readonly isDraining: () => boolean
}

/** Chats are answered on bare sockets; other connections go to node:http. */
export function openFastPath(server: http.Server, options: FastPathParts): FastPath {
  const { gateway, bodies, authenticator, clock, isOther, isDraining } = options
  const usual = server.listeners('connection') as Array<(socket: Socket) => void>
  const fastPath = makeFastPath({
    gateway,
    bodies,
    identifier: () => authenticator.identifier(),
    introduce: (header) => authenticator.authenticate({ kind: 'authorization', header }),
    handOver: (socket) => {
      for (const listener of usual) listener.call(server, socket)
    },
    isOther,
    page: inferencePage,
    now: () => clock.now(),
    isRetiring: isDraining,
  })
  server.removeAllListeners('connection')
  server.on('connection', (socket) => fastPath.take(socket))
  return fastPath
}

export interface DrainOptions {
  readonly fastPath: FastPath
  /** true: each answer closes its connection, so that clients open their next one at another server. */
  readonly isDraining: () => boolean
  /** How long pending requests may take once the server closes. */
  readonly finishMs: number
  readonly close: () => Promise<unknown>
}

/** Lets pending requests finish for a bounded time, then closes all connections. */
export function makeDrain(server: http.Server, options: DrainOptions): () => Promise<void> {
  const { fastPath, isDraining, finishMs, close } = options
  let underWay = 0
  let whenIdle = (): void => {}
  // Before the request is answered.
  server.prependListener('request', (_request, response: http.ServerResponse) => {
    if (isDraining()) response.shouldKeepAlive = false
    underWay += 1
    response.once('close', () => {
      underWay -= 1
      if (underWay === 0) whenIdle()
    })
  })
  return async () => {
    const closed = close()
    const idle = new Promise<void>((resolve) => {
      whenIdle = resolve
      if (underWay === 0) resolve()
    })
    const late = new Promise<void>((resolve) => setTimeout(resolve, finishMs).unref())
    await Promise.race([Promise.all([idle, fastPath.close()]), late])
    fastPath.destroy()
    server.closeAllConnections()
    await closed
  }
}

/** Connections of the HTTP server: the fast path for chats in front of it, and closing all of them at a stop. */
import type http from 'node:http'
import type { Socket } from 'node:net'
import { contained } from '../../base/net/contained.ts'
import type { Clock } from '../../base/instant.ts'
import type { BodyBudget } from '../../domain/body-budget.ts'
import { makeFastPath, type FastPath, type FastPathOptions } from '../../gateway/fast-path/fast-path.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { inferencePages } from '../inference/answer-inference.ts'
import type { Authenticator } from './authenticate.ts'

export interface FastPathParts {
  readonly gateway: Gateway
  readonly bodies: BodyBudget
  readonly authenticator: Authenticator
  readonly clock: Clock
  /** Tells whether a host name belongs to an HTTP port of a rental. */
  readonly isOther: (host: string) => boolean
  readonly isDraining: () => boolean
  readonly spread: FastPathOptions['spread']
}

export interface ServerFastPath extends FastPath {
  /** Takes back a connection from a worker, for the full path. */
  readonly takeBack: (socket: Socket, bytes: Buffer) => void
  /** Gives a connection to node:http. */
  readonly accept: Accept
}

export type Accept = (socket: Socket) => void

/** Gives a connection to the current listeners. */
export function acceptOf(server: http.Server): Accept {
  const usual = server.listeners('connection') as Accept[]
  return (socket) => {
    for (const listener of usual) listener.call(server, socket)
  }
}

/** Answers chats on bare sockets and gives other connections to node:http. */
export function openFastPath(server: http.Server, options: FastPathParts): ServerFastPath {
  const { gateway, bodies, authenticator, clock, isOther, isDraining, spread } = options
  const accept = acceptOf(server)
  const handOver = (socket: Socket, bytes: Buffer): void => {
    // The stream flows, and emits these bytes on the next tick, when node:http listens. A pause and resume around this
    // would restart the reading of bodies that node:http holds back.
    if (socket.isPaused()) socket.resume()
    socket.unshift(bytes)
    accept(socket)
  }
  const fastPath = makeFastPath({
    gateway,
    bodies,
    identifier: () => authenticator.identifier(),
    introduce: async (header) => {
      await authenticator.authenticate({ kind: 'authorization', header })
      return authenticator.identifier()(header)
    },
    handOver,
    spread,
    isOther,
    page: inferencePages('createChatCompletion'),
    now: () => clock.now(),
    isRetiring: isDraining,
  })
  server.removeAllListeners('connection')
  server.on(
    'connection',
    contained(
      (_error, [socket]) => socket.destroy(),
      (socket: Socket) => fastPath.take(socket),
    ),
  )
  return {
    ...fastPath,
    accept,
    takeBack: (socket, bytes) => {
      // node:http does the same with connections that it accepts.
      socket.allowHalfOpen = true
      handOver(socket, bytes)
    },
  }
}

export interface DrainOptions {
  readonly fastPath: FastPath
  /** true: each answer closes its connection, so that clients open their next one at another server. */
  readonly isDraining: () => boolean
  /** How long pending requests may take once the server stops. */
  readonly finishMs: number
  readonly close: () => Promise<unknown>
}

export interface Drain {
  /** Counts answers from now on. Call once all listeners for requests are attached. */
  watch(): void
  /**
   * Waits, after a drain, for the answers that began before it and could not announce that their connection closes:
   * their clients send the next request on it at once, and are told then. Takes at most half of the time for pending
   * requests.
   */
  settle(): Promise<void>
  /** Lets pending requests finish for a bounded time, then closes all connections. */
  finish(): Promise<void>
}

/** How long a client may take to use a connection again. */
const QUIET_MS = 1_000
const LOOK_MS = 20

export function makeDrain(server: http.Server, options: DrainOptions): Drain {
  const { fastPath, isDraining, finishMs, close } = options
  const pending = new Set<http.ServerResponse>()
  const isBusy = (): boolean => pending.size > 0 || fastPath.isBusy()
  let deadline: number | undefined
  const setDeadline = (): number => (deadline ??= performance.now() + finishMs)
  return {
    watch: () => {
      // This runs before the request is answered.
      server.prependListener('request', (_request, response: http.ServerResponse) => {
        if (isDraining()) response.shouldKeepAlive = false
        pending.add(response)
        response.once('close', () => pending.delete(response))
      })
    },
    settle: async () => {
      const until = setDeadline() - finishMs / 2
      if (isDraining()) await untilQuiet(isBusy, until)
    },
    finish: async () => {
      const until = setDeadline()
      const closed = close()
      const answered = fastPath.close().then(() => untilIdle(isBusy, until))
      await Promise.race([answered, pause(until - performance.now())])
      fastPath.destroy()
      server.closeAllConnections()
      await closed
    },
  }
}

/** Resolves when no client has used a connection for a while, or the time is over. */
export async function untilQuiet(isBusy: () => boolean, until: number): Promise<void> {
  let busyAt = performance.now()
  for (let now = busyAt; now < until && now - busyAt < QUIET_MS; now = performance.now()) {
    if (isBusy()) busyAt = now
    await pause(LOOK_MS)
  }
}

async function untilIdle(isBusy: () => boolean, until: number): Promise<void> {
  while (isBusy() && performance.now() < until) await pause(LOOK_MS)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)).unref())
}

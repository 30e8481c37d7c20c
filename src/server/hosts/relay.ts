/**
 * The public ports of workloads on hosts without a public address. For every host connected here or to another server,
 * the relay listens on its workloads' ports, and each connection becomes a stream to the host. Each direction ends
 * separately, and a reader that stalls slows the sender down, all the way through the host's connection. The host
 * reports an unreachable port, and a host that hangs loses its connection, so no client waits longer than that.
 *
 * HTTP ports are not relayed: they are behind the proxy of server/ports/port-proxy.ts, which checks access. Connections
 * beyond a tenant's share (server/ports/port-share.ts) are closed at once.
 *
 * A port that is no longer relayed is closed with all its connections before another workload can get it.
 */
import net, { type Server, type Socket } from 'node:net'
import type { Logger } from 'pino'
import type { App } from '../../app/app.ts'
import { contained } from '../../base/net/contained.ts'
import { listRelayPorts } from '../../store/host/workload.ts'
import type { HostLinks } from './host-links.ts'
import { makePortShares, type PortShares } from '../ports/port-share.ts'

/** Changes may be missed without polling: notifications get lost, and occupied ports become free. */
const CHECK_MS = 3_000
/** The target port that stands for SSH, whatever its number. */
const SSH_TARGET = 0
const KEEP_ALIVE_MS = 30_000

export interface RelayOptions {
  readonly app: App
  readonly links: HostLinks
  readonly host: string
  readonly log: Logger
  /** Absent: the relay counts only its own connections. */
  readonly shares?: PortShares
}

export interface Relay {
  /** Checks now; afterwards exactly the ports desired then are open. */
  refresh(): Promise<void>
  ports(): number[]
  close(): Promise<void>
}

export function openRelay(options: RelayOptions): Relay {
  const relay = new PortRelay(options)
  const sync = (): void => {
    relay.refresh().catch((error: unknown) => options.log.error({ err: error }, 'relay could not update its ports'))
  }
  const stop = options.links.watch(sync)
  const timer = setInterval(sync, CHECK_MS).unref()
  sync()
  return {
    refresh: () => relay.refresh(),
    ports: () => relay.ports(),
    close: async () => {
      stop()
      clearInterval(timer)
      await relay.close()
    },
  }
}

type RelayedPort = Awaited<ReturnType<typeof listRelayPorts>>[number]

interface OpenPort {
  readonly wanted: RelayedPort
  readonly server: Server
  readonly sockets: Set<Socket>
  /** Resolves once the port listens, or has failed to. */
  readonly listening: Promise<void>
}

class PortRelay {
  readonly #options: RelayOptions
  readonly #open = new Map<number, OpenPort>()
  /** Ports that could not be opened. Logged once, not at every check. */
  readonly #failed = new Set<number>()
  readonly #shares: PortShares
  /** Ports that refused a connection since the last check. Logged once. */
  readonly #full = new Set<number>()
  #syncing: Promise<void> | undefined
  #next: Promise<void> | undefined
  #isClosed = false

  constructor(options: RelayOptions) {
    this.#options = options
    this.#shares = options.shares ?? makePortShares()
  }

  /** A check in progress may have read too early, so another one follows it, shared by all callers. */
  refresh(): Promise<void> {
    if (this.#syncing !== undefined) {
      this.#next ??= this.#syncing.then(() => {
        this.#next = undefined
        return this.refresh()
      })
      return this.#next
    }
    this.#syncing = this.#sync().finally(() => (this.#syncing = undefined))
    return this.#syncing
  }

  ports(): number[] {
    return [...this.#open].filter(([, port]) => port.server.listening).map(([port]) => port)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#syncing
    await Promise.all([...this.#open.values()].map((port) => this.#shut(port)))
  }

  async #sync(): Promise<void> {
    const { app, links, log } = this.#options
    if (this.#isClosed) return
    this.#full.clear()
    let all: RelayedPort[]
    try {
      all = await listRelayPorts(app.database.db, links.reachableIds())
    } catch (error) {
      log.warn({ err: error }, 'could not read the ports to relay; open ports stay open')
      return
    }
    if (this.#isClosed) return
    const desired = new Map(all.map((one) => [one.port, one]))
    const closing = [...this.#open.values()].filter((port) => !isSame(port.wanted, desired.get(port.wanted.port)))
    await Promise.all(closing.map((port) => this.#shut(port)))
    for (const port of this.#failed) if (!desired.has(port)) this.#failed.delete(port)
    const opening = [...desired.values()].filter((one) => !this.#open.has(one.port))
    await Promise.all(opening.map((one) => this.#listen(one)))
  }

  #listen(forward: RelayedPort): Promise<void> {
    const { host, log } = this.#options
    const { port } = forward
    const server = net.createServer({
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
    })
    const sockets = new Set<Socket>()
    server.on(
      'connection',
      contained(
        (_error, [socket]) => socket.destroy(),
        (socket: Socket) => this.#connect(socket, forward, sockets),
      ),
    )
    const listening = new Promise<void>((resolve) => {
      server.once('listening', () => {
        this.#failed.delete(port)
        resolve()
      })
      server.on('error', (error) => {
        if (!this.#failed.has(port)) log.warn({ port, err: error }, 'could not listen on a port; retrying')
        this.#failed.add(port)
        if (!server.listening) this.#open.delete(port)
        resolve()
      })
    })
    this.#open.set(port, { wanted: forward, server, sockets, listening })
    server.listen({ port, host })
    return listening
  }

  async #shut(port: OpenPort): Promise<void> {
    await port.listening
    this.#open.delete(port.wanted.port)
    const closed = new Promise<void>((resolve) => port.server.close(() => resolve()))
    for (const socket of port.sockets) socket.resetAndDestroy()
    await closed
  }

  #connect(socket: Socket, forward: RelayedPort, sockets: Set<Socket>): void {
    const { links, log } = this.#options
    socket.on('error', () => {})
    const { hostId, workloadId, target } = forward
    const release = this.#shares.take({ kind: target === SSH_TARGET ? 'ssh' : 'ports', hostId, workloadId })
    if (typeof release === 'string') {
      if (!this.#full.has(forward.port)) {
        log.warn(
          { port: forward.port, workload: workloadId },
          `refused a relayed connection: the ${release} limit is reached`,
        )
      }
      this.#full.add(forward.port)
      return void socket.resetAndDestroy()
    }
    sockets.add(socket)
    socket.once('close', () => {
      release()
      sockets.delete(socket)
    })
    const stream = links.open(hostId, { kind: 'port', workloadId, port: target })
    if (stream === undefined) return void socket.resetAndDestroy()
    stream.on('error', () => socket.resetAndDestroy())
    socket.once('close', () => {
      // A socket that closed normally may still have bytes on their way to the host.
      if (!socket.readableEnded || !socket.writableFinished) stream.destroy()
    })
    socket.pipe(stream).pipe(socket)
  }
}

function isSame(one: RelayedPort, other: RelayedPort | undefined): boolean {
  return (
    other !== undefined &&
    one.workloadId === other.workloadId &&
    one.hostId === other.hostId &&
    one.target === other.target
  )
}

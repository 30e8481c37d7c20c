/**
 * Connections between the servers that share one database. An agent is connected to one server, but a customer may
 * reach any: a server that does not have the host opens the stream through the server that does. Servers find each
 * other in the database. Both ends prove that they know the installation's secret key (TLS with a pre-shared key
 * derived from it), so no certificates are needed. A stream is forwarded at most once: the server that gets it has the
 * host, or refuses.
 */
import { createHash, randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import tls from 'node:tls'
import type { Logger } from 'pino'
import { WebSocket, WebSocketServer } from 'ws'
import { z } from 'zod'
import type { App } from '../../app/app.ts'
import { contained } from '../../base/net/contained.ts'
import { MuxClosed } from '../../base/net/mux-closed.ts'
import { makeMux, type Mux, type MuxStream } from '../../base/net/mux.ts'
import { streamRequest } from '../../contract/agent.ts'
import type { Listener } from '../../store/platform/listener.ts'
import {
  announceServer,
  forgetServer,
  listHostPlaces,
  type HostPlace,
  type PeerServer,
} from '../../store/platform/server.ts'
import type { HostLink, HostLinks, RemoteLinks } from './host-links.ts'

const ANNOUNCE_MS = 5_000
/** A server that has not announced itself for this long is gone. */
const FORGET_SECONDS = 20
/** How often everything is read again, since notifications may be missed. */
const READ_MS = 5_000
const PING_MS = 3_000
const MAX_MISSED_PINGS = 2
const CONNECT_MS = 3_000
/** After a failed connection, hosts of that server are not reachable for this long. */
const RETRY_MS = 1_000
const MAX_STREAMS = 16_384
const MAX_FRAME_BYTES = 131_072
const MAX_BACKLOG_BYTES = 1_048_576
const PATH = '/peer'
/** The trigger `host_has_moved` notifies this channel. */
const PLACES_CHANNEL = 'berth_host_places'
/** These ciphers have forward secrecy. OpenSSL offers them up to TLS 1.2 only. */
const tlsOptions = { ciphers: 'ECDHE-PSK-CHACHA20-POLY1305', minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2' } as const

const forwarded = z.strictObject({ hostId: z.string().max(255), request: streamRequest })

export interface PeersOptions {
  readonly app: Pick<App, 'database' | 'vault' | 'installationId'>
  readonly links: HostLinks
  readonly log: Logger
  /** The address to listen on, and its name for others. */
  readonly listen: { readonly host: string; readonly port: number; readonly publicHost: string }
}

export interface Peers {
  /** The id of this server, for the sessions of its agents. */
  readonly serverId: string
  close(): Promise<void>
}

export async function openPeers(options: PeersOptions): Promise<Peers> {
  const peers = new OtherServers(options)
  await peers.open()
  return peers
}

class OtherServers implements Peers, RemoteLinks {
  readonly serverId = randomUUID()
  readonly #options: PeersOptions
  /** Keys by the identity that a peer names. While the secret key is being changed, servers have different ones. */
  readonly #keys: ReadonlyMap<string, Buffer>
  readonly #server: https.Server
  readonly #sockets = new WebSocketServer({ noServer: true, maxPayload: MAX_FRAME_BYTES })
  readonly #incoming = new Set<PeerConnection>()
  /** Connections by the id of the server. */
  readonly #outgoing = new Map<string, PeerConnection>()
  readonly #failedMs = new Map<string, number>()
  #places = new Map<string, PeerServer>()
  #own: PeerServer | undefined
  readonly #timers: NodeJS.Timeout[] = []
  #listener: Listener | undefined
  #isReading = false
  #isClosed = false

  constructor(options: PeersOptions) {
    this.#options = options
    const { installationId, vault } = options.app
    this.#keys = new Map(vault.deriveAll('peers').map((key) => [`${installationId}.${hashOf(key)}`, key]))
    this.#server = https.createServer({
      ...tlsOptions,
      pskCallback: (_socket, identity) => this.#keys.get(identity) ?? null,
      handshakeTimeout: CONNECT_MS,
    })
    // A peer that does not know the key fails here.
    this.#server.on('tlsClientError', (error) => options.log.debug({ err: error }, 'refused a peer connection'))
    this.#server.on('request', (_request, response) => response.writeHead(404).end())
    this.#server.on(
      'upgrade',
      contained(
        (_error, [, socket]) => socket.destroy(),
        (request: IncomingMessage, socket: Duplex, head: Buffer) => {
          if (request.url !== PATH) return socket.destroy()
          return this.#sockets.handleUpgrade(request, socket, head, (opened) => this.#accept(opened))
        },
      ),
    )
  }

  async open(): Promise<void> {
    const { listen: at, log, links, app } = this.#options
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen({ host: at.host, port: at.port }, () => resolve())
    })
    this.#server.on('error', (error) => log.error({ err: error }, 'peer listener failed'))
    const { port } = this.#server.address() as AddressInfo
    const host = at.publicHost.includes(':') ? `[${at.publicHost}]` : at.publicHost
    this.#own = { id: this.serverId, address: `${host}:${port}` }
    await this.#announce()
    await this.#readAll()
    const every = (ms: number, work: () => Promise<void>): void => {
      this.#timers.push(setInterval(() => void this.#try('find other servers', work()), ms).unref())
    }
    every(ANNOUNCE_MS, () => this.#announce())
    every(READ_MS, () => this.#readAll())
    this.#listener = app.database.notifications.listen({
      channel: PLACES_CHANNEL,
      onNotification: (hostId) => void this.#try('find a host', this.#readOne(hostId)),
      onGap: () => void this.#try('find hosts', this.#readAll()),
    })
    links.addRemote(this)
  }

  link(hostId: string): HostLink | undefined {
    const place = this.#places.get(hostId)
    const connection = place === undefined ? undefined : this.#connectionTo(place)
    if (connection === undefined) return undefined
    return { open: (request) => connection.open({ hostId, request }), replace: () => {} }
  }

  hostIds(): string[] {
    return [...this.#places.keys()]
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const timer of this.#timers) clearInterval(timer)
    for (const connection of [...this.#incoming, ...this.#outgoing.values()]) connection.close()
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.#server.closeAllConnections()
    await closed
    this.#listener?.close()
    await this.#try('leave the list of servers', forgetServer(this.#options.app.database.db, this.serverId))
  }

  #put(places: Map<string, PeerServer>, { hostId, server }: HostPlace): void {
    if (server.id !== this.serverId) places.set(hostId, server)
  }

  async #readOne(hostId: string): Promise<void> {
    const [place] = await listHostPlaces(this.#options.app.database.db, hostId)
    this.#places.delete(hostId)
    if (place !== undefined) this.#put(this.#places, place)
    this.#options.links.remoteChanged()
  }

  async #announce(): Promise<void> {
    if (this.#own !== undefined) await announceServer(this.#options.app.database.db, this.#own, FORGET_SECONDS)
  }

  async #readAll(): Promise<void> {
    if (this.#isReading) return
    this.#isReading = true
    try {
      const places = new Map<string, PeerServer>()
      for (const place of await listHostPlaces(this.#options.app.database.db)) this.#put(places, place)
      this.#places = places
      this.#options.links.remoteChanged()
      const usedIds = new Set([...places.values()].map(({ id }) => id))
      for (const [id, connection] of this.#outgoing) if (!usedIds.has(id)) connection.closeWhenIdle()
    } finally {
      this.#isReading = false
    }
  }

  #connectionTo(server: PeerServer): PeerConnection | undefined {
    const existing = this.#outgoing.get(server.id)
    if (existing !== undefined) return existing
    if (performance.now() - (this.#failedMs.get(server.id) ?? Number.NEGATIVE_INFINITY) < RETRY_MS) return undefined
    const [[identity, psk] = []] = this.#keys
    if (identity === undefined || psk === undefined) return undefined
    const { hostname, port } = new URL(`wss://${server.address}`)
    const host = hostname.replace(/^\[|\]$/g, '')
    const socket = new WebSocket(`wss://${server.address}${PATH}`, {
      handshakeTimeout: CONNECT_MS,
      maxPayload: MAX_FRAME_BYTES,
      perMessageDeflate: false,
      createConnection: () =>
        tls.connect({
          ...tlsOptions,
          host,
          port: Number(port),
          pskCallback: () => ({ psk, identity }),
          // The key proves the identity; there is no certificate.
          checkServerIdentity: () => undefined,
        }),
    })
    const connection = new PeerConnection(socket, 'client', undefined, (error) => {
      this.#outgoing.delete(server.id)
      if (error === undefined || this.#isClosed) return
      this.#failedMs.set(server.id, performance.now())
      this.#options.log.warn({ server: server.address, err: error }, 'the connection to another server failed')
    })
    this.#failedMs.delete(server.id)
    this.#outgoing.set(server.id, connection)
    return connection
  }

  #accept(socket: WebSocket): void {
    const connection = new PeerConnection(
      socket,
      'server',
      (request, stream) => this.#forward(request, stream),
      () => void this.#incoming.delete(connection),
    )
    this.#incoming.add(connection)
  }

  #forward(message: unknown, stream: MuxStream): void {
    const parsed = forwarded.safeParse(message)
    if (!parsed.success) return void stream.destroy(new Error('the request for a stream is not valid'))
    const { hostId, request } = parsed.data
    const target = this.#options.links.openHere(hostId, request)
    if (target === undefined) return void stream.destroy(new MuxClosed('the host is not connected to this server'))
    join(stream, target)
  }

  /** Logs the error; everything is tried again a little later. */
  async #try(what: string, work: Promise<void>): Promise<void> {
    try {
      await work
    } catch (error) {
      this.#options.log.warn({ err: error }, `could not ${what}`)
    }
  }
}

/** Passes bytes and signals both ways; a failure of one ends the other with the same reason. */
function join(one: MuxStream, other: MuxStream): void {
  const pass = (from: MuxStream, to: MuxStream): void => {
    const end = (error: Error): unknown => to.destroy(error)
    from.on(
      'signal',
      contained(end, (value: unknown) => to.sendSignal(value)),
    )
    from.once('error', end)
    from.once('close', () => {
      // A stream that closed normally may still have bytes in flight.
      if (!isOver(from)) to.destroy()
    })
    from.pipe(to)
  }
  pass(one, other)
  pass(other, one)
}

function isOver(stream: Duplex): boolean {
  return stream.readableEnded && stream.writableFinished
}

class PeerConnection {
  readonly #socket: WebSocket
  readonly #mux: Mux
  readonly #ping: NodeJS.Timeout
  /** Frames that wait for the connection. */
  #unsent: Buffer[] | undefined = []
  #missedPings = 0
  #error: Error | undefined

  constructor(
    socket: WebSocket,
    side: 'client' | 'server',
    accept: ((request: unknown, stream: MuxStream) => void) | undefined,
    ended: (error: Error | undefined) => void,
  ) {
    this.#socket = socket
    this.#mux = makeMux({
      side,
      maxStreams: MAX_STREAMS,
      send: (frame) => this.#send(frame),
      backlog: () => socket.bufferedAmount,
      ...(accept === undefined ? {} : { accept }),
      failed: (error) => this.#fail(error),
    })
    socket.on('open', () => this.#flush())
    if (socket.readyState === WebSocket.OPEN) this.#flush()
    const end = (error: Error): void => this.#fail(error)
    socket.on(
      'message',
      contained(end, (data, isBinary) => {
        this.#missedPings = 0
        if (isBinary) this.#mux.receive(data as Buffer)
      }),
    )
    socket.on('pong', () => (this.#missedPings = 0))
    socket.on('error', (error) => (this.#error ??= error))
    socket.once('close', () => {
      clearInterval(this.#ping)
      this.#mux.close('the connection between two servers was lost')
      ended(this.#error)
    })
    this.#ping = setInterval(() => this.#checkLiving(), PING_MS).unref()
  }

  open(request: unknown): MuxStream {
    return this.#mux.open(request)
  }

  close(): void {
    this.#mux.close('the server is shutting down')
    this.#socket.terminate()
  }

  closeWhenIdle(): void {
    if (this.#mux.streams === 0) this.#socket.close()
  }

  #send(frame: Buffer): void {
    if (this.#unsent === undefined) {
      if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(frame, () => this.#mux.flush())
      return
    }
    this.#unsent.push(frame)
    if (this.#unsent.reduce((sum, one) => sum + one.length, 0) > MAX_BACKLOG_BYTES)
      this.#fail(new Error('too much waits for the connection'))
  }

  #flush(): void {
    const frames = this.#unsent ?? []
    this.#unsent = undefined
    for (const frame of frames) this.#socket.send(frame)
  }

  #checkLiving(): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return
    if (this.#missedPings >= MAX_MISSED_PINGS) return this.#fail(new Error('the other server does not answer'))
    this.#missedPings += 1
    this.#socket.ping()
  }

  #fail(error: Error): void {
    this.#error ??= error
    this.#socket.terminate()
  }
}

/** Names a key without revealing it. */
function hashOf(key: Buffer): string {
  return createHash('sha256').update(key).digest('hex').slice(0, 16)
}

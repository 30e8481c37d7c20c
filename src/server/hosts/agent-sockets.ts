/**
 * The WebSocket endpoint for agents. A host proves its identity with its key, wherever it connects from: it signs a
 * nonce made for this connection, so a signature from another connection is worthless. Authenticated agents get a
 * session (agent-session.ts); failures are counted by address. PostgreSQL notifies of changes to a host's desired state;
 * when notifications may have been missed, all hosts are checked.
 */
import { createPublicKey, randomBytes, randomUUID, verify } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Logger } from 'pino'
import { WebSocketServer, type WebSocket } from 'ws'
import type { App } from '../../app/app.ts'
import type { MetricRecorder } from '../../app/rental/metric-recorder.ts'
import { contained } from '../../base/net/contained.ts'
import { MINUTE_MS } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { makeLineLimit } from '../../base/net/line-limit.ts'
import type { Metrics } from '../../base/metrics.ts'
import { AGENT_PATH, AGENT_PROTOCOL, agentStatement, type FromServer } from '../../contract/agent.ts'
import { beginSession, endSession, findHost, touchHosts, type HostRow } from '../../store/host/host.ts'
import { AgentSession, closeCodes, parseMessage, type SessionPorts } from './agent-session.ts'
import { requestFailurePage } from '../http/error-page.ts'
import { fail } from '../../contract/result.ts'
import type { HostLinks } from './host-links.ts'
import type { Listener } from '../../store/platform/listener.ts'
import { addressOf, type TrustedProxy } from '../http/trusted-proxy.ts'
import { pathOf, refuseUpgrade, type UpgradeHandler } from '../http/upgrade.ts'

/** The channel of the trigger `host_is_told`. */
const HOSTS_CHANNEL = 'berth_hosts'
/** Room for a report of a thousand machines. */
const MAX_MESSAGE_BYTES = 1_048_576
const HELLO_MS = 10_000
/** Unauthenticated connections: in total, and per address. */
const MAX_UNAUTHENTICATED = 256
const MAX_UNAUTHENTICATED_PER_ADDRESS = 64
const MAX_REFUSALS_PER_MINUTE = 60
const SECOND_MS = 1_000
/** How often all hosts are checked without a notification. */
const CHECK_EVERY_SECONDS = 30
/** How many hosts are checked at a time. */
const SEND_CONCURRENCY = 8
const GOODBYE_MS = 2_000
/** Log lines per host or address. */
const MAX_LINES_PER_MINUTE = 12

export interface AgentSocketsOptions {
  readonly app: App
  readonly log: Logger
  readonly links: HostLinks
  readonly heartbeatMs: number
  readonly trustedProxy: TrustedProxy | undefined
  readonly metrics?: Metrics
  readonly recorder: MetricRecorder
  /** Identifies this server to others. null: other servers cannot reach the hosts connected here. */
  readonly serverId?: string | null
}

export interface AgentSockets {
  readonly take: UpgradeHandler
  /** Closes all connections; agents reconnect, here or elsewhere. */
  close(): Promise<void>
}

export function openAgentSockets(options: AgentSocketsOptions): AgentSockets {
  const sockets = new Sockets(options)
  return { take: (request, socket, head) => sockets.take(request, socket, head), close: () => sockets.close() }
}

class Sockets {
  readonly #options: AgentSocketsOptions
  readonly #sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: MAX_MESSAGE_BYTES,
    // Sessions answer pings themselves, within their message limit; unauthenticated connections get no answer.
    autoPong: false,
  })
  readonly #unauthenticated = new Map<WebSocket, string>()
  readonly #refusals: Refusals
  readonly #lines = makeLineLimit({ perMinute: MAX_LINES_PER_MINUTE })
  readonly #sessions = new Map<string, AgentSession>()
  readonly #heartbeats = new Set<AgentSession>()
  readonly #unsent = new Set<AgentSession>()
  readonly #underWay = new Set<Promise<unknown>>()
  readonly #listener: Listener
  readonly #seconds: NodeJS.Timeout
  readonly #ports: SessionPorts
  readonly #count: { readonly refused: (reason: string) => void }
  #senders = 0
  #secondsPassed = 0
  #wasTrusted = false
  #isClosed = false

  constructor(options: AgentSocketsOptions) {
    const { app, links, heartbeatMs, metrics } = options
    this.#options = options
    this.#refusals = makeRefusals(() => app.clock.now())
    const refused = metrics?.counter('berth_agent_refusals_total', 'Refused agent connections by reason')
    const messages = metrics?.counter('berth_agent_messages_total', 'Messages from agents by type')
    const connected = metrics?.gauge('berth_hosts_connected', 'Hosts whose agents are connected to this server')
    metrics?.collect(() => connected?.set(this.#sessions.size))
    this.#count = { refused: (reason) => refused?.add({ reason }) }
    this.#ports = {
      app,
      warn: (hostId, fields, message) => this.#warn(hostId, { hostId, ...fields }, message),
      heartbeatMs,
      onUnchangedReport: (session) => void this.#heartbeats.add(session),
      desiredMayChange: (session) => this.#sendSoon(session),
      counted: (type) => messages?.add({ type }),
      measured: (session, metrics) => options.recorder.take(session.hostId, session.id, metrics),
    }
    this.#listener = app.database.notifications.listen({
      channel: HOSTS_CHANNEL,
      onNotification: (hostId) => {
        for (const session of this.#sessions.values()) if (session.hostId === hostId) this.#sendSoon(session)
        links.notify(hostId)
      },
      onGap: () => this.#sendToAll(),
    })
    this.#seconds = setInterval(() => this.#everySecond(), SECOND_MS).unref()
  }

  take(request: IncomingMessage, socket: Socket, head: Buffer): boolean {
    if (pathOf(request) !== AGENT_PATH) return false
    const address = addressOf(request, this.#options.trustedProxy)
    const ofAddress = [...this.#unauthenticated.values()].filter((one) => one === address).length
    if (this.#isClosed || this.#unauthenticated.size >= MAX_UNAUTHENTICATED) {
      refuseUpgrade(socket, requestFailurePage('v2', fail('too_many_connections')), SECOND_MS)
    } else if (ofAddress >= MAX_UNAUTHENTICATED_PER_ADDRESS || this.#refusals.of(address) >= MAX_REFUSALS_PER_MINUTE) {
      const failure = fail('rate_limited', {
        limit: MAX_REFUSALS_PER_MINUTE,
        unit: 'connections that fail to authenticate',
      })
      refuseUpgrade(socket, requestFailurePage('v2', failure), MINUTE_MS)
    } else {
      this.#sockets.handleUpgrade(request, socket, head, (opened) => this.#greet(opened, address))
    }
    return true
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#seconds)
    for (const socket of this.#unauthenticated.keys()) socket.terminate()
    for (const session of this.#sessions.values()) session.end(closeCodes.restart, 'the server is shutting down')
    const deadline = new Promise<void>((resolve) => setTimeout(resolve, GOODBYE_MS).unref())
    await Promise.race([this.#idle(), deadline])
    this.#listener.close()
  }

  /** Resolves when all connections are closed and their last reports written. */
  async #idle(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay)
  }

  #greet(socket: WebSocket, address: string): void {
    const nonce = randomBytes(24).toString('base64url')
    this.#unauthenticated.set(socket, address)
    const deadline = setTimeout(() => refuse('no_hello', 'No hello message in time'), HELLO_MS).unref()
    const leave = (): void => {
      clearTimeout(deadline)
      this.#unauthenticated.delete(socket)
    }
    const refuse = (reason: string, message: string): void => {
      leave()
      this.#refusals.add(address)
      this.#count.refused(reason)
      this.#warn(address, { address, reason }, 'refused an agent connection')
      sendMessage(socket, { type: 'refused', reason, message })
      socket.close(closeCodes.bad, reason)
      setTimeout(() => socket.terminate(), SECOND_MS).unref()
    }
    socket.on('error', (error) => this.#warn(address, { address, err: error }, 'agent connection failed'))
    socket.once('close', leave)
    const greet = (data: Buffer, isBinary: boolean): void => {
      const hello = isBinary ? undefined : parseMessage(data.toString())
      if (hello?.ok !== true || hello.value.type !== 'hello') {
        return refuse('bad_message', 'The first message must be hello')
      }
      const greeting = hello.value
      // An agent must wait for the welcome: messages sent before it may be lost.
      socket.pause()
      const admit = async (): Promise<void> => {
        const host = await this.#identify(greeting, nonce)
        if (host === undefined) {
          socket.resume()
          return refuse('unknown_host', 'No host with this id and key')
        }
        leave()
        await this.#welcome(socket, host, greeting.version)
      }
      this.#track(
        admit().catch((error: unknown) => {
          this.#warn(address, { address, err: error }, 'could not look up a host')
          leave()
          socket.terminate()
        }),
      )
    }
    const end = (): void => socket.terminate()
    socket.once(
      'message',
      contained(end, (data, isBinary) => greet(data as Buffer, isBinary)),
    )
    const installation = this.#options.app.installationId
    sendMessage(socket, { type: 'challenge', protocol: AGENT_PROTOCOL, installation, nonce })
  }

  /** undefined: unknown, or a wrong signature. The caller is not told which. */
  async #identify(hello: { hostId: string; signature: string }, nonce: string): Promise<HostRow | undefined> {
    const { database, installationId } = this.#options.app
    const host = await findHost(database.db, hello.hostId)
    if (host === undefined || host.public_key === null) return undefined
    return isSignedBy(host.public_key, agentStatement(installationId, nonce), hello.signature) ? host : undefined
  }

  async #welcome(socket: WebSocket, host: HostRow, version: string): Promise<void> {
    const { app, links, heartbeatMs, serverId = null } = this.#options
    const id = randomUUID()
    await beginSession(app.database.db, host.id, id, version, serverId)
    if (this.#isClosed || socket.readyState !== socket.OPEN) {
      socket.terminate()
      return this.#forget(host.id, id)
    }
    const session = new AgentSession(
      socket,
      { id: host.id, offering: host.offer.offering, seenAt: host.seen_at },
      id,
      this.#ports,
    )
    this.#sessions.set(id, session)
    this.#track(new Promise<void>((resolve) => socket.once('close', resolve)).then(() => this.#leave(session)))
    links.add(host.id, session)
    this.#inform(host.id, 'host connected')
    session.sendMessage({ type: 'welcome', heartbeatMs })
    this.#sendSoon(session)
    app.database.onCommit(new Set(['inventory', 'observe']))
    socket.resume()
  }

  async #leave(session: AgentSession): Promise<void> {
    const { links } = this.#options
    this.#sessions.delete(session.id)
    this.#heartbeats.delete(session)
    this.#unsent.delete(session)
    links.remove(session.hostId, session)
    await session.settled()
    this.#inform(session.hostId, 'host disconnected')
    await this.#forget(session.hostId, session.id)
  }

  async #forget(hostId: string, sessionId: string): Promise<void> {
    const { database } = this.#options.app
    try {
      await endSession(database.db, hostId, sessionId)
      database.onCommit(new Set(['inventory', 'observe']))
    } catch (error) {
      // The host then counts as silent a little later, when its heartbeats are missing.
      this.#options.log.warn({ hostId, err: error }, 'could not record the end of an agent session')
    }
  }

  /** `key`: the host or the address that caused it. */
  #warn(key: string, fields: object, message: string): void {
    const line = this.#lines.take(key)
    if (line !== undefined) this.#options.log.warn({ ...fields, ...line }, message)
  }

  #inform(hostId: string, message: string): void {
    const line = this.#lines.take(hostId)
    if (line !== undefined) this.#options.log.info({ hostId, ...line }, message)
  }

  #everySecond(): void {
    this.#track(this.#writeHeartbeats())
    const isTrusted = this.#listener.isTrusted()
    this.#secondsPassed += 1
    if (!isTrusted || !this.#wasTrusted || this.#secondsPassed % CHECK_EVERY_SECONDS === 0) this.#sendToAll()
    this.#wasTrusted = isTrusted
  }

  async #writeHeartbeats(): Promise<void> {
    if (this.#heartbeats.size === 0) return
    const sessions = [...this.#heartbeats].map((one) => ({ hostId: one.hostId, session: one.id }))
    this.#heartbeats.clear()
    const { database, clock } = this.#options.app
    try {
      await touchHosts(database.db, sessions, clock.now())
    } catch (error) {
      this.#options.log.warn({ err: error, hosts: sessions.length }, 'could not record host heartbeats')
    }
  }

  #sendToAll(): void {
    for (const session of this.#sessions.values()) this.#sendSoon(session)
  }

  /** Coalesces several changes for one host. */
  #sendSoon(session: AgentSession): void {
    this.#unsent.add(session)
    if (this.#senders >= SEND_CONCURRENCY) return
    this.#senders += 1
    this.#track(this.#sendUnsent().finally(() => (this.#senders -= 1)))
  }

  async #sendUnsent(): Promise<void> {
    for (const session of this.#unsent) {
      this.#unsent.delete(session)
      await session.sendDesired()
    }
  }

  #track(work: Promise<unknown>): void {
    this.#underWay.add(work)
    work
      .catch((error: unknown) => this.#options.log.error({ err: error }, 'agent task failed'))
      .finally(() => this.#underWay.delete(work))
  }
}

function sendMessage(socket: WebSocket, message: FromServer): void {
  socket.send(JSON.stringify(message))
}

/** The key is an Ed25519 key of 32 bytes in base64url. */
export function isSignedBy(publicKey: string, statement: string, signature: string): boolean {
  const bytes = Buffer.from(signature, 'base64url')
  if (bytes.length !== 64) return false
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: publicKey }, format: 'jwk' })
  return verify(null, Buffer.from(statement), key, bytes)
}

interface Refusals {
  add(address: string): void
  of(address: string): number
}

/** Refusals per minute, for a bounded number of addresses. */
function makeRefusals(now: () => number): Refusals {
  let minute = 0
  const counts = new Map<string, number>()
  const current = (): Map<string, number> => {
    const at = Math.floor(now() / MINUTE_MS)
    if (at !== minute) counts.clear()
    minute = at
    return counts
  }
  return {
    of: (address) => current().get(address) ?? 0,
    add: (address) => {
      const counts = current()
      if (counts.size < limits.rateSubjects || counts.has(address)) counts.set(address, (counts.get(address) ?? 0) + 1)
    },
  }
}

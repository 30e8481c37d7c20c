/**
 * The agent's WebSocket to its server. It reconnects forever with exponential backoff and jitter, and reports on every
 * change and with every heartbeat. Only a final refusal ends it, such as a host or key that the server does not know.
 */
import { randomInt } from 'node:crypto'
import { WebSocket, type RawData } from 'ws'
import { contained } from '../base/net/contained.ts'
import { makeMux, type Mux, type MuxStream } from '../base/net/mux.ts'
import {
  AGENT_PATH,
  AGENT_PROTOCOL,
  fromServer,
  type Desired,
  type FromAgent,
  type FromServer,
  type HostMetrics,
  type HostReport,
} from '../contract/agent.ts'
import type { AgentKey } from './identity.ts'

export interface ConnectionOptions {
  readonly server: string
  readonly hostId: string
  readonly installation: string
  readonly key: Pick<AgentKey, 'answer' | 'publicKey'>
  readonly version: string
  /** undefined: no report. */
  report(): HostReport | undefined
  desired(desired: Desired): void
  accept(request: unknown, stream: MuxStream): void
  /** Called once per change, not per attempt. */
  state(state: ConnectionState): void
}

export type ConnectionState =
  | { readonly kind: 'connected' }
  | { readonly kind: 'lost'; readonly message: string }
  /** A refused move, or a refused connection. */
  | { readonly kind: 'refused'; readonly refusal: Refusal }

export interface Refusal {
  readonly reason: string
  readonly message: string
}

export type Move = Extract<FromAgent, { type: 'move' }>['to']

export interface Connection {
  readonly isConnected: boolean
  /** Call it when the report has changed. */
  reportSoon(): void
  /** false: not connected. */
  sendMetrics(metrics: HostMetrics): boolean
  /** false: not connected. The answer is the next `desired`, or a refusal. */
  move(to: Move): boolean
  /** Resolves after `close`, or with the reason of a final refusal. */
  readonly ended: Promise<Refusal | undefined>
  close(): void
}

/** Timeout from connecting to the server's welcome. */
const WELCOME_MS = 15_000
const FIRST_DELAY_MS = 500
const MAX_DELAY_MS = 15_000
const MAX_FAILURES = 10
/** The backoff is reset only after this long, so a server that accepts and then hangs up is not called at once. */
const STABLE_MS = 30_000
/** The server closes with this code when another connection of this host has taken over. */
const REPLACED_CODE = 4_001
/** After this many heartbeats without a byte the connection counts as dead. */
const SILENT_HEARTBEATS = 3
const MIN_SILENCE_MS = 2_000
/** Changes within this time share one report. */
const GATHER_MS = 50
const MAX_MESSAGE_BYTES = 16 * 1_048_576
const CLOSE_MS = 2_000

/** A retry cannot succeed after these. */
const finalReasons: ReadonlySet<string> = new Set(['unknown_host', 'protocol_unsupported', 'another_installation'])

export function openConnection(options: ConnectionOptions): Connection {
  return new AgentConnection(options)
}

class AgentConnection implements Connection {
  readonly #options: ConnectionOptions
  readonly ended: Promise<Refusal | undefined>
  #end: (refusal: Refusal | undefined) => void = () => {}
  #socket: WebSocket | undefined
  #mux: Mux | undefined
  #failures = 0
  #lastMessage = ''
  #isClosed = false
  #retryTimer: NodeJS.Timeout | undefined
  #gatherTimer: NodeJS.Timeout | undefined
  #heartbeatTimer: NodeJS.Timeout | undefined
  #stableTimer: NodeJS.Timeout | undefined
  #receivedAt = 0

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.ended = new Promise((resolve) => (this.#end = resolve))
    this.#dial()
  }

  /** The server has accepted us, and the connection is not known to be lost. */
  get isConnected(): boolean {
    return this.#mux !== undefined
  }

  reportSoon(): void {
    if (this.#mux === undefined || this.#gatherTimer !== undefined) return
    this.#gatherTimer = setTimeout(() => {
      this.#gatherTimer = undefined
      this.#sendReport()
    }, GATHER_MS)
  }

  sendMetrics(metrics: HostMetrics): boolean {
    return this.#send(metrics)
  }

  move(to: Move): boolean {
    return this.#send({ type: 'move', to })
  }

  close(): void {
    this.#finish(undefined)
  }

  #dial(): void {
    const socket = new WebSocket(urlOf(this.#options.server), {
      handshakeTimeout: WELCOME_MS,
      maxPayload: MAX_MESSAGE_BYTES,
      perMessageDeflate: false,
    })
    this.#socket = socket
    const deadline = setTimeout(() => this.#cut(socket, 'the server did not accept the connection in time'), WELCOME_MS)
    const noteReceipt = (): void => void (this.#receivedAt = performance.now())
    const end = (error: Error): void => this.#cut(socket, error.message)
    socket.on(
      'message',
      contained(end, (data, isBinary) => {
        noteReceipt()
        if (this.#socket !== socket) return
        if (isBinary) return this.#mux?.receive(bufferOf(data))
        this.#receive(socket, data, () => clearTimeout(deadline))
      }),
    )
    socket.on('ping', noteReceipt)
    socket.on('pong', noteReceipt)
    socket.on('error', (error) => this.#handleLoss(socket, error.message === '' ? 'no answer' : error.message))
    socket.on('close', (code, reason) => {
      clearTimeout(deadline)
      // Another agent uses the same key: reconnecting at once would make both useless.
      if (code === REPLACED_CODE) this.#failures = MAX_FAILURES
      this.#handleLoss(socket, reason.length > 0 ? reason.toString() : `the connection was closed (${code})`)
    })
  }

  #receive(socket: WebSocket, data: RawData, onWelcome: () => void): void {
    const message = parseMessage(data)
    if (message === undefined) return this.#cut(socket, 'the server sent an invalid message')
    switch (message.type) {
      case 'challenge':
        return this.#answer(message)
      case 'welcome':
        onWelcome()
        return this.#begin(socket, message.heartbeatMs)
      case 'refused':
        return this.#handleRefusal(socket, { reason: message.reason, message: message.message })
      case 'desired':
        if (this.#mux !== undefined) this.#options.desired(message)
        return undefined
    }
  }

  /** Signs only for the installation that this host has joined, so a relay cannot use the answer elsewhere. */
  #answer({ protocol, installation, nonce }: Extract<FromServer, { type: 'challenge' }>): void {
    const { hostId, key, version } = this.#options
    if (installation !== this.#options.installation) {
      const message = `${this.#options.server} is not the installation that this host has joined.`
      return this.#finish({ reason: 'another_installation', message })
    }
    if (protocol !== AGENT_PROTOCOL) {
      const message = `The server uses agent protocol ${protocol}, this agent uses ${AGENT_PROTOCOL}. Update the older one.`
      return this.#finish({ reason: 'protocol_unsupported', message })
    }
    this.#send({ type: 'hello', hostId, signature: key.answer(installation, nonce), version })
  }

  #begin(socket: WebSocket, heartbeatMs: number): void {
    this.#stableTimer = setTimeout(() => (this.#failures = 0), STABLE_MS)
    this.#lastMessage = ''
    this.#mux = makeMux({
      side: 'client',
      send: (frame) => socket.send(frame, () => this.#mux?.flush()),
      backlog: () => socket.bufferedAmount,
      accept: (request, stream) => this.#options.accept(request, stream),
      failed: (error) => this.#cut(socket, error.message),
    })
    const silenceMs = Math.max(SILENT_HEARTBEATS * heartbeatMs, MIN_SILENCE_MS)
    this.#heartbeatTimer = setInterval(() => {
      if (performance.now() - this.#receivedAt > silenceMs) return this.#cut(socket, 'the server stopped responding')
      socket.ping()
      this.#sendReport()
    }, heartbeatMs)
    this.#options.state({ kind: 'connected' })
    this.#sendReport()
  }

  /** A refusal after the welcome concerns a move, so the connection stays. */
  #handleRefusal(socket: WebSocket, refusal: Refusal): void {
    if (finalReasons.has(refusal.reason)) return this.#finish(refusal)
    this.#options.state({ kind: 'refused', refusal })
    if (this.#mux === undefined) this.#cut(socket, refusal.message)
  }

  #cut(socket: WebSocket, message: string): void {
    this.#handleLoss(socket, message)
    socket.terminate()
  }

  #handleLoss(socket: WebSocket, message: string): void {
    if (this.#socket !== socket || this.#isClosed) return
    this.#hangUp()
    if (this.#lastMessage !== message) this.#options.state({ kind: 'lost', message })
    this.#lastMessage = message
    const limit = Math.min(FIRST_DELAY_MS * 2 ** this.#failures, MAX_DELAY_MS)
    this.#failures = Math.min(this.#failures + 1, MAX_FAILURES)
    // Jitter: a thousand agents must not reconnect at the same moment.
    this.#retryTimer = setTimeout(() => this.#dial(), randomInt(limit / 2, limit))
  }

  #hangUp(): void {
    clearInterval(this.#heartbeatTimer)
    clearTimeout(this.#stableTimer)
    clearTimeout(this.#gatherTimer)
    clearTimeout(this.#retryTimer)
    this.#gatherTimer = undefined
    const [mux, socket] = [this.#mux, this.#socket]
    this.#mux = undefined
    this.#socket = undefined
    mux?.close('the connection to the host was lost')
    if (socket === undefined || socket.readyState === WebSocket.CLOSED) return
    socket.close()
    setTimeout(() => socket.terminate(), CLOSE_MS).unref()
  }

  #finish(refusal: Refusal | undefined): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#hangUp()
    this.#end(refusal)
  }

  #sendReport(): void {
    const report = this.#mux === undefined ? undefined : this.#options.report()
    if (report !== undefined) this.#send(report)
  }

  #send(message: FromAgent): boolean {
    const isReady = message.type === 'hello' ? this.#socket !== undefined : this.#mux !== undefined
    if (!isReady || this.#socket?.readyState !== WebSocket.OPEN) return false
    this.#socket.send(JSON.stringify(message))
    return true
  }
}

/** `http://127.0.0.1:8420/berth` → `ws://127.0.0.1:8420/berth/v2/agent/connect`. */
function urlOf(server: string): string {
  return `${server.replace(/^http/, 'ws').replace(/\/+$/, '')}${AGENT_PATH}`
}

function parseMessage(data: RawData): FromServer | undefined {
  try {
    return fromServer.parse(JSON.parse(bufferOf(data).toString('utf8')))
  } catch {
    return undefined
  }
}

function bufferOf(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data)
}

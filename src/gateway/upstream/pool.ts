/**
 * The connections to one address. A request takes the most recently used one, so that surplus connections go idle and
 * are closed. Idle ones are closed before the server would do it: a request on a closed connection must be sent twice.
 */
import type { Address } from '../catalog.ts'
import { Connection, type AnswerSink, type ConnectionOwner, type Outgoing, type SocketOptions } from './connection.ts'
import type { Ticker } from './ticker.ts'

/** Most servers close idle connections after five seconds. */
const IDLE_MS = 4_000
/** Closes this much earlier than the server. */
const MARGIN_MS = 1_000
const MAX_IDLE_MS = 60_000
const MAX_IDLE = 256

export class Pool implements ConnectionOwner {
  readonly address: Address
  readonly ticker: Ticker
  readonly #options: SocketOptions
  /** Connections of all pools, for `close`. */
  readonly #allConnections: Set<Connection>
  readonly #idle: Connection[] = []
  #connections = 0
  #session: Buffer | undefined
  #isClosed = false

  constructor(address: Address, ticker: Ticker, options: SocketOptions, allConnections: Set<Connection>) {
    this.address = address
    this.ticker = ticker
    this.#allConnections = allConnections
    this.#options = options
  }

  get connections(): number {
    return this.#connections
  }

  get idle(): number {
    return this.#idle.length
  }

  send(sink: AnswerSink, outgoing: Outgoing): void {
    const idle = this.#idle.pop()
    if (idle === undefined) this.resend(sink, outgoing)
    else idle.send(sink, outgoing)
  }

  resend(sink: AnswerSink, outgoing: Outgoing): void {
    const connection = this.#open(sink, outgoing)
    if (connection === undefined) return
    this.#connections += 1
    this.#allConnections.add(connection)
    connection.send(sink, outgoing)
  }

  /** An invalid address, such as a port above 65535, fails only this deployment's requests. */
  #open(sink: AnswerSink, outgoing: Outgoing): Connection | undefined {
    try {
      return new Connection(this, this.address, this.#options, this.#session, outgoing.limits)
    } catch (error) {
      queueMicrotask(() => sink.onFault('connect', error instanceof Error ? error.message : String(error)))
      return undefined
    }
  }

  release(connection: Connection, keepAliveMs: number | undefined): void {
    const idleMs = keepAliveMs === undefined ? IDLE_MS : Math.min(keepAliveMs - MARGIN_MS, MAX_IDLE_MS)
    if (this.#isClosed || idleMs <= 0 || this.#idle.length >= MAX_IDLE) return connection.cancel()
    connection.idleUntil = this.ticker.now + idleMs
    this.#idle.push(connection)
  }

  forget(connection: Connection): void {
    this.#connections -= 1
    this.#allConnections.delete(connection)
    const place = this.#idle.indexOf(connection)
    if (place !== -1) this.#idle.splice(place, 1)
  }

  keepSession(session: Buffer): void {
    this.#session = session
  }

  /** Closes idle connections now, busy ones after their answers. */
  retire(): void {
    this.#isClosed = true
    // `cancel` removes the connection from the list.
    for (let last = this.#idle.at(-1); last !== undefined; last = this.#idle.at(-1)) last.cancel()
  }
}

export class Pools {
  readonly #pools = new Map<string, Pool>()
  readonly #allConnections = new Set<Connection>()
  readonly #ticker: Ticker
  readonly #options: SocketOptions

  constructor(ticker: Ticker, options: SocketOptions) {
    this.#ticker = ticker
    this.#options = options
  }

  of(address: Address): Pool {
    const key = keyOf(address)
    const pool = this.#pools.get(key) ?? new Pool(address, this.#ticker, this.#options, this.#allConnections)
    this.#pools.set(key, pool)
    return pool
  }

  /** Retires every pool that is not in this set. */
  keepOnly(used: ReadonlySet<Pool>): void {
    for (const [key, pool] of this.#pools) {
      if (used.has(pool)) continue
      pool.retire()
      this.#pools.delete(key)
    }
  }

  /** Pending requests fail with `broken`. */
  async close(): Promise<void> {
    this.keepOnly(new Set())
    const closing = [...this.#allConnections].map((connection) => connection.abort('the gateway is shutting down'))
    await Promise.all(closing)
  }
}

function keyOf(address: Address): string {
  if (address.kind === 'unix') return `unix:${address.path}`
  if (address.kind === 'link') return `link:${address.hostId}:${address.workloadId}:${address.port}`
  return `${address.tls ? 'tls' : 'tcp'}:${address.host}:${address.port}`
}

/**
 * The connections to one address. A request takes the one that was used last, so that the surplus grows old and is let
 * go; idle ones are dropped before the server would do it, because a request that meets a closed connection costs a
 * second one.
 */
import type { Address } from '../catalog.ts'
import { Connection, type AnswerSink, type Home, type Outgoing, type SocketOptions } from './connection.ts'
import type { Ticker } from './ticker.ts'

/** Most servers keep idle connections for five seconds. */
const IDLE_MS = 4_000
/** So much earlier than the server we let go of a connection. */
const MARGIN_MS = 1_000
const LONGEST_IDLE_MS = 60_000
const MAX_IDLE = 256

export class Pool implements Home {
  readonly address: Address
  readonly ticker: Ticker
  readonly #options: SocketOptions
  /** Of all pools, so that none is forgotten when everything ends. */
  readonly #everyone: Set<Connection>
  readonly #idle: Connection[] = []
  #connections = 0
  #session: Buffer | undefined
  #isClosed = false

  constructor(address: Address, ticker: Ticker, options: SocketOptions, everyone: Set<Connection>) {
    this.address = address
    this.ticker = ticker
    this.#everyone = everyone
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
    this.#everyone.add(connection)
    connection.send(sink, outgoing)
  }

  /** An address that no socket takes, such as a port past all ports, is a fault of that deployment alone. */
  #open(sink: AnswerSink, outgoing: Outgoing): Connection | undefined {
    try {
      return new Connection(this, this.address, this.#options, this.#session, outgoing.limits)
    } catch (error) {
      queueMicrotask(() => sink.onFault('connect', error instanceof Error ? error.message : String(error)))
      return undefined
    }
  }

  release(connection: Connection, keepAliveMs: number | undefined): void {
    const idleMs = keepAliveMs === undefined ? IDLE_MS : Math.min(keepAliveMs - MARGIN_MS, LONGEST_IDLE_MS)
    if (this.#isClosed || idleMs <= 0 || this.#idle.length >= MAX_IDLE) return connection.cancel()
    connection.idleUntil = this.ticker.now + idleMs
    this.#idle.push(connection)
  }

  forget(connection: Connection): void {
    this.#connections -= 1
    this.#everyone.delete(connection)
    const place = this.#idle.indexOf(connection)
    if (place !== -1) this.#idle.splice(place, 1)
  }

  keepSession(session: Buffer): void {
    this.#session = session
  }

  /** Idle connections end now, busy ones with their answers. */
  retire(): void {
    this.#isClosed = true
    // Each leaves the list by itself.
    for (let last = this.#idle.at(-1); last !== undefined; last = this.#idle.at(-1)) last.cancel()
  }
}

export class Pools {
  readonly #pools = new Map<string, Pool>()
  readonly #everyone = new Set<Connection>()
  readonly #ticker: Ticker
  readonly #options: SocketOptions

  constructor(ticker: Ticker, options: SocketOptions) {
    this.#ticker = ticker
    this.#options = options
  }

  of(address: Address): Pool {
    const key = keyOf(address)
    const pool = this.#pools.get(key) ?? new Pool(address, this.#ticker, this.#options, this.#everyone)
    this.#pools.set(key, pool)
    return pool
  }

  /** Lets go of every pool that is not among these. */
  keepOnly(used: ReadonlySet<Pool>): void {
    for (const [key, pool] of this.#pools) {
      if (used.has(pool)) continue
      pool.retire()
      this.#pools.delete(key)
    }
  }

  /** Whoever still waits for an answer is told that it is broken. */
  async close(): Promise<void> {
    this.keepOnly(new Set())
    const closing = [...this.#everyone].map((connection) => connection.abort('the gateway ends'))
    await Promise.all(closing)
  }
}

function keyOf(address: Address): string {
  if (address.kind === 'unix') return `unix:${address.path}`
  return `${address.tls ? 'tls' : 'tcp'}:${address.host}:${address.port}`
}

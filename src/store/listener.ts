/**
 * A connection on which PostgreSQL tells this server that something has changed elsewhere. What was heard is complete
 * only while the connection is known to work: a heartbeat goes over it, and once the last answered one is older than
 * `SILENCE_MS` it is no longer trusted. So a revoked key stops within a second, even when the network swallows the
 * notification without a word.
 */
import { Client } from 'pg'
import type { Database } from './database.ts'

const HEARTBEAT_MS = 250
const SILENCE_MS = 700
const DEAD_MS = 5_000
const CONNECT_MS = 5_000
const GOODBYE_MS = 500
const backoffMs = [50, 100, 200, 500, 1_000, 2_000] as const

/** What a pino logger is, as far as it is used here. */
export interface Log {
  warn(detail: object, message: string): void
}

export async function notify(database: Database, channel: string, payloads: readonly string[]): Promise<void> {
  await database.pool.query('select pg_notify($1, payload) from unnest($2::text[]) payload', [channel, payloads])
}

export interface Listener {
  /** Whether what was notified until just now has been heard. */
  isTrusted(): boolean
  close(): Promise<void>
}

export interface ListenerOptions {
  readonly url: string | undefined
  readonly channel: string
  readonly log: Log
  /** Called with the payload of each notification. */
  readonly heard: (payload: string) => void
  /** Notifications may have been missed. */
  readonly lost: () => void
  /** A connection that has been silent for so long is given up. */
  readonly deadMs?: number
}

export function listen(options: ListenerOptions): Listener {
  const { deadMs = DEAD_MS } = options
  let client: Client | undefined
  let closed = false
  let failures = 0
  let reconnect: NodeJS.Timeout | undefined
  /** When the last heartbeat that was answered was sent. Real time, not the clock's: it measures a network. */
  let soundAt = Number.NEGATIVE_INFINITY

  const beat = async (on: Client): Promise<void> => {
    const sentAt = performance.now()
    await on.query('select 1')
    if (on === client) soundAt = sentAt
  }

  const drop = (broken: Client, error: unknown): void => {
    if (broken !== client) return
    client = undefined
    soundAt = Number.NEGATIVE_INFINITY
    options.lost()
    broken.end().catch(() => {})
    if (closed) return
    const waitMs = backoffMs[Math.min(failures, backoffMs.length - 1)] ?? CONNECT_MS
    failures += 1
    options.log.warn({ err: error, waitMs }, `the connection that listens on ${options.channel} was lost`)
    reconnect = setTimeout(() => void connect(), waitMs).unref()
  }

  const connect = async (): Promise<void> => {
    const made = new Client({
      connectionString: options.url,
      application_name: `berth:${options.channel}`,
      connectionTimeoutMillis: CONNECT_MS,
      keepAlive: true,
    })
    client = made
    made.on('error', (error) => drop(made, error))
    made.on('end', () => drop(made, new Error('the server ended the connection')))
    made.on('notification', (notice) => options.heard(notice.payload ?? ''))
    try {
      await made.connect()
      await made.query(`listen ${options.channel}`)
      await beat(made)
      failures = 0
    } catch (error) {
      drop(made, error)
    }
  }

  let unanswered: Client | undefined
  const heartbeat = setInterval(() => {
    const on = client
    // Before the first sound it is `connect` that has the connection.
    if (on === undefined || soundAt === Number.NEGATIVE_INFINITY) return
    if (on === unanswered) {
      if (performance.now() - soundAt > deadMs) drop(on, new Error('no answer to a heartbeat'))
      return
    }
    unanswered = on
    beat(on).then(
      () => (unanswered = unanswered === on ? undefined : unanswered),
      (error: unknown) => drop(on, error),
    )
  }, HEARTBEAT_MS).unref()

  void connect()
  return {
    isTrusted: () => performance.now() - soundAt < SILENCE_MS,
    close: async () => {
      closed = true
      clearInterval(heartbeat)
      clearTimeout(reconnect)
      const last = client
      client = undefined
      soundAt = Number.NEGATIVE_INFINITY
      // A network that swallows the goodbye must not hold up the end of the server.
      const patience = new Promise<void>((resolve) => setTimeout(resolve, GOODBYE_MS).unref())
      await Promise.race([last?.end().catch(() => {}), patience])
    },
  }
}

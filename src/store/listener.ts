/**
 * A connection for PostgreSQL notifications about changes made by other servers. Notifications are known to be complete
 * only while the connection works: heartbeats run over it, and once the last answered one is older than `SILENCE_MS`,
 * the connection is no longer trusted. So a revoked key stops working within a second, even when the network silently
 * drops the notification.
 */
import { Client } from 'pg'
import type { Database } from './database.ts'

const HEARTBEAT_MS = 250
const SILENCE_MS = 700
const DEAD_MS = 5_000
const CONNECT_MS = 5_000
const GOODBYE_MS = 500
const backoffMs = [50, 100, 200, 500, 1_000, 2_000] as const

/** The part of a pino logger that is used here. */
export interface Log {
  warn(detail: object, message: string): void
}

export async function notify(database: Database, channel: string, payloads: readonly string[]): Promise<void> {
  await database.pool.query('select pg_notify($1, payload) from unnest($2::text[]) payload', [channel, payloads])
}

export interface Listener {
  /** Whether all notifications up to now have been received. */
  isTrusted(): boolean
  /** Heartbeats that the database has answered, however late. */
  answers(): number
  close(): Promise<void>
}

export interface ListenerOptions {
  readonly url: string | undefined
  readonly channel: string
  readonly log: Log
  /** Called with the payload of each notification. */
  readonly onNotification: (payload: string) => void
  /** Called when notifications may have been missed. */
  readonly onGap: () => void
  /** A connection without an answer for this long is replaced. */
  readonly deadMs?: number
}

export function listen(options: ListenerOptions): Listener {
  const { deadMs = DEAD_MS } = options
  let client: Client | undefined
  let closed = false
  let failures = 0
  let reconnect: NodeJS.Timeout | undefined
  /** When the last answered heartbeat was sent. Real time, because it measures the network. */
  let answeredAt = Number.NEGATIVE_INFINITY
  let answers = 0

  const beat = async (on: Client): Promise<void> => {
    const sentAt = performance.now()
    await on.query('select 1')
    answers += 1
    if (on === client) answeredAt = sentAt
  }

  const drop = (broken: Client, error: unknown): void => {
    if (broken !== client) return
    client = undefined
    answeredAt = Number.NEGATIVE_INFINITY
    options.onGap()
    broken.end().catch(() => {})
    if (closed) return
    const waitMs = backoffMs[Math.min(failures, backoffMs.length - 1)] ?? CONNECT_MS
    failures += 1
    options.log.warn({ err: error, waitMs }, `lost the notification connection for ${options.channel}`)
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
    made.on('notification', (notice) => options.onNotification(notice.payload ?? ''))
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
    // Until the first heartbeat is answered, `connect` owns the connection.
    if (on === undefined || answeredAt === Number.NEGATIVE_INFINITY) return
    if (on === unanswered) {
      if (performance.now() - answeredAt > deadMs) drop(on, new Error('no answer to a heartbeat'))
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
    isTrusted: () => performance.now() - answeredAt < SILENCE_MS,
    answers: () => answers,
    close: async () => {
      closed = true
      clearInterval(heartbeat)
      clearTimeout(reconnect)
      const last = client
      client = undefined
      answeredAt = Number.NEGATIVE_INFINITY
      // A network that drops the goodbye must not delay the shutdown.
      const patience = new Promise<void>((resolve) => setTimeout(resolve, GOODBYE_MS).unref())
      await Promise.race([last?.end().catch(() => {}), patience])
    },
  }
}

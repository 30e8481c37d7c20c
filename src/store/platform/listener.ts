/**
 * The connection for PostgreSQL notifications about changes made by other servers. Notifications are known to be complete
 * only while it works: heartbeats run over it, and once the last answered one is older than `SILENCE_MS`,
 * the connection is no longer trusted. So a revoked key stops working within a second, even when the network silently
 * drops the notification.
 */
import { Client, type Pool } from 'pg'

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

export async function notify(pool: Pool, channel: string, payloads: readonly string[]): Promise<void> {
  await pool.query('select pg_notify($1, payload) from unnest($2::text[]) payload', [channel, payloads])
}

export interface Listener {
  /** Whether all notifications up to now have been received. */
  isTrusted(): boolean
  close(): void
}

export interface ListenOptions {
  readonly channel: string
  /** Called with the payload of each notification. */
  readonly onNotification: (payload: string) => void
  /** Called when notifications may have been missed. */
  readonly onGap: () => void
  /** Called when notifications arrive again after a gap. */
  readonly onResume?: () => void
}

interface Subscription extends ListenOptions {
  /** The connection that listens on the channel. */
  client: Client | undefined
}

export interface NotificationOptions {
  readonly url: string
  readonly log: Log
  /** A connection without an answer for this long is replaced. */
  readonly deadMs?: number
}

/** Connects when the first listener comes, and again whenever the connection is lost. */
export class Notifications {
  readonly #options: NotificationOptions
  readonly #subscriptions = new Set<Subscription>()
  #client: Client | undefined
  /** The promise settles when the last statement on the connection has ended: pg takes one at a time. */
  #last: Promise<unknown> = Promise.resolve()
  #isClosed = false
  #failures = 0
  #reconnect: NodeJS.Timeout | undefined
  #heartbeat: NodeJS.Timeout | undefined
  #unanswered: Client | undefined
  /** The last answered heartbeat was sent then. It is real time, because it measures the network. */
  #answeredAt = Number.NEGATIVE_INFINITY
  #answers = 0

  constructor(options: NotificationOptions) {
    this.#options = options
  }

  listen(options: ListenOptions): Listener {
    const subscription: Subscription = { ...options, client: undefined }
    this.#subscriptions.add(subscription)
    if (this.#heartbeat === undefined && !this.#isClosed) {
      this.#heartbeat = setInterval(() => this.#tick(), HEARTBEAT_MS).unref()
      void this.#connect()
    } else if (this.#client !== undefined) {
      const client = this.#client
      this.#subscribe(client, subscription).catch((error: unknown) => this.#drop(client, error))
    }
    return {
      isTrusted: () => subscription.client === this.#client && performance.now() - this.#answeredAt < SILENCE_MS,
      close: () => void this.#subscriptions.delete(subscription),
    }
  }

  /** Counts heartbeats that the database has answered, however late. */
  answers(): number {
    return this.#answers
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#heartbeat)
    clearTimeout(this.#reconnect)
    const last = this.#client
    this.#client = undefined
    this.#answeredAt = Number.NEGATIVE_INFINITY
    // A network that drops the goodbye must not delay the shutdown.
    const patience = new Promise<void>((resolve) => setTimeout(resolve, GOODBYE_MS).unref())
    await Promise.race([last?.end().catch(() => {}), patience])
  }

  async #connect(): Promise<void> {
    const { url } = this.#options
    const client = new Client({
      connectionString: url,
      application_name: 'berth:notifications',
      connectionTimeoutMillis: CONNECT_MS,
      keepAlive: true,
    })
    this.#client = client
    client.on('error', (error) => this.#drop(client, error))
    client.on('end', () => this.#drop(client, new Error('the server ended the connection')))
    client.on('notification', ({ channel, payload }) => {
      for (const one of this.#subscriptions) if (one.channel === channel) one.onNotification(payload ?? '')
    })
    try {
      this.#last = client.connect()
      await this.#last
      for (const one of this.#subscriptions) await this.#subscribe(client, one)
      await this.#beat(client)
      this.#failures = 0
    } catch (error) {
      this.#drop(client, error)
    }
  }

  async #beat(client: Client): Promise<void> {
    const sentAt = performance.now()
    // The cheapest statement there is: an empty one.
    await this.#query(client, '')
    this.#answers += 1
    if (client === this.#client) this.#answeredAt = sentAt
  }

  async #subscribe(client: Client, subscription: Subscription): Promise<void> {
    await this.#query(client, `listen ${subscription.channel}`)
    const isResumed = subscription.client !== undefined
    subscription.client = client
    if (isResumed) subscription.onResume?.()
  }

  #query(client: Client, text: string): Promise<unknown> {
    const answer = this.#last.then(() => client.query(text))
    this.#last = answer.catch(() => {})
    return answer
  }

  #tick(): void {
    const client = this.#client
    // Until the first heartbeat is answered, `#connect` owns the connection.
    if (client === undefined || this.#answeredAt === Number.NEGATIVE_INFINITY) return
    if (client === this.#unanswered) {
      const { deadMs = DEAD_MS } = this.#options
      if (performance.now() - this.#answeredAt > deadMs) this.#drop(client, new Error('no answer to a heartbeat'))
      return
    }
    this.#unanswered = client
    this.#beat(client).then(
      () => (this.#unanswered = this.#unanswered === client ? undefined : this.#unanswered),
      (error: unknown) => this.#drop(client, error),
    )
  }

  #drop(broken: Client, error: unknown): void {
    if (broken !== this.#client) return
    this.#client = undefined
    this.#answeredAt = Number.NEGATIVE_INFINITY
    for (const one of this.#subscriptions) one.onGap()
    broken.end().catch(() => {})
    const waitMs = backoffMs[Math.min(this.#failures, backoffMs.length - 1)] ?? CONNECT_MS
    this.#failures += 1
    this.#options.log.warn({ err: error, waitMs }, 'lost the notification connection')
    this.#reconnect = setTimeout(() => void this.#connect(), waitMs).unref()
  }
}

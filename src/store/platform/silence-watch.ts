/**
 * Times out statements on an unresponsive database. A frozen PostgreSQL, or a network that drops everything, neither
 * answers nor closes connections, and its own statement timeout does not fire; a caller would wait for half a minute. A
 * statement that is merely slow must not be cut off, so waiting ends only while the heartbeats of the notification
 * connection are missed too. Both are counted in ticks, not in time: a process that was itself stalled for seconds has
 * missed one tick.
 */
import type { PoolClient } from 'pg'
import { runCopy } from './copy-query.ts'

const TICK_MS = 1_000
const MAX_TICKS = 2

export class DatabaseSilent extends Error {
  /** A commit was sent and not confirmed: it may still take effect. */
  readonly isOutcomeUnknown: boolean

  constructor(isOutcomeUnknown: boolean) {
    super('the database does not answer')
    this.isOutcomeUnknown = isOutcomeUnknown
  }
}

interface Wait {
  ticks: number
  readonly giveUp: () => void
}

export class SilenceWatch {
  /** Each tick asks it. Nothing times out here until there is a notification connection. */
  isAnswering: () => boolean = () => true
  readonly #waiting = new Set<Wait>()
  readonly #timer: NodeJS.Timeout
  #silentTicks = 0

  constructor() {
    this.#timer = setInterval(() => this.#tick(), TICK_MS).unref()
  }

  /** Returns the same promise, unless the database becomes unresponsive; then it calls `onDrop` and rejects. */
  wait<T>(work: Promise<T>, isCommit: boolean, onDrop: () => void): Promise<T> {
    return new Promise((resolve, reject) => {
      const wait: Wait = {
        ticks: 0,
        giveUp: () => {
          this.#waiting.delete(wait)
          onDrop()
          reject(new DatabaseSilent(isCommit))
        },
      }
      this.#waiting.add(wait)
      work.then(resolve, reject).finally(() => this.#waiting.delete(wait))
    })
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /**
   * `answers` counts answered heartbeats. A database that answers them late, because its machine is busy, is slow and not
   * silent. Before the first answer they say nothing: on a slow machine the notification connection took more than two
   * seconds, and a server that was starting gave up.
   */
  follow(answers: () => number): void {
    let before = 0
    this.isAnswering = () => {
      const now = answers()
      const isAnswered = now > before || now === 0
      before = now
      return isAnswered
    }
  }

  #tick(): void {
    this.#silentTicks = this.isAnswering() ? 0 : this.#silentTicks + 1
    for (const wait of this.#waiting) {
      wait.ticks += 1
      if (this.#silentTicks >= MAX_TICKS && wait.ticks >= MAX_TICKS) wait.giveUp()
    }
  }
}

type Query = (statement: { text: string; values: unknown[]; name?: string }) => Promise<unknown>

/** The comment that `prepareAs` (database.ts) writes. */
const PREPARED = /^\/\* prepared as (\w+) \*\//

/** The part of a pool connection that Kysely uses. One that timed out is not reused. */
export class WatchedClient {
  readonly #client: PoolClient
  readonly #watch: SilenceWatch
  #isDropped = false

  constructor(client: PoolClient, watch: SilenceWatch) {
    this.#client = client
    this.#watch = watch
  }

  query(text: string, values: unknown[]): Promise<unknown> {
    // Closing the connection rolls back.
    if (this.#isDropped)
      return text === 'rollback' ? Promise.resolve({ rows: [] }) : Promise.reject(new DatabaseSilent(false))
    return this.#watch.wait(this.#run(text, values), text === 'commit', () => (this.#isDropped = true))
  }

  release(): void {
    this.#client.release(this.#isDropped)
  }

  /** The rows of a COPY come as its only parameter. */
  #run(text: string, values: unknown[]): Promise<unknown> {
    if (text.startsWith('copy ')) return runCopy(this.#client, text, values[0] as Buffer[])
    const run = this.#client.query.bind(this.#client) as Query
    const name = PREPARED.exec(text)?.[1]
    return run(name === undefined ? { text, values } : { text, values, name })
  }
}

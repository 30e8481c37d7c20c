/**
 * Access to PostgreSQL. A transaction is a `Tx`: it collects the events and wake-ups of the work, writes the events last
 * (see schema/baseline/13_event.sql) and sends the wake-ups after the commit. If the work returns a failure, the whole
 * transaction is rolled back.
 */
import { Kysely, PostgresDialect, sql, type PostgresPool, type RawBuilder, type Transaction } from 'kysely'
import pg from 'pg'
import { instantOf, toDate, type Clock, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { NotificationKind } from '../../contract/notification-kind.ts'
import type { Failure } from '../../contract/result.ts'
import type { NewEvent } from '../../domain/event.ts'
import { noticeOf } from '../../domain/notification.ts'
import { Notifications, type Log } from './listener.ts'
import { SilenceWatch, WatchedClient } from './silence-watch.ts'
import type { Tables } from './tables.ts'

/** A `Db` reads, and writes inside a transaction. */
export type Db = Kysely<Tables>

export interface Tx {
  readonly db: Transaction<Tables>
  readonly clock: Clock
  /** They are written at the end of the transaction. */
  readonly events: NewEvent[]
  /** Loops to wake and accounts to notify after the commit. */
  readonly wake: Set<string>
}

export interface Database {
  readonly db: Db
  /**
   * One connection, opened when it is first used, for prepared statements that run every second. It plans each of them
   * once; a connection of the pool does so six times, as PostgreSQL compares plans for five sets of values first.
   */
  readonly steady: Db
  readonly pool: pg.Pool
  readonly clock: Clock
  /** Notifications tell of changes made by other servers. */
  readonly notifications: Notifications
  /** Times out statements on an unresponsive database. */
  readonly silence: SilenceWatch
  /** Each committed transaction calls it with its wake-ups. */
  onCommit: (wake: ReadonlySet<string>) => void
  close(): Promise<void>
}

const MAX_RETRIES = 5
const DEADLOCK = '40P01'
const SERIALIZATION_FAILURE = '40001'

export function openDatabase(options: {
  url: string
  clock: Clock
  poolSize?: number
  name?: string
  log?: Log
}): Database {
  const silence = new SilenceWatch()
  const kyselyOf = (one: pg.Pool): Db =>
    new Kysely<Tables>({ dialect: new PostgresDialect({ pool: watchedPool(one, silence) }) })
  const pool = openPool(options, options.poolSize ?? 20)
  const db = kyselyOf(pool)
  const steadyPool = openPool(options, 1)
  // It fails only where the connection does, and then the statement that it was opened for fails too.
  steadyPool.on('connect', (client) => client.query('set plan_cache_mode = force_generic_plan', () => {}))
  const steady = kyselyOf(steadyPool)
  const notifications = new Notifications({ url: options.url, log: options.log ?? { warn: () => {} } })
  silence.follow(() => notifications.answers())
  const close = async (): Promise<void> => {
    silence.close()
    await notifications.close()
    // Kysely's own `destroy` does nothing until it has run a statement, and others use the pool directly.
    await Promise.all([pool.end(), steadyPool.end()])
  }
  return { db, steady, pool, clock: options.clock, notifications, silence, onCommit: () => {}, close }
}

function openPool({ url, name = 'berth' }: { url: string; name?: string }, max: number): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max,
    application_name: name,
    connectionTimeoutMillis: 10_000,
    // A new connection begins with empty caches and no plans, so few are closed.
    idleTimeoutMillis: 600_000,
    statement_timeout: limits.statementTimeoutMs,
    // On a dead network the statement timeout does not help; TCP keep-alive ends the connection.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    idle_in_transaction_session_timeout: 2 * limits.statementTimeoutMs,
    types: { getTypeParser },
  })
  // A broken idle connection is replaced by the pool; without a listener it would end the process.
  pool.on('error', () => {})
  // A connection that breaks in use rejects its query; its error event without a listener would end the process too.
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

function watchedPool(pool: pg.Pool, silence: SilenceWatch): PostgresPool {
  const watchedClients = new WeakMap<pg.PoolClient, WatchedClient>()
  const connect = async (): Promise<WatchedClient> => {
    const connecting = pool.connect()
    const giveBack = (): void =>
      void connecting.then(
        (lateClient) => lateClient.release(),
        () => {},
      )
    const client = await silence.wait(connecting, false, giveBack)
    const watchedClient = watchedClients.get(client) ?? new WatchedClient(client, silence)
    watchedClients.set(client, watchedClient)
    return watchedClient
  }
  return { connect: connect as unknown as PostgresPool['connect'], end: () => pool.end() }
}

/** Bypasses the silence watch: the caller has a timeout of its own. */
export async function pingDatabase(database: Database): Promise<void> {
  await database.pool.query('select 1')
}

/** Runs `work` in one transaction. A returned failure rolls it back and is the result. */
export async function transact<T>(database: Database, work: (tx: Tx) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const { value, wake } = await database.db.transaction().execute(async (db) => {
        const tx: Tx = { db, clock: database.clock, events: [], wake: new Set() }
        const result = await work(tx)
        if (isFailure(result)) throw new RolledBack(result)
        await writeEvents(tx)
        return { value: result, wake: tx.wake }
      })
      database.onCommit(wake)
      return value
    } catch (error) {
      if (error instanceof RolledBack) return error.failure as T
      if (attempt >= MAX_RETRIES || !isRetryable(error)) throw error
    }
  }
}

/** Runs part of a transaction so that it can fail alone: an error or a returned failure undoes its writes and events. */
export async function undoOnFailure<T>(tx: Tx, work: () => Promise<T>): Promise<T> {
  const events = tx.events.length
  const undo = async (): Promise<void> => {
    await sql`rollback to savepoint part`.execute(tx.db)
    tx.events.length = events
  }
  await sql`savepoint part`.execute(tx.db)
  try {
    const outcome = await work()
    if (isFailure(outcome)) await undo()
    return outcome
  } catch (error) {
    await undo()
    throw error
  }
}

class RolledBack extends Error {
  readonly failure: Failure
  constructor(failure: Failure) {
    super('rolled back')
    this.failure = failure
  }
}

function isFailure(value: unknown): value is Failure {
  return typeof value === 'object' && value !== null && 'ok' in value && value.ok === false && 'kind' in value
}

export function errorCode(error: unknown): string | undefined {
  return typeof error === 'object' && error !== null && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined
}

function isRetryable(error: unknown): boolean {
  const code = errorCode(error)
  return code === DEADLOCK || code === SERIALIZATION_FAILURE
}

/**
 * Put it at the start of a statement: PostgreSQL keeps a plan for it on each connection, under this name, which the text
 * must be the only one to have.
 */
export function prepareAs(name: string): RawBuilder<unknown> {
  return sql.raw(`/* prepared as ${name} */`)
}

/** An instant as an SQL value in a comparison. */
export function at(instant: Instant): RawBuilder<Instant> {
  return sql<Instant>`${new Date(instant)}::timestamptz`
}

/** A column of instants as milliseconds, for JSON. The cast rounds. */
export function asMs(column: string): RawBuilder<bigint> {
  return sql`(date_part('epoch', ${sql.ref(column)}) * 1000)::bigint`
}

const INT8 = 20
const TIMESTAMPTZ = 1184
const DATE = 1082

/** Reads int8 as bigint, timestamptz as an instant, date as text, and other types as pg does. */
function getTypeParser(oid: number, format?: 'text' | 'binary'): (text: string) => unknown {
  if (format !== 'binary') {
    if (oid === INT8) return BigInt
    if (oid === TIMESTAMPTZ) return (text) => instantOf(new Date(text).getTime())
    if (oid === DATE) return (text) => text
  }
  return pg.types.getTypeParser(oid, format) as (text: string) => unknown
}

/** Comes last in the transaction, since it takes the event lock of the account. Adds deliveries and notifications. */
export async function writeEvents(tx: Tx): Promise<void> {
  const { events } = tx
  if (events.length === 0) return
  const notices = await withoutReplicas(tx, events, events.map(noticeOf))
  const { rows } = await sql<{ deliveries: number }>`${prepareAs('write_events')}
    select write_events(${toDate(tx.clock.now())},
      ${events.map((event) => event.accountId)}::text[], ${events.map((event) => event.type)}::text[],
      ${events.map((event) => event.subject.kind)}::text[], ${events.map((event) => event.subject.id)}::text[],
      ${events.map((event) => JSON.stringify(event.data))}::jsonb[], ${notices}::text[]) as deliveries`.execute(tx.db)
  if ((rows[0]?.deliveries ?? 0) > 0) tx.wake.add('deliver-webhooks')
  if (notices.some((kind) => kind !== null)) tx.wake.add('queue-mail')
  for (const event of events) tx.wake.add(`events:${event.accountId}`)
}

/** Rentals that are replicas come and go by themselves: events of their deployment are the news. */
async function withoutReplicas(
  tx: Tx,
  events: readonly NewEvent[],
  notices: ReadonlyArray<NotificationKind | null>,
): Promise<Array<NotificationKind | null>> {
  const isOfRental = (at: number): boolean => notices[at] !== null && events[at]?.subject.kind === 'rental'
  const ids = events.filter((_, at) => isOfRental(at)).map(({ subject }) => subject.id)
  if (ids.length === 0) return [...notices]
  const { rows } = await sql<{ id: string }>`
    select rental_id::text as id from replica_record where rental_id = any (${ids}::integer[])`.execute(tx.db)
  const replicas = new Set(rows.map(({ id }) => id))
  return notices.map((kind, at) => (isOfRental(at) && replicas.has(events[at]?.subject.id ?? '') ? null : kind))
}

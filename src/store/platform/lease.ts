/**
 * Leases on rows and turns of loops, for the reconcilers: lease what is due, work with no transaction open, and write
 * back only while the lease is still held. A lease outlives a crashed holder by `leaseMs`.
 */
import { randomUUID } from 'node:crypto'
import { sql, type RawBuilder, type Selectable, type Updateable } from 'kysely'
import { addMs, toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import { at, prepareAs, type Db } from './database.ts'
import type { Tables } from './tables.ts'

interface Keys {
  rental: { readonly id: number }
  volume: { readonly id: number }
  attachment: { readonly volume_id: number; readonly rental_id: number }
  webhook_delivery: { readonly id: string }
  mail: { readonly id: string }
  payment: { readonly id: string }
  payment_refund: { readonly id: string }
  payout: { readonly id: string }
  payout_account: { readonly account_id: string }
  processor_event: { readonly id: string }
}

type LeasedTable = keyof Keys

const keyColumns: { readonly [Table in LeasedTable]: ReadonlyArray<keyof Keys[Table] & string> } = {
  rental: ['id'],
  volume: ['id'],
  attachment: ['volume_id', 'rental_id'],
  webhook_delivery: ['id'],
  mail: ['id'],
  payment: ['id'],
  payment_refund: ['id'],
  payout: ['id'],
  payout_account: ['account_id'],
  processor_event: ['id'],
}

export interface Leased<Row> {
  readonly token: string
  readonly rows: Row[]
}

export interface LeaseOptions {
  readonly now: Instant
  readonly leaseMs: number
  readonly limit: number
}

/** Leases up to `limit` rows that are due and match `where` (SQL on alias `t`), and returns them whole. */
export async function leaseDue<Table extends LeasedTable>(
  db: Db,
  table: Table,
  where: RawBuilder<unknown>,
  options: LeaseOptions,
): Promise<Leased<Selectable<Tables[Table]>>> {
  const token = randomUUID()
  const key = sql.join(keyColumns[table].map((column) => sql.ref(`t.${column}`)))
  const { rows } = await sql<Selectable<Tables[Table]>>`
    update ${sql.table(table)} t
    set lease_token = ${token}, lease_until = ${toDate(addMs(options.now, options.leaseMs))}, attempts = attempts + 1
    where (${key}) in (
      select ${key} from ${sql.table(table)} t
      where ${isDue(where, at(options.now))}
      order by t.due_at
      limit ${options.limit}
      for update skip locked
    )
    returning t.*`.execute(db)
  return { token, rows: rows }
}

/** Whether `leaseDue` would find a row. */
export function hasDue(table: LeasedTable, where: RawBuilder<unknown>, now: RawBuilder<Instant>): RawBuilder<boolean> {
  return sql`exists (select from ${sql.table(table)} t where ${isDue(where, now)})`
}

/** The condition that a row is due, free, and matches `where`; its table has the alias `t`. */
export function isDue(where: RawBuilder<unknown>, now: RawBuilder<Instant>): RawBuilder<unknown> {
  return sql`t.due_at <= ${now} and (t.lease_until is null or t.lease_until <= ${now}) and (${where})`
}

/** An update with these values ends whatever lease a row has. */
export const noLease = { lease_token: null, lease_until: null }

/** Ends the lease and writes `change` with it. False: the lease was lost, and nothing is written. */
export async function releaseLease<Table extends LeasedTable>(
  db: Db,
  table: Table,
  row: Keys[Table],
  token: string,
  change: {
    readonly [Column in keyof Updateable<Tables[Table]>]: Updateable<Tables[Table]>[Column] | RawBuilder<unknown>
  },
): Promise<boolean> {
  const sets = Object.entries({ ...noLease, ...change }).map(([column, value]) => sql`${sql.ref(column)} = ${value}`)
  const { rows } = await sql`
    update ${sql.table(table)} set ${sql.join(sets)}
    where ${matches(table, row)} and lease_token = ${token} returning 1`.execute(db)
  return rows.length > 0
}

/** A row on whose behalf providers are called. */
export type DriverRow = {
  [Table in 'rental' | 'volume' | 'attachment']: { readonly table: Table; readonly key: Keys[Table] }
}['rental' | 'volume' | 'attachment']

/** Writes the cause of a failed provider call on the row, where operators see it. null: clears it. */
export async function writeLastError(
  db: Db,
  { table, key }: DriverRow,
  cause: string | null,
  now: Instant,
): Promise<void> {
  const at = toDateOrNull(cause === null ? null : now)
  await sql`update ${sql.table(table)} set last_error = ${cause}, last_error_at = ${at}
    where ${matches(table, key)}`.execute(db)
}

function matches(table: LeasedTable, row: Keys[LeasedTable]): RawBuilder<unknown> {
  const values: Readonly<Record<string, unknown>> = { ...row }
  const pairs = keyColumns[table].map((column) => sql`${sql.ref(column)} = ${values[column]}`)
  return sql.join(pairs, sql` and `)
}

/** Takes the turn of a loop that runs on one server at a time. undefined: another server has it. */
export async function takeTurn(
  db: Db,
  name: string,
  options: { now: Instant; leaseMs: number },
): Promise<string | undefined> {
  const token = randomUUID()
  const now = toDate(options.now)
  const { rows } = await sql<{ name: string }>`${prepareAs('take_turn')}
    insert into loop (name, lease_token, lease_until)
    values (${name}, ${token}, ${toDate(addMs(options.now, options.leaseMs))})
    on conflict (name) do update set lease_token = excluded.lease_token, lease_until = excluded.lease_until
      where loop.lease_until is null or loop.lease_until <= ${now}
    returning name`.execute(db)
  return rows.length === 0 ? undefined : token
}

/** Keeps a turn for longer. False: it was lost meanwhile. */
export async function prolongTurn(
  db: Db,
  name: string,
  token: string,
  options: { now: Instant; leaseMs: number },
): Promise<boolean> {
  const row = await db
    .updateTable('loop')
    .set({ lease_until: toDate(addMs(options.now, options.leaseMs)) })
    .where('name', '=', name)
    .where('lease_token', '=', token)
    .returning('name')
    .executeTakeFirst()
  return row !== undefined
}

/** `doneAt`: when a good turn began; leave it out for one that failed. */
export async function endTurn(db: Db, name: string, token: string, doneAt?: Instant): Promise<void> {
  await sql`${prepareAs('end_turn')}
    update loop set lease_token = null, lease_until = null, done_at = coalesce(${toDateOrNull(doneAt ?? null)}, done_at)
    where name = ${name} and lease_token = ${token}`.execute(db)
}

/** Returns when the last good turn of a loop began. null: there was none yet. */
export async function readDoneAt(db: Db, name: string): Promise<Instant | null> {
  const { rows } = await sql<{ done_at: Instant | null }>`${prepareAs('done_at')}
    select done_at from loop where name = ${name}`.execute(db)
  return rows[0]?.done_at ?? null
}

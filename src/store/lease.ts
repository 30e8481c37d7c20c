/**
 * The reconcilers' claim on rows: take what is due and unclaimed, work with no transaction open, write back only while
 * the claim is still yours. A claim outlives its holder by `leaseMs` at most.
 */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { addMs, toDate, type Instant } from '../base/instant.ts'
import type { Db } from './database.ts'

type LeasedTable = 'rental' | 'volume' | 'attachment' | 'webhook_delivery'

const keys = {
  rental: ['id'],
  volume: ['id'],
  attachment: ['volume_id', 'rental_id'],
  webhook_delivery: ['id'],
} as const satisfies Record<LeasedTable, readonly string[]>

export interface Claim<Row> {
  readonly token: string
  readonly rows: Row[]
}

/** Claims up to `limit` rows that are due and match `where` (SQL on alias `t`), and answers them whole. */
export async function claimDue<Row>(
  db: Db,
  table: LeasedTable,
  where: ReturnType<typeof sql>,
  options: { now: Instant; leaseMs: number; limit: number },
): Promise<Claim<Row>> {
  const token = randomUUID()
  const key = sql.join(keys[table].map((column) => sql.ref(`t.${column}`)))
  const claimed = await sql<Row>`
    update ${sql.table(table)} t
    set lease_token = ${token}, lease_until = ${toDate(addMs(options.now, options.leaseMs))}, attempts = attempts + 1
    where (${key}) in (
      select ${key} from ${sql.table(table)} t
      where t.due_at <= ${toDate(options.now)}
        and (t.lease_until is null or t.lease_until <= ${toDate(options.now)})
        and (${where})
      order by t.due_at
      limit ${options.limit}
      for update skip locked
    )
    returning t.*`.execute(db)
  return { token, rows: claimed.rows }
}

/** Takes the turn of a loop that runs on one server at a time. undefined: another server has it. */
export async function takeTurn(
  db: Db,
  name: string,
  options: { now: Instant; leaseMs: number },
): Promise<string | undefined> {
  const token = randomUUID()
  const now = toDate(options.now)
  const taken = await sql<{ name: string }>`
    insert into loop (name, lease_token, lease_until)
    values (${name}, ${token}, ${toDate(addMs(options.now, options.leaseMs))})
    on conflict (name) do update set lease_token = excluded.lease_token, lease_until = excluded.lease_until
      where loop.lease_until is null or loop.lease_until <= ${now}
    returning name`.execute(db)
  return taken.rows.length === 0 ? undefined : token
}

/** Keeps a turn for longer. False: it was lost meanwhile. */
export async function prolongTurn(
  db: Db,
  name: string,
  token: string,
  options: { now: Instant; leaseMs: number },
): Promise<boolean> {
  const kept = await db
    .updateTable('loop')
    .set({ lease_until: toDate(addMs(options.now, options.leaseMs)) })
    .where('name', '=', name)
    .where('lease_token', '=', token)
    .returning('name')
    .executeTakeFirst()
  return kept !== undefined
}

/** `doneAt`: when a good turn began; leave it out for one that failed. */
export async function endTurn(db: Db, name: string, token: string, doneAt?: Instant): Promise<void> {
  await db
    .updateTable('loop')
    .set({
      lease_token: null,
      lease_until: null,
      ...(doneAt === undefined ? {} : { done_at: toDate(doneAt) }),
    })
    .where('name', '=', name)
    .where('lease_token', '=', token)
    .execute()
}

/** When the last good turn of a loop began. null: there was none yet. */
export async function readDoneAt(db: Db, name: string): Promise<Instant | null> {
  const row = await db.selectFrom('loop').select('done_at').where('name', '=', name).executeTakeFirst()
  return row?.done_at ?? null
}

/** Interruptions of rentals, and the GPUs that they promise to other orders (schema/0074_interruption.sql). */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import { LAST_WORDS_MS, type Interruptible } from '../../domain/interruption.ts'
import type { InterruptibleTerms } from '../../domain/order.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import { isLike } from '../machine/listed-machine.ts'
import type { DueQuery, DueWork } from '../platform/due-work.ts'
import type { Tables } from '../platform/tables.ts'
import type { Rental } from './rental.ts'

export type Interruption = Selectable<Tables['interruption']>

/** The time since which a rental runs: the first time after its last stop at which its machine was charged. */
const runsSince = sql<Instant>`(
  select min(s.started_at) from segment s where s.rental_id = r.id and not s.while_stopped
    and s.started_at >= coalesce((select max(o.ended_at) from segment o where o.rental_id = r.id and o.while_stopped), '-infinity'))`

/** True for rentals that can be interrupted now. */
const isInterruptible = sql<boolean>`r.status = 'Running' and r.interruption_notice_s is not null
  and r.released_at is null and r.cpu_nano_per_hour is null
  and not exists (select from interruption i where i.rental_id = r.id and i.is_open)`

/** True for a claim whose GPU works and is promised to nobody. */
const isUsable = sql<boolean>`c.promised_to is null and c.faulty_since is null
  and c.gpu_index <> all (m.gpus_sick) and c.gpu_index <> all (m.gpus_withdrawn)`

/** Lists the rentals of a machine that can be interrupted now. There are few, since a machine has at most 64 GPUs. */
export async function listInterruptible(db: Db, machineId: string): Promise<Interruptible[]> {
  const { rows } = await sql<Interruptible>`
    select r.id as "rentalId", ${runsSince} as "runsSince", r.interruption_notice_s as "noticeSeconds",
      (select count(*)::integer from gpu_claim c join machine m on m.id = c.machine_id
       where c.rental_id = r.id and ${isUsable}) as gpus
    from rental r
    where r.spec -> 'nodes' -> 0 ->> 'machineId' = ${machineId} and ${isInterruptible}
      and exists (select from segment s where s.rental_id = r.id and not s.while_stopped)`.execute(db)
  return rows
}

/** The GPUs of a machine that orders could get by interrupting rentals, and how often that has happened. */
export interface InterruptionRecord {
  readonly gpus: number
  /** The longest notice among the rentals on these GPUs. null: there are none. */
  readonly noticeSeconds: number | null
  readonly interruptions: number
}

export async function readInterruptionRecords(
  db: Db,
  machineIds: readonly string[],
  since: Instant,
): Promise<Map<string, InterruptionRecord>> {
  if (machineIds.length === 0) return new Map()
  const { rows } = await sql<InterruptionRecord & { id: string }>`
    select m.id, coalesce(o.gpus, 0)::integer as gpus, o.notice as "noticeSeconds",
      (select count(*)::integer from interruption i where i.machine_id = m.id and i.announced_at >= ${at(since)}) as interruptions
    from machine m
    left join lateral (
      select count(*) as gpus, max(r.interruption_notice_s) as notice from gpu_claim c join rental r on r.id = c.rental_id
      where c.machine_id = m.id and ${isInterruptible} and ${isUsable}) o on true
    where m.id = any (${machineIds}::text[])`.execute(db)
  return new Map(rows.map(({ id, ...record }) => [id, record]))
}

/** Lists machines that would have enough free GPUs after interruptions, cheapest first. */
export async function listAfterInterruption(
  db: Db,
  query: { readonly gpuLike: string; readonly gpuCount: number; readonly limit: number },
): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select m.id from machine m
    where m.offering = 'marketplace' and m.listed and m.status = 'node_ready'
      and ${isLike(query.gpuLike)}
      and m.gpus_free < ${query.gpuCount} and m.gpus_free + (
        select count(*) from gpu_claim c join rental r on r.id = c.rental_id
        where c.machine_id = m.id and ${isInterruptible} and ${isUsable}) >= ${query.gpuCount}
    order by m.price_nano_per_gpu_hour, m.id limit ${query.limit}`.execute(db)
  return rows.map(({ id }) => id)
}

/** Promises GPUs of locked rentals to a new rental. Returns the new rental with all its GPUs. */
export async function promiseGpus(
  tx: Tx,
  rental: Pick<Rental, 'id'>,
  promise: { readonly machineId: string; readonly interrupted: readonly number[]; readonly dueAt: Instant },
): Promise<Rental> {
  const { machineId, interrupted, dueAt } = promise
  await sql`select promise_gpus(${rental.id}, ${machineId}, ${interrupted}::integer[], ${toDate(dueAt)})`.execute(tx.db)
  return tx.db.selectFrom('rental').selectAll().where('id', '=', rental.id).executeTakeFirstOrThrow()
}

export async function insertInterruption(
  tx: Tx,
  rental: Pick<Rental, 'id'>,
  { machineId, endsAt, isFree }: { readonly machineId: string; readonly endsAt: Instant; readonly isFree: boolean },
): Promise<void> {
  const [announced_at, ends_at] = [toDate(tx.clock.now()), toDate(endsAt)]
  await tx.db
    .insertInto('interruption')
    .values({ rental_id: rental.id, machine_id: machineId, announced_at, ends_at, is_free: isFree })
    .execute()
}

/** Returns the interruption that has been announced to a rental and is not over. */
export async function findOpenInterruption(db: Db, rentalId: number): Promise<Interruption | undefined> {
  return db
    .selectFrom('interruption')
    .selectAll()
    .where('rental_id', '=', rentalId)
    .where('is_open', '=', true)
    .executeTakeFirst()
}

export async function readOpenInterruptions(db: Db, rentalIds: readonly number[]): Promise<Map<number, Interruption>> {
  if (rentalIds.length === 0) return new Map()
  const { rows } = await sql<Interruption>`
    select * from interruption where is_open and rental_id = any (${rentalIds}::integer[])`.execute(db)
  return new Map(rows.map((row) => [row.rental_id, row]))
}

export interface Announcement {
  readonly id: bigint
  readonly rentalId: number
  readonly driver: ProviderId
  readonly externalId: string
  readonly endsAt: Instant
}

/** Lists interruptions that have not been passed on to their providers. */
export async function listUntold(db: Db, drivers: readonly ProviderId[], limit: number): Promise<Announcement[]> {
  const { rows } = await sql<Announcement>`
    select i.id, r.id as "rentalId", r.driver, r.external_id as "externalId", i.ends_at as "endsAt"
    ${fromUntold(sql`${drivers}::text[]`)} order by i.ends_at, i.id limit ${limit}`.execute(db)
  return rows
}

function fromUntold(drivers: DueQuery['drivers']): RawBuilder<unknown> {
  return sql`from interruption i join rental r on r.id = i.rental_id
    where i.is_open and i.told_at is null and r.external_id is not null and r.driver = any (${drivers})`
}

export async function saveTold(db: Db, id: bigint, now: Instant): Promise<void> {
  await db
    .updateTable('interruption')
    .set({ told_at: toDate(now) })
    .where('id', '=', id)
    .execute()
}

/**
 * Lists rentals whose programs must be told to end now. A rental that its provider does not show at the moment is
 * checked again later.
 */
export async function listToInterrupt(
  db: Db,
  { now, drivers, limit }: { readonly now: Instant; readonly drivers: readonly ProviderId[]; readonly limit: number },
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select r.id ${fromEnding(at(now), sql`${drivers}::text[]`)} order by i.ends_at, i.id limit ${limit}`.execute(db)
  return rows.map(({ id }) => id)
}

function fromEnding(now: RawBuilder<Instant>, drivers: DueQuery['drivers']): RawBuilder<unknown> {
  return sql`from interruption i join rental r on r.id = i.rental_id
    where i.is_open and i.ends_at <= ${now} + ${sql.lit(`${LAST_WORDS_MS} ms`)}::interval
      and r.status = 'Running' and r.driver = any (${drivers})`
}

/** Lists pending rentals that have received all GPUs promised to them. */
export async function listHandedOver(db: Db, limit: number): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select r.id ${fromHandedOver} order by r.id limit ${limit}`.execute(db)
  return rows.map(({ id }) => id)
}

const fromHandedOver = sql`from rental r
  where r.gpus_due_at is not null and r.released_at is null and r.status = 'Pending'
    and not exists (select from gpu_claim c where c.promised_to = r.id)`

/** Whether one of the loop's lists has a rental. */
export const hasInterruption: DueWork = ({ now, drivers }) =>
  sql`(exists (select ${fromUntold(drivers)}) or exists (select ${fromEnding(now, drivers)})
    or exists (select ${fromHandedOver}))`

/** Counts the GPUs of a locked rental, and those of them that work. */
export async function countClaims(
  tx: Tx,
  rentalId: number,
): Promise<{ readonly all: number; readonly usable: number }> {
  const { rows } = await sql<{ all: number; usable: number }>`
    select count(*)::integer as all, (count(*) filter (where ${isUsable}))::integer as usable
    from gpu_claim c join machine m on m.id = c.machine_id where c.rental_id = ${rentalId}`.execute(tx.db)
  return rows[0] ?? { all: 0, usable: 0 }
}

/** All GPUs have been handed over: the provider may be called, and the time limit for the start begins now. */
export async function endWaitForGpus(tx: Tx, rentalId: number): Promise<void> {
  const now = toDate(tx.clock.now())
  await tx.db
    .updateTable('rental')
    .set({ gpus_due_at: null, status_since: now, due_at: now })
    .where('id', '=', rentalId)
    .execute()
}

/** Lists the segments of a rental's current run, in order. */
export async function listRunSegments(db: Db, rentalId: number): Promise<Selectable<Tables['segment']>[]> {
  const { rows } = await sql<Selectable<Tables['segment']>>`
    select s.* from segment s join rental r on r.id = s.rental_id
    where r.id = ${rentalId} and not s.while_stopped and s.started_at >= ${runsSince} order by s.started_at, s.id`.execute(
    db,
  )
  return rows
}

/** Stores the interruption terms of a new rental. */
export async function makeInterruptible(
  tx: Tx,
  rental: Pick<Rental, 'id'>,
  { after, noticeSeconds }: InterruptibleTerms,
): Promise<void> {
  await tx.db
    .updateTable('rental')
    .set({ after_interruption: after, interruption_notice_s: noticeSeconds })
    .where('id', '=', rental.id)
    .execute()
}

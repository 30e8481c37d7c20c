/**
 * Earnings and sales of suppliers. Money comes from ledger transfers to their earnings, time from the charged segments.
 * A rental of several machines is divided among them by GPUs, to the last nano-dollar.
 */
import { sql } from 'kysely'
import type { Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import { at, type Db } from '../platform/database.ts'

interface Span {
  readonly from: Instant
  readonly until: Instant
}

export interface MachineEarning {
  readonly machineId: string
  readonly earned: NanoUsd
}

/** Total earnings per machine. */
export async function listEarnings(db: Db, supplierId: string): Promise<MachineEarning[]> {
  const { rows } = await sql<MachineEarning>`
    select part.machine_id as "machineId", sum(${shareOf(sql`s.supplier_nano`)})::bigint as earned
    from segment s join ${partsOf(supplierId)} part on part.rental_id = s.rental_id
    where s.supplier_id = ${supplierId}
    group by 1 order by 1`.execute(db)
  return rows
}

/** Earnings per machine in a period, by posting time. */
export async function listEarningsWithin(db: Db, supplierId: string, span: Span): Promise<MachineEarning[]> {
  const { rows } = await sql<MachineEarning>`
    select part.machine_id as "machineId", sum(${shareOf(sql`earned.amount_nano`)})::bigint as earned
    from ${earnedWithin(supplierId, span)} earned join ${partsOf(supplierId)} part on part.rental_id = earned.rental_id
    group by 1 order by 1`.execute(db)
  return rows
}

/** The same per day. Only days with a posting. */
export async function listEarningsByDay(
  db: Db,
  supplierId: string,
  span: Span,
): Promise<Array<{ day: string; earned: NanoUsd }>> {
  const { rows } = await sql<{ day: string; earned: NanoUsd }>`
    select (at at time zone 'UTC')::date as day, sum(amount_nano)::bigint as earned
    from ${earnedWithin(supplierId, span)} earned
    group by 1 order by 1`.execute(db)
  return rows
}

/**
 * Charged GPU-milliseconds per machine. Time at price zero was not sold, nor were the GPUs of a rental that was stopped or
 * ran without them.
 */
export async function listSoldByMachine(
  db: Db,
  supplierId: string,
  span: Span,
): Promise<Array<{ machineId: string; gpuMs: bigint }>> {
  const { rows } = await sql<{ machineId: string; gpuMs: bigint }>`
    select part.machine_id as "machineId",
      sum(part.gpus * ${overlapMs(at(span.from), at(span.until))})::bigint as "gpuMs"
    from segment s join ${partsOf(supplierId)} part on part.rental_id = s.rental_id
    where s.supplier_id = ${supplierId} and s.price_nano_per_hour > 0 and not s.while_stopped and not s.without_gpus
      and s.settled_until > ${at(span.from)} and s.started_at < ${at(span.until)}
    group by 1 order by 1`.execute(db)
  return rows
}

/** The same per day. Only days with sales. */
export async function listSoldByDay(
  db: Db,
  supplierId: string,
  span: Span,
): Promise<Array<{ day: string; gpuMs: bigint }>> {
  const end = sql`starts + interval '24 hours'`
  const { rows } = await sql<{ day: string; gpuMs: bigint }>`
    select (starts at time zone 'UTC')::date as day, sum(r.gpu_count * ${overlapMs(sql`starts`, end)})::bigint as "gpuMs"
    from segment s
    join rental r on r.id = s.rental_id
    join generate_series(${at(span.from)}, ${at(span.until)} - interval '1 millisecond', interval '24 hours') starts
      on s.settled_until > starts and s.started_at < ${end}
    where s.supplier_id = ${supplierId} and s.price_nano_per_hour > 0 and not s.while_stopped and not s.without_gpus
    group by 1 order by 1`.execute(db)
  return rows
}

type Fragment = ReturnType<typeof sql>

/** The charged time of a segment between two instants. */
function overlapMs(from: Fragment | ReturnType<typeof at>, until: Fragment | ReturnType<typeof at>): Fragment {
  return sql`(extract(epoch from least(s.settled_until, ${until}) - greatest(s.started_at, ${from})) * 1000)`
}

/** Selects all transfers to the supplier's earnings by rental: transfers have no index by receiver. */
function earnedWithin(supplierId: string, span: Span): Fragment {
  return sql`(
    select p.at, p.rental_id, t.amount_nano
    from (select distinct rental_id from segment where supplier_id = ${supplierId}) mine
    join posting p on p.rental_id = mine.rental_id and p.at >= ${at(span.from)} and p.at < ${at(span.until)}
    join transfer t on t.posting_id = p.id and t.to_id = ledger_account_id(${supplierId}, 'earnings'))`
}

/** The machines of the supplier's rentals: GPUs of the rental, of the machine, and of all machines up to it. */
function partsOf(supplierId: string): Fragment {
  return sql`(
    select r.id as rental_id, node ->> 'machineId' as machine_id, jsonb_array_length(node -> 'gpuIndexes') as gpus,
      sum(jsonb_array_length(node -> 'gpuIndexes')) over (partition by r.id order by n) as gpus_so_far,
      sum(jsonb_array_length(node -> 'gpuIndexes')) over (partition by r.id) as gpus_in_all
    from rental r, jsonb_array_elements(r.spec -> 'nodes') with ordinality as nodes (node, n)
    where r.id in (select rental_id from segment where supplier_id = ${supplierId}))`
}

/** The running total is rounded, so that the parts add up to the whole. */
function shareOf(amount: Fragment): Fragment {
  return sql`(div(${amount} * part.gpus_so_far, part.gpus_in_all)
    - div(${amount} * (part.gpus_so_far - part.gpus), part.gpus_in_all))`
}

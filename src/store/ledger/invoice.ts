/** The rows of a monthly invoice. A charge belongs to the month in which it was posted. */
import { sql } from 'kysely'
import { formatDay, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { RentalKind } from '../../domain/rental.ts'
import { at, type Db } from '../platform/database.ts'
import { lines, lineTransfers, notInference, type StatementLine } from './billing.ts'

export interface MonthTotal {
  /** `2026-11` */
  readonly month: string
  readonly charges: NanoUsd
}

/** Months in which the balance changed, newest first. */
export async function listMonths(db: Db, accountId: string): Promise<MonthTotal[]> {
  const { rows } = await sql<MonthTotal>`
    select to_char(d.day, 'YYYY-MM') as month,
           coalesce(-sum(d.amount_nano) filter (where d.kind = 'charge'), 0)::bigint as charges
    from ledger_day d where d.account_id = ${accountId}
    group by 1 order by 1 desc`.execute(db)
  return rows
}

export interface Month {
  readonly from: Instant
  readonly until: Instant
}

/** The charge of one segment, or one model, in the month. */
export interface MonthCharge {
  readonly rentalId: number | null
  readonly volumeId: number | null
  readonly model: string | null
  readonly postings: number
  readonly amount: NanoUsd
  /** null: the charge is not for a segment. */
  readonly segment: {
    readonly pricePerHour: NanoUsd
    /** Only the disk of a stopped rental was paid for. */
    readonly whileStopped: boolean
    readonly withoutGpus: boolean
    /** The segment's total charge at the beginning and at the end of the month. */
    readonly before: NanoUsd
    readonly after: NanoUsd
  } | null
}

interface MonthChargeRow extends Omit<MonthCharge, 'segment'> {
  readonly price: NanoUsd | null
  readonly stopped: boolean | null
  readonly withoutGpus: boolean | null
  readonly before: NanoUsd | null
  readonly after: NanoUsd | null
}

/** Reads segments from their postings; requests, which have many, from the sums by day. */
export async function listMonthCharges(db: Db, accountId: string, month: Month): Promise<MonthCharge[]> {
  const inMonth = sql`filter (where line.at < ${at(month.until)})`
  // A segment has its total charge; less later charges, that is its total at the end of the month.
  const { rows } = await sql<MonthChargeRow>`
    select line.rental_id as "rentalId", line.volume_id as "volumeId", null as model,
           (count(distinct line.id) ${inMonth})::integer as postings,
           (-sum(line.amount) ${inMonth})::bigint as amount,
           s.price_nano_per_hour as price, s.while_stopped as stopped, s.without_gpus as "withoutGpus",
           (s.settled_nano + sum(line.amount))::bigint as before,
           (s.settled_nano + sum(line.amount) - sum(line.amount) ${inMonth})::bigint as after, s.id as segment
    from ${lineTransfers(accountId)} line
    left join segment s on s.id = case when line.key like 'segment:%' then split_part(line.key, ':', 2)::bigint end
    where line.at >= ${at(month.from)} and line.kind = 'charge' and line.model is null and ${notInference}
    group by line.rental_id, line.volume_id, s.id
    having count(*) ${inMonth} > 0
    union all
    select nullif(d.rental_id, 0), nullif(d.volume_id, 0), d.model, sum(d.postings)::integer, -sum(d.amount_nano)::bigint,
           null, null, null, null, null, null
    from ledger_day d
    where d.account_id = ${accountId} and d.kind = 'charge' and d.model <> ''
      and d.day >= (${at(month.from)} at time zone 'UTC')::date and d.day < (${at(month.until)} at time zone 'UTC')::date
    group by d.rental_id, d.volume_id, d.model
    order by "rentalId", "volumeId", model, segment`.execute(db)
  return rows.map(({ rentalId, volumeId, model, postings, amount, price, stopped, withoutGpus, before, after }) => ({
    rentalId,
    volumeId,
    model,
    postings,
    amount,
    segment:
      price === null || before === null || after === null
        ? null
        : { pricePerHour: price, whileStopped: stopped === true, withoutGpus: withoutGpus === true, before, after },
  }))
}

export interface MonthPayment {
  readonly at: Instant
  readonly kind: Exclude<StatementLine['kind'], 'charge'>
  readonly memo: string
  readonly reason: string | null
  readonly amount: NanoUsd
}

/** Lists all postings of the month that are not charges, oldest first. */
export async function listMonthPayments(db: Db, accountId: string, month: Month): Promise<MonthPayment[]> {
  const { rows } = await sql<MonthPayment>`
    select line.at, line.kind, line.memo, line.reason, line.amount from ${lines(accountId)} line
    where line.at >= ${at(month.from)} and line.at < ${at(month.until)} and line.kind <> 'charge' and ${notInference}
    order by line.at, line.id`.execute(db)
  return rows
}

export async function countMonthRequests(db: Db, accountId: string, month: Month): Promise<Map<string, number>> {
  const rows = await db
    .selectFrom('request_day as q')
    .select(['q.model', sql<number>`sum(q.answered)::integer`.as('requests')])
    .where('q.account_id', '=', accountId)
    .where('q.day', '>=', formatDay(month.from))
    .where('q.day', '<', formatDay(month.until))
    .where('q.answered', '>', 0n)
    .groupBy('q.model')
    .execute()
  return new Map(rows.map((row) => [row.model, row.requests]))
}

export interface BilledRental {
  readonly id: number
  readonly kind: RentalKind
  readonly name: string
  readonly label: string | null
  readonly region: string
  readonly gpuModel: string
  readonly gpuCount: number
}

export async function readBilledRentals(db: Db, ids: readonly number[]): Promise<Map<number, BilledRental>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('rental')
    .select(['id', 'kind', 'name', 'label', 'region', 'gpu_type', 'gpu_count'])
    .select(sql<string | null>`spec ->> 'gpuModel'`.as('gpu_model'))
    .where('id', 'in', ids)
    .execute()
  return new Map(
    rows.map((row) => [
      row.id,
      {
        id: row.id,
        kind: row.kind,
        name: row.name,
        label: row.label,
        region: row.region,
        gpuModel: row.gpu_type?.toUpperCase() ?? row.gpu_model ?? 'GPU',
        gpuCount: row.gpu_count,
      },
    ]),
  )
}

export interface BilledVolume {
  readonly id: number
  readonly label: string
  readonly region: string
  readonly sizeGb: number
}

export async function readBilledVolumes(db: Db, ids: readonly number[]): Promise<Map<number, BilledVolume>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('volume')
    .select(['id', 'label', 'region', 'size_gb'])
    .where('id', 'in', ids)
    .execute()
  return new Map(rows.map((row) => [row.id, { id: row.id, label: row.label, region: row.region, sizeGb: row.size_gb }]))
}

export async function readAccountName(db: Db, accountId: string): Promise<string> {
  const row = await db.selectFrom('account').select('name').where('id', '=', accountId).executeTakeFirstOrThrow()
  return row.name
}

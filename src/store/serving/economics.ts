/**
 * Earnings, costs and work of the replicas of models in a period of days. Money is summed over the ledger; requests and
 * busy time come from the hours counted from the request log (schema/baseline/15_model.sql).
 */
import { sql, type RawBuilder } from 'kysely'
import { addMs, DAY_MS, HOUR_MS, instantOf, parseInstant, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { ServingUsage } from '../../domain/economics.ts'
import type { DayRange } from '../ledger/cost.ts'
import { at, type Db } from '../platform/database.ts'
import type { Model } from '../model/model.ts'

export interface ModelUsage extends ServingUsage {
  readonly model: string
  /** The models of its requests, adapters included. */
  readonly models: readonly string[]
  /** Part of the GPU cost that suppliers earned. */
  readonly supplier: NanoUsd
  /** Part of the GPU cost charged for machines of other clouds, and what those clouds bill the house for them. */
  readonly vendorCharged: NanoUsd
  readonly vendorCost: NanoUsd
}

/** Usage is summed over one deployment, which may be deleted; or over all models for everyone, or one of them. */
export type UsageOf = { readonly deploymentId: string } | { readonly model: string | undefined }

/** Returns one row per model that had a replica in the period, the highest cost of the house first. */
export async function sumServing(db: Db, of: UsageOf, range: DayRange): Promise<ModelUsage[]> {
  const { from, until } = spanOf(range)
  const { rows } = await sql<ModelUsage>`
    with record as materialized (
      select replica_id, rental_id, account_id, model from replica_record
      where ${isOf(of)} and created_at < ${at(until)} and (ended_at is null or ended_at >= ${at(addMs(from, -DAY_MS))})
    ), used as (
      select r.model, sum(h.requests) as requests, sum(h.input_units) as input, sum(h.cached_units) as cached,
        sum(h.output_units) as output, sum(h.request_ms) as request_ms, sum(h.busy_ms) as busy_ms
      from replica_hour h join record r using (replica_id)
      where h.hour >= ${at(from)} and h.hour < ${at(until)} group by 1
    ), served as (
      select r.model, array_agg(distinct name) as models
      from replica_hour h join record r using (replica_id), unnest(h.models) name
      where h.hour >= ${at(from)} and h.hour < ${at(until)} group by 1
    ), bought as (
      select distinct p.rental_id from purchase p join record r on r.rental_id = p.rental_id
    ), billed as (
      select r.model, sum(c.cost_nano) as cost from provider_cost c join record r on r.rental_id = c.rental_id
      where c.day between ${range.from}::date and ${range.to}::date group by 1
    ), charged as (
      select r.model, -sum(d.amount_nano) as cost, -sum(d.amount_nano) filter (where b.rental_id is not null) as vendor
      from ledger_day d join record r on r.account_id = d.account_id and r.rental_id = d.rental_id
      left join bought b on b.rental_id = d.rental_id
      where d.day between ${range.from}::date and ${range.to}::date and d.kind in ('charge', 'refund') group by 1
    ), paid as (
      select r.model, sum(extract(epoch from least(s.settled_until, ${at(until)}) - greatest(s.started_at, ${at(from)})) * 1000) as ms
      from segment s join record r on r.rental_id = s.rental_id
      where s.price_nano_per_hour > 0 and s.settled_until > ${at(from)} and s.started_at < ${at(until)} group by 1
    ), earned as (
      select r.model, sum(t.amount_nano) as supplier
      from posting p join record r on r.rental_id = p.rental_id
      join transfer t on t.posting_id = p.id
      join ledger_account l on l.id = t.to_id and l.kind = 'earnings'
      where p.at >= ${at(from)} and p.at < ${at(until)} group by 1
    )
    select m.model, coalesce(v.models, '{}') as models,
      coalesce(u.requests, 0)::bigint as requests, coalesce(u.input, 0)::bigint as "inputUnits",
      coalesce(u.cached, 0)::bigint as "cachedUnits", coalesce(u.output, 0)::bigint as "outputUnits",
      coalesce(u.request_ms, 0)::bigint as "requestMs", coalesce(u.busy_ms, 0)::bigint as "busyMs",
      coalesce(p.ms, 0)::bigint as "paidMs", coalesce(c.cost, 0)::bigint as "gpuCost", coalesce(e.supplier, 0)::bigint as supplier,
      coalesce(c.vendor, 0)::bigint as "vendorCharged", coalesce(b.cost, 0)::bigint as "vendorCost"
    from (select distinct model from record) m
    left join used u using (model) left join served v using (model) left join charged c using (model)
    left join paid p using (model) left join earned e using (model) left join billed b using (model)
    order by coalesce(c.cost, 0) - coalesce(c.vendor, 0) + coalesce(b.cost, 0) desc, m.model limit ${limits.models}`.execute(
    db,
  )
  return rows
}

function isOf(of: UsageOf): RawBuilder<unknown> {
  if ('deploymentId' in of) return sql`deployment_id = ${of.deploymentId}`
  return of.model === undefined ? sql`is_public` : sql`is_public and model = ${of.model}`
}

/** Sums up charges less refunds for requests of all accounts, by model. */
export async function sumModelRevenue(
  db: Db,
  models: readonly string[],
  range: DayRange,
): Promise<Map<string, NanoUsd>> {
  const { rows } = await sql<{ model: string; revenue: NanoUsd }>`
    select model, -sum(amount_nano)::bigint as revenue from ledger_day
    where service = 'models' and day between ${range.from}::date and ${range.to}::date and kind in ('charge', 'refund')
      and model = any (${[...models]}::text[])
    group by 1`.execute(db)
  return new Map(rows.map(({ model, revenue }) => [model, revenue]))
}

/** Reads those that exist. */
export async function readModels(db: Db, names: readonly string[]): Promise<Model[]> {
  if (names.length === 0) return []
  return db
    .selectFrom('model')
    .selectAll()
    .where('name', 'in', [...names])
    .execute()
}

function spanOf(range: DayRange): { from: Instant; until: Instant } {
  const [from, to] = [parseInstant(range.from), parseInstant(range.to)]
  if (from === undefined || to === undefined) throw new Error(`${range.from} to ${range.to} is no range of days`)
  return { from, until: addMs(to, DAY_MS) }
}

/** Requests may be recorded this long after they ended; an outage of the database is the longest. */
const LATE_MS = 20 * 60_000
const VERY_LATE_MS = DAY_MS

/** Whether a replica lives or ended so recently that its hours may still change. */
export async function hasRecentReplicas(db: Db, now: Instant): Promise<boolean> {
  const since = addMs(now, -VERY_LATE_MS - 2 * HOUR_MS)
  const { rows } =
    await sql`select 1 from replica_record where ended_at is null or ended_at >= ${at(since)} limit 1`.execute(db)
  return rows.length > 0
}

/** Returns the hours that may have changed: the current one, the one before for a while, and yesterday's for the very late. */
export function hoursToCount(now: Instant): Instant[] {
  const hourOf = (instant: Instant): Instant => instantOf(instant - (instant % HOUR_MS))
  const hours = [hourOf(now), hourOf(addMs(now, -LATE_MS)), hourOf(addMs(now, -VERY_LATE_MS))]
  return [...new Set(hours)]
}

export async function countReplicaHour(db: Db, hour: Instant): Promise<void> {
  await sql`select count_replica_hour(${at(hour)})`.execute(db)
}

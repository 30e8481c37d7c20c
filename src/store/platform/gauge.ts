/** Counts for the metrics page, read at each scrape. */
import { sql } from 'kysely'
import { addMs, toDate, type Instant } from '../../base/instant.ts'
import type { RentalState } from '../../contract/rental-state.ts'
import { SILENT_MS, type HostState } from '../../domain/host.ts'
import { LOAD_MS } from '../../domain/serving.ts'
import type { VolumeState } from '../../domain/volume.ts'
import type { Db } from './database.ts'

export type Count =
  | { readonly of: 'rental'; readonly label: RentalState; readonly n: number }
  | { readonly of: 'gpu'; readonly label: 'total' | 'claimed' | 'sick'; readonly n: number }
  | { readonly of: 'host'; readonly label: HostState | 'silent'; readonly n: number }
  | { readonly of: 'stuck rental' | 'pending delivery'; readonly label: ''; readonly n: number }

/** Labels that count nothing may be absent. */
export async function readCounts(db: Db, now: Instant): Promise<Count[]> {
  const { rows } = await sql<Count>`
    select 'rental' as of, status as label, count(*)::integer as n from rental where status <> 'Terminated' group by status
    union all select 'stuck rental', '', count(*)::integer from rental where stuck_at is not null and released_at is null
    union all select 'gpu', 'total', coalesce(sum(gpus_total), 0)::integer from machine
    union all select 'gpu', 'claimed', coalesce(sum(gpus_claimed), 0)::integer from machine
    union all select 'gpu', 'sick', coalesce(sum(cardinality(gpus_sick)), 0)::integer from machine
    union all select 'host', case when seen_at >= ${toDate(addMs(now, -SILENT_MS))} then state else 'silent' end,
      count(*)::integer from host where state <> 'left' group by 2
    union all select 'pending delivery', '', count(*)::integer from webhook_delivery where state = 'pending'`.execute(
    db,
  )
  return rows
}

export interface GpuModelCount {
  readonly gpuModel: string
  readonly total: number
  readonly rented: number
  readonly faulty: number
}

/** The GPU models with the most GPUs, largest first. */
export async function countGpuModels(db: Db, limit: number): Promise<GpuModelCount[]> {
  const { rows } = await sql<GpuModelCount>`
    select gpu_model as "gpuModel", sum(gpus_total)::integer as total, sum(gpus_claimed)::integer as rented,
      sum(cardinality(gpus_sick))::integer as faulty
    from machine group by gpu_model order by total desc, gpu_model limit ${limit}`.execute(db)
  return rows
}

export async function readDatabaseBytes(db: Db): Promise<number> {
  const size = await sql<{ bytes: bigint }>`select pg_database_size(current_database()) as bytes`.execute(db)
  return Number.parseInt(String(size.rows[0]?.bytes ?? 0), 10)
}

/** The gauges of a managed deployment. */
export interface ServingGauges {
  readonly model: string
  readonly ready: number
  readonly starting: number
  readonly draining: number
  readonly desired: number
  /** Requests that wait or run, at all gateways. */
  readonly outstanding: number
  readonly costUsdPerHour: number
  readonly budgetUsdPerHour: number | null
  /** The reason why the last order of a replica failed. */
  readonly blockedReason: string | null
}

/** Lists those with the most replicas first, and counts all. */
export async function readServing(
  db: Db,
  now: Instant,
  limit: number,
): Promise<{ deployments: ServingGauges[]; count: number }> {
  const rows = await sql<ServingGauges & { total: number }>`
    select d.model, coalesce(r.ready, 0)::integer as ready, coalesce(r.starting, 0)::integer as starting,
      coalesce(r.draining, 0)::integer as draining, (d.scaling ->> 'desired')::integer as desired,
      coalesce(g.outstanding, 0)::float8 as outstanding, (coalesce(r.cost_nano, 0) / 1e9)::float8 as "costUsdPerHour",
      (d.settings ->> 'hourlyBudgetUsd')::float8 as "budgetUsdPerHour", d.blocked_reason as "blockedReason",
      (count(*) over ())::integer as total
    from managed_deployment d
    left join lateral (
      select count(*) filter (where p.state = 'ready') as ready, count(*) filter (where p.state = 'starting') as starting,
        count(*) filter (where p.state = 'draining') as draining, sum(t.cost_nano_per_hour) as cost_nano
      from replica p
      join lateral (select cost_nano_per_hour from term where rental_id = p.rental_id order by n desc limit 1) t on true
      where p.deployment_id = d.id and p.state <> 'ended') r on true
    left join lateral (
      select sum(outstanding) as outstanding from gateway_load where model = d.model and at > ${toDate(addMs(now, -LOAD_MS))}
    ) g on true
    order by coalesce(r.ready, 0) + coalesce(r.starting, 0) desc, d.model limit ${limit}`.execute(db)
  return { deployments: rows.rows, count: rows.rows[0]?.total ?? 0 }
}

/** Deleted volumes do not count. */
export async function readVolumeGb(db: Db): Promise<ReadonlyMap<VolumeState, number>> {
  const sums = await sql<{ state: VolumeState; gb: number }>`
    select state, sum(size_gb)::float8 as gb from volume where state <> 'deleted' group by state`.execute(db)
  return new Map(sums.rows.map(({ state, gb }) => [state, gb]))
}

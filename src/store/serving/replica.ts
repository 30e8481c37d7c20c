/** Replicas of managed deployments, with their rentals, and the load that gateways report. */
import { sql } from 'kysely'
import { addMs, DAY_MS, toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { ReplicaState } from '../../contract/managed-deployment.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { RentalState } from '../../contract/rental-state.ts'
import type { RentalOutcome } from '../../contract/rental-outcome.ts'
import type { FreeSpan } from '../../domain/free-start.ts'
import type { PastStarts } from '../../domain/replica-rank.ts'
import { PROVEN_MS, type ReplicaEnd, type ReplicaEndpoint, type ReplicaLoads } from '../../domain/serving.ts'
import type { Db, Tx } from '../platform/database.ts'
import { SERVE_WAKE } from './managed-deployment.ts'

export interface Replica {
  readonly id: string
  readonly deployment_id: string
  readonly version: number
  readonly rental_id: number
  readonly endpoint: ReplicaEndpoint
  readonly key_sealed: string
  readonly state: ReplicaState
  readonly reason: string | null
  readonly detail: string | null
  readonly created_at: Instant
  readonly loaded_at: Instant | null
  readonly ready_at: Instant | null
  readonly draining_at: Instant | null
  readonly ended_at: Instant | null
  readonly rental_name: string
  readonly account_id: string
  readonly status: RentalState
  readonly status_reason: string | null
  readonly status_since: Instant
  readonly create_asked_at: Instant | null
  readonly started_at: Instant | null
  readonly driver: ProviderId
  readonly external_id: string | null
  readonly node: string | null
  readonly gpu_model: string | null
  readonly cost_per_hour: NanoUsd
}

/** Lists the newest first. Ended ones are listed only if they ended after `endedSince`. */
export async function listReplicas(db: Db, deploymentIds: readonly string[], endedSince?: Instant): Promise<Replica[]> {
  if (deploymentIds.length === 0) return []
  const since = toDateOrNull(endedSince ?? null)
  const rows = await sql<Replica>`
    select p.*, r.name as rental_name, r.account_id, r.status, r.status_reason, r.status_since, r.create_asked_at, r.started_at, r.driver,
      r.external_id, r.spec #>> '{nodes,0,machineId}' as node, r.spec ->> 'gpuModel' as gpu_model,
      t.cost_nano_per_hour as cost_per_hour
    from replica p
    join rental r on r.id = p.rental_id
    join lateral (select cost_nano_per_hour from term where rental_id = r.id order by n desc limit 1) t on true
    where p.deployment_id = any (${[...deploymentIds]}::text[])
      and (p.state <> 'ended' or p.ended_at >= ${since}::timestamptz)
    order by p.created_at desc, p.id`.execute(db)
  return rows.rows
}

/** The maximum of past replicas read per deployment, newest first. */
const MAX_PAST = 100
/** Early ends that a machine may be at fault for. Others are faults of the version or the account, or are planned. */
const MACHINE_FAULTS: ReadonlyArray<ReplicaEnd | RentalOutcome> = [
  'start_timed_out',
  'machine_lost',
  'engine_failure',
  'process_exited',
  'out_of_memory',
  'no_capacity',
]

/**
 * Lists starts of ended replicas, by machine. A replica of this version that ended soon after its first answer counts
 * as a failed start too.
 */
export async function listPastStarts(db: Db, deploymentId: string, version: number): Promise<PastStarts[]> {
  const { rows } = await sql<PastStarts>`
    select "machineId", max(ready_at) filter (where not has_failed) as "servedAt",
      max(created_at) filter (where has_failed) as "failedAt"
    from (
      select r.spec #>> '{nodes,0,machineId}' as "machineId", p.ready_at, p.created_at,
        p.reason = 'contact_lost' or (p.reason = any (${MACHINE_FAULTS}::text[]) and p.version = ${version}
          and (p.ready_at is null or p.ended_at < p.ready_at + ${PROVEN_MS}::float8 * interval '1 ms')) as has_failed
      from (select * from replica where deployment_id = ${deploymentId} and state = 'ended'
        order by created_at desc limit ${MAX_PAST}) p
      join rental r on r.id = p.rental_id) ended
    where "machineId" is not null
    group by 1`.execute(db)
  return rows
}

export async function insertReplica(
  tx: Tx,
  replica: Pick<Replica, 'id' | 'deployment_id' | 'version' | 'rental_id' | 'endpoint' | 'key_sealed'>,
): Promise<void> {
  await tx.db
    .insertInto('replica')
    .values({
      ...replica,
      endpoint: JSON.stringify(replica.endpoint),
      state: 'starting',
      created_at: toDate(tx.clock.now()),
    })
    .execute()
}

/** False: it is no longer in one of the states `from`. */
export async function moveReplica(
  tx: Tx,
  id: string,
  from: readonly ReplicaState[],
  to: {
    readonly state: ReplicaState
    readonly reason: string | null
    readonly detail?: string | null
    readonly loadedAt?: Instant
  },
): Promise<boolean> {
  const now = toDate(tx.clock.now())
  const { loadedAt, ...columns } = to
  const row = await tx.db
    .updateTable('replica')
    .set({
      ...columns,
      ...(loadedAt === undefined ? {} : { loaded_at: toDate(loadedAt) }),
      ...(to.state === 'ready' ? { ready_at: now } : {}),
      ...(to.state === 'draining' ? { draining_at: now } : {}),
      ...(to.state === 'ended' ? { ended_at: now } : {}),
    })
    .where('id', '=', id)
    .where('state', 'in', [...from])
    .returning('id')
    .executeTakeFirst()
  tx.wake.add(SERVE_WAKE)
  return row !== undefined
}

/** Notes the result of a readiness check that failed. An unchanged one is not written again. */
export async function noteReplica(db: Db, id: string, detail: string): Promise<void> {
  await sql`update replica set detail = ${detail} where id = ${id} and state = 'starting'
    and detail is distinct from ${detail}`.execute(db)
}

/** Whether the rental is a customer's replica that has not answered yet. The house pays its suppliers for starts too. */
export async function startsFree(db: Db, rentalId: number): Promise<boolean> {
  const row = await db
    .selectFrom('replica')
    .innerJoin('managed_deployment', 'managed_deployment.id', 'replica.deployment_id')
    .select('replica.id')
    .where('rental_id', '=', rentalId)
    .where('ready_at', 'is', null)
    .where('is_public', '=', false)
    .executeTakeFirst()
  return row !== undefined
}

/** Lists free times of starting replicas of an account that were not over before `since`, the start of a day. */
export async function listFreeStarts(db: Db, accountId: string, since: Instant): Promise<FreeSpan[]> {
  const rows = await sql<{ from: Instant; until: Instant | null; gpus: number }>`
    select s.started_at as "from", s.ended_at as until, r.gpu_count as gpus
    from replica_record p
    join segment s on s.rental_id = p.rental_id
    join rental r on r.id = p.rental_id
    where p.created_at >= ${toDate(addMs(since, -DAY_MS))} and p.account_id = ${accountId} and not p.is_public
      and s.price_nano_per_hour = 0 and s.started_at < coalesce(p.ready_at, 'infinity')
      and (s.ended_at is null or s.ended_at > ${toDate(since)})`.execute(db)
  return rows.rows
}

export interface GatewayLoad {
  readonly model: string
  readonly outstanding: number
  readonly current: number
  readonly replicas: ReplicaLoads
  readonly activeAt: Instant | null
}

/** Writes all models of a gateway in one statement. */
export async function writeLoad(db: Db, gatewayId: string, loads: readonly GatewayLoad[], now: Instant): Promise<void> {
  if (loads.length === 0) return
  await db
    .insertInto('gateway_load')
    .values(
      loads.map(({ model, outstanding, current, replicas, activeAt }) => ({
        gateway_id: gatewayId,
        model,
        outstanding,
        current,
        replicas: JSON.stringify(replicas),
        active_at: toDateOrNull(activeAt),
        at: toDate(now),
      })),
    )
    .onConflict((conflict) =>
      conflict.columns(['gateway_id', 'model']).doUpdateSet((row) => ({
        outstanding: row.ref('excluded.outstanding'),
        current: row.ref('excluded.current'),
        replicas: row.ref('excluded.replicas'),
        active_at: row.ref('excluded.active_at'),
        at: row.ref('excluded.at'),
      })),
    )
    .execute()
}

export interface ModelLoad extends GatewayLoad {
  readonly gatewayId: string
  readonly at: Instant
}

/** Reads rows written after `since`. */
export async function readLoads(db: Db, since: Instant): Promise<ModelLoad[]> {
  const rows = await db
    .selectFrom('gateway_load')
    .selectAll()
    .where('at', '>', sql<Instant>`${toDate(since)}::timestamptz`)
    .execute()
  return rows.map((row) => ({
    gatewayId: row.gateway_id,
    model: row.model,
    outstanding: row.outstanding,
    current: row.current,
    replicas: row.replicas,
    activeAt: row.active_at,
    at: row.at,
  }))
}

/** Lists gateways that beat after `since`. */
export async function listLiveGateways(db: Db, since: Instant): Promise<string[]> {
  const rows = await db
    .selectFrom('gateway')
    .select('id')
    .where('seen_at', '>', sql<Instant>`${toDate(since)}::timestamptz`)
    .execute()
  return rows.map(({ id }) => id)
}

export async function deleteOldLoads(db: Db, before: Instant): Promise<void> {
  await db
    .deleteFrom('gateway_load')
    .where('at', '<', sql<Instant>`${toDate(before)}::timestamptz`)
    .execute()
}

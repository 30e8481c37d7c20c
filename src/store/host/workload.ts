/** Workloads on our own hosts as their customers see them: public ports, progress, GPU metrics. */
import { sql } from 'kysely'
import type { Instant } from '../../base/instant.ts'
import type { HostMetrics } from '../../contract/agent.ts'
import type { WeightsFile } from '../../contract/weights.ts'
import type { Db } from '../platform/database.ts'

/** Public ports by inner port (0 is SSH), for each machine by its driver's id. */
export type PublicPorts = ReadonlyMap<string, ReadonlyMap<number, number>>

export async function readPublicPorts(db: Db, externalIds: readonly string[]): Promise<PublicPorts> {
  if (externalIds.length === 0) return new Map()
  const { rows } = await sql<{ external_id: string; target: number; port: number }>`
    select p.workload_id as external_id, p.target, p.port from relay_port p
    where p.workload_id = any (${externalIds}::text[])
    union all select r.external_id, p.target, p.port from relay_port p join rental r on r.id = p.rental_id
    where r.external_id = any (${externalIds}::text[])`.execute(db)
  const ports = new Map<string, Map<number, number>>()
  for (const row of rows) {
    const portsByTarget = ports.get(row.external_id) ?? new Map<number, number>()
    ports.set(row.external_id, portsByTarget.set(row.target, row.port))
  }
  return ports
}

/** Ports of running workloads on the hosts that are connected to this server. */
export async function listRelayPorts(
  db: Db,
  hostIds: readonly string[],
): Promise<Array<{ port: number; workloadId: string; hostId: string; target: number }>> {
  if (hostIds.length === 0) return []
  const rows = await sql<{ port: number; workload_id: string; host_id: string; target: number }>`
    select p.port, p.workload_id, n.host_id, p.target
    from relay_port p join workload w on w.id = p.workload_id join workload_node n on n.workload_id = w.id
    where w.want = 'run' and n.node_index = 0 and n.host_id = any (${hostIds}::text[])
    union all select p.port, r.external_id, r.spec->'nodes'->0->>'machineId', p.target
    from relay_port p join rental r on r.id = p.rental_id
    where r.status = 'Running' and r.external_id is not null and r.spec->'nodes'->0->>'machineId' = any (${hostIds}::text[])
    order by port`.execute(db)
  return rows.rows.map((row) => ({
    port: row.port,
    workloadId: row.workload_id,
    hostId: row.host_id,
    target: row.target,
  }))
}

/** Returns the progress that the hosts report, by tag. If a machine has several hosts, the first with any counts. */
export async function readWorkloadMessages(db: Db, tags: readonly string[]): Promise<Map<string, string>> {
  if (tags.length === 0) return new Map()
  const rows = await sql<{ tag: string; message: string }>`
    select distinct on (w.tag) w.tag, n.message
    from workload w join workload_node n on n.workload_id = w.id
    where w.tag = any (${tags}::text[]) and w.spec is not null and n.message is not null
    order by w.tag, n.node_index`.execute(db)
  return new Map(rows.rows.map((row) => [row.tag, row.message]))
}

/** Finds a file of a workload's weights on this host by its digest. undefined: no workload on the host needs it. */
export async function findWeightsFile(
  db: Db,
  { hostId, workloadId, sha256 }: { readonly hostId: string; readonly workloadId: string; readonly sha256: string },
): Promise<WeightsFile | undefined> {
  const rows = await sql<{ file: WeightsFile }>`
    select f.value as file from workload_node n join workload w on w.id = n.workload_id,
      jsonb_array_elements(w.spec #> '{workload,weights,files}') f
    where n.host_id = ${hostId} and w.id = ${workloadId} and w.want <> 'gone' and f.value ->> 'sha256' = ${sha256}
    limit 1`.execute(db)
  return rows.rows[0]?.file
}

export interface RentedMachine {
  readonly rentalId: number
  readonly machineId: string
  readonly workloadId: string
  readonly gpuIndexes: readonly number[]
  /** null: its host has not reported metrics yet. */
  readonly measured: { readonly at: Instant; readonly metrics: HostMetrics } | null
}

/** Lists the machines of rentals with the last metrics of their hosts, which are also about other tenants. */
export async function listRentedMachines(db: Db, rentalIds: readonly number[]): Promise<RentedMachine[]> {
  if (rentalIds.length === 0) return []
  const rows = await sql<{
    rental_id: number
    machine_id: string
    workload_id: string
    gpu_indexes: number[]
    metrics: HostMetrics | null
    metrics_at: Instant | null
  }>`
    select r.id as rental_id, n.host_id as machine_id, n.workload_id, n.gpu_indexes, h.metrics, h.metrics_at
    from rental r join workload w on w.id = r.external_id and w.driver = r.driver
    join workload_node n on n.workload_id = w.id join host h on h.id = n.host_id
    where r.id = any (${rentalIds}::integer[]) and r.released_at is null
    order by r.id, n.node_index`.execute(db)
  return rows.rows.map((row) => ({
    rentalId: row.rental_id,
    machineId: row.machine_id,
    workloadId: row.workload_id,
    gpuIndexes: row.gpu_indexes,
    measured: row.metrics === null || row.metrics_at === null ? null : { at: row.metrics_at, metrics: row.metrics },
  }))
}

/** Workloads on our own hosts as their customers see them: public ports, progress, GPU metrics. */
import { sql } from 'kysely'
import type { Instant } from '../base/instant.ts'
import type { HostMetrics } from '../contract/agent.ts'
import type { Db } from './database.ts'

/** By the engine's id of a machine: the public port of each inner port. 0 is SSH. */
export type PublicPorts = ReadonlyMap<string, ReadonlyMap<number, number>>

export async function readPublicPorts(db: Db, externalIds: readonly string[]): Promise<PublicPorts> {
  if (externalIds.length === 0) return new Map()
  const rows = await db.selectFrom('relay_port').selectAll().where('workload_id', 'in', externalIds).execute()
  const ports = new Map<string, Map<number, number>>()
  for (const row of rows) {
    const own = ports.get(row.workload_id) ?? new Map<number, number>()
    ports.set(row.workload_id, own.set(row.target, row.port))
  }
  return ports
}

/** By tag: the progress that the hosts report. Of several hosts, the first with any. */
export async function readWorkloadMessages(db: Db, tags: readonly string[]): Promise<Map<string, string>> {
  if (tags.length === 0) return new Map()
  const rows = await sql<{ tag: string; message: string }>`
    select distinct on (w.tag) w.tag, n.message
    from workload w join workload_node n on n.workload_id = w.id
    where w.tag = any (${tags}::text[]) and w.spec is not null and n.message is not null
    order by w.tag, n.node_index`.execute(db)
  return new Map(rows.rows.map((row) => [row.tag, row.message]))
}

export interface RentedGpu {
  readonly machineId: string
  readonly gpuIndex: number
  /** null: its host has not reported metrics yet. */
  readonly measured: { readonly at: Instant; readonly gpu: HostMetrics['gpus'][number] } | null
}

/** The GPUs of a rental, and no others of their hosts, with their last metrics. */
export async function listRentedGpus(db: Db, rentalId: number): Promise<RentedGpu[]> {
  const rows = await sql<{
    machine_id: string
    gpu_index: number
    metrics: HostMetrics | null
    metrics_at: Instant | null
  }>`
    select c.machine_id, c.gpu_index, h.metrics, h.metrics_at
    from gpu_claim c join host h on h.id = c.machine_id
    where c.rental_id = ${rentalId} order by c.machine_id, c.gpu_index`.execute(db)
  return rows.rows.map((row) => {
    const gpu = row.metrics?.gpus.find((one) => one.index === row.gpu_index)
    return {
      machineId: row.machine_id,
      gpuIndex: row.gpu_index,
      measured: gpu === undefined || row.metrics_at === null ? null : { at: row.metrics_at, gpu },
    }
  })
}

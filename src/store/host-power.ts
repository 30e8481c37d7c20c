/** Stop, start and reboot in the desired state of our own hosts; part of host-world.ts. */
import { sql } from 'kysely'
import type { EngineSpec } from '../domain/rental.ts'
import type { Tx } from './database.ts'
import type { WorkloadWant } from './host-tables.ts'
import { setNodeGenerations, whyNot, type HostStanding } from './host-world.ts'

async function move(tx: Tx, id: string, from: WorkloadWant, to: WorkloadWant): Promise<boolean> {
  const moved = await tx.db
    .updateTable('workload')
    .set({ want: to })
    .where('id', '=', id)
    .where('want', '=', from)
    .returning('id')
    .executeTakeFirst()
  return moved !== undefined
}

export async function requestStop(tx: Tx, id: string): Promise<void> {
  if (await move(tx, id, 'run', 'stopped')) await setNodeGenerations(tx, id)
}

/** A workload that runs already, or is going, stays as it is. */
export async function requestStart(
  tx: Tx,
  id: string,
  nodes: EngineSpec['nodes'],
): Promise<{ kind: 'starting' } | { kind: 'refused'; message: string }> {
  const hosts = await sql<HostStanding>`
    select id, state, seen_at, fault from host where id = any (${nodes.map(({ machineId }) => machineId)}::text[])
    order by id for update`.execute(tx.db)
  for (const host of hosts.rows) {
    const why = whyNot(host, tx.clock.now())
    if (why !== undefined) return { kind: 'refused', message: `Host ${host.id} ${why}.` }
  }
  if (!(await move(tx, id, 'stopped', 'run'))) return { kind: 'starting' }
  for (const { machineId, gpuIndexes } of nodes) {
    await tx.db
      .updateTable('workload_node')
      // Nothing is known of it until the host has been told: an old report must not count as the next stop.
      .set({ gpu_indexes: [...gpuIndexes], state: null, failure: null, message: null })
      .where('workload_id', '=', id)
      .where('host_id', '=', machineId)
      .execute()
  }
  await sql`update workload set spec = spec || jsonb_build_object('nodes', ${JSON.stringify(nodes)}::jsonb)
    where id = ${id} and spec is not null`.execute(tx.db)
  await setNodeGenerations(tx, id)
  return { kind: 'starting' }
}

export async function requestReboot(tx: Tx, id: string, count: number): Promise<void> {
  const counted = await tx.db
    .updateTable('workload')
    .set({ reboots: count })
    .where('id', '=', id)
    .where('reboots', '<', count)
    .returning('id')
    .executeTakeFirst()
  if (counted !== undefined) await setNodeGenerations(tx, id)
}

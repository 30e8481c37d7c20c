/** Stop, start and reboot of workloads, in the desired state of our own hosts; part of host-world.ts. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import type { HostFault } from '../../contract/agent.ts'
import { isSilent, type HostState } from '../../domain/host.ts'
import type { Share } from '../../domain/rental.ts'
import type { Tx } from '../platform/database.ts'
import { bumpHosts, type WorkloadWant } from './host.ts'
import { beginMove, dropCopiesOf, giveUpMove } from './workload-copy.ts'

async function move(tx: Tx, id: string, from: WorkloadWant, to: WorkloadWant): Promise<boolean> {
  const row = await tx.db
    .updateTable('workload')
    // An announced end belongs to the run that is over.
    .set({ want: to, interrupted_at: null })
    .where('id', '=', id)
    .where('want', '=', from)
    .returning('id')
    .executeTakeFirst()
  return row !== undefined
}

export async function requestDestroy(tx: Tx, id: string): Promise<void> {
  const row = await tx.db
    .updateTable('workload')
    .set({ want: 'gone' })
    .where('id', '=', id)
    .where('want', '!=', 'gone')
    .returning('id')
    .executeTakeFirst()
  if (row === undefined) return
  await dropCopiesOf(tx, id)
  await setNodeGenerations(tx, id)
}

export async function requestStop(tx: Tx, id: string): Promise<void> {
  if (!(await move(tx, id, 'run', 'stopped'))) return
  await giveUpMove(tx, id)
  // A failed start says nothing about the disk, so the failure is cleared.
  await tx.db
    .updateTable('workload_node')
    .set({ state: null, failure: null, message: null, exit_code: null })
    .where('workload_id', '=', id)
    .where('state', '=', 'failed')
    .execute()
  await setNodeGenerations(tx, id)
}

/** A workload that runs, or is being removed, stays as it is. */
export async function requestStart(
  tx: Tx,
  id: string,
  { nodes, resources }: Share,
): Promise<{ kind: 'starting' } | { kind: 'refused'; message: string }> {
  const hosts = await sql<HostStanding>`
    select id, state, seen_at, fault from host where id = any (${nodes.map(({ machineId }) => machineId)}::text[])
    order by id for update`.execute(tx.db)
  for (const host of hosts.rows) {
    const why = unavailabilityOf(host, tx.clock.now())
    if (why !== undefined) return { kind: 'refused', message: `Host ${host.id} ${why}.` }
  }
  if (!(await move(tx, id, 'stopped', 'run'))) return { kind: 'starting' }
  const [to] = nodes
  if (to !== undefined && !(await hostsOf(tx, id)).includes(to.machineId)) {
    const outcome = await beginMove(tx, id, to)
    if (outcome !== 'begun') {
      await move(tx, id, 'run', 'stopped')
      return outcome === 'later' ? { kind: 'starting' } : { kind: 'refused', message: outcome.refused }
    }
  }
  for (const { machineId, gpuIndexes } of nodes) {
    await tx.db
      .updateTable('workload_node')
      // The state is unknown until the host has the new orders: an old report must not count as the next stop.
      .set({ gpu_indexes: [...gpuIndexes], state: null, failure: null, message: null, exit_code: null })
      .where('workload_id', '=', id)
      .where('host_id', '=', machineId)
      .execute()
  }
  await sql`update workload set spec = spec || ${JSON.stringify({ nodes, resources })}::jsonb
    where id = ${id} and spec is not null`.execute(tx.db)
  await setNodeGenerations(tx, id)
  return { kind: 'starting' }
}

export async function requestReboot(tx: Tx, id: string, count: number): Promise<void> {
  const row = await tx.db
    .updateTable('workload')
    .set({ reboots: count })
    .where('id', '=', id)
    .where('reboots', '<', count)
    .returning('id')
    .executeTakeFirst()
  if (row !== undefined) await setNodeGenerations(tx, id)
}

/** Does nothing for a workload that is not to run. */
export async function announceEnd(tx: Tx, id: string, at: Instant): Promise<void> {
  const row = await tx.db
    .updateTable('workload')
    .set({ interrupted_at: toDate(at) })
    .where('id', '=', id)
    .where('want', '=', 'run')
    .returning('id')
    .executeTakeFirst()
  if (row !== undefined) await setNodeGenerations(tx, id)
}

export interface HostStanding {
  readonly id: string
  readonly state: HostState
  readonly seen_at: Instant | null
  readonly fault: HostFault | null
}

/**
 * Says why a host cannot start a workload. A draining host still serves orders that were placed before its drain began.
 */
export function unavailabilityOf(host: HostStanding, now: Instant): string | undefined {
  if (host.state !== 'ready' && host.state !== 'draining') return `is ${host.state}`
  if (host.fault !== null) return `accepts no tenants (${host.fault.reason})`
  return isSilent(host.seen_at, now) ? 'does not answer' : undefined
}

async function setNodeGenerations(tx: Tx, workloadId: string): Promise<void> {
  const hostIds = await hostsOf(tx, workloadId)
  if (hostIds.length === 0) {
    await tx.db.deleteFrom('workload').where('id', '=', workloadId).execute()
    return
  }
  for (const [hostId, generation] of await bumpHosts(tx, hostIds)) {
    await tx.db
      .updateTable('workload_node')
      .set({ generation })
      .where('workload_id', '=', workloadId)
      .where('host_id', '=', hostId)
      .execute()
  }
}

export async function hostsOf(tx: Tx, workloadId: string): Promise<string[]> {
  const rows = await tx.db.selectFrom('workload_node').select('host_id').where('workload_id', '=', workloadId).execute()
  return rows.map((row) => row.host_id)
}

/**
 * Moves of workloads between hosts, in the desired state. The workload keeps its id, its addresses and its tag; only
 * its host changes. The old host keeps its copy of the disk until the workload runs on the new one; a move that is
 * given up earlier returns to the old host.
 */
import { sql } from 'kysely'
import { isSilent } from '../../domain/host.ts'
import type { NodeClaim } from '../../domain/rental.ts'
import { transact, type Database, type Db, type Tx } from '../platform/database.ts'
import { bumpHosts } from './host.ts'

/**
 * Records where a locked, stopped workload is to run. `later`: an earlier copy of its disk is still being removed; try
 * again.
 */
export async function beginMove(
  tx: Tx,
  workloadId: string,
  to: NodeClaim,
): Promise<'begun' | 'later' | { readonly refused: string }> {
  const { rows } = await sql<{ from: string; seenAt: number | null; isBusy: boolean }>`
    select n.host_id as from, (extract(epoch from h.seen_at) * 1000)::double precision as "seenAt",
      exists (select 1 from workload_copy c where c.workload_id = n.workload_id
        and (c.want = 'kept' or c.host_id = ${to.machineId})) as "isBusy"
    from workload_node n join host h on h.id = n.host_id where n.workload_id = ${workloadId}`.execute(tx.db)
  const [node, ...others] = rows
  if (node === undefined || others.length > 0) return { refused: 'It runs on several hosts.' }
  if (isSilent(node.seenAt as Parameters<typeof isSilent>[0], tx.clock.now()))
    return { refused: `Host ${node.from}, which has its disk, does not answer.` }
  if (node.isBusy) return 'later'
  await placeOn(tx, workloadId, to)
  await addCopy(tx, workloadId, node.from, 'kept')
  return 'begun'
}

/**
 * Ends the move of a workload that is stopped before it has ever run on the new host: it returns to the host with its
 * disk, and the partial copy is removed.
 */
export async function giveUpMove(tx: Tx, workloadId: string): Promise<void> {
  const { rows } = await sql<{ from: string; to: string }>`
    select c.host_id as from, n.host_id as to from workload_copy c join workload_node n on n.workload_id = c.workload_id
    where c.workload_id = ${workloadId} and c.want = 'kept' and n.incarnation is null`.execute(tx.db)
  const move = rows[0]
  if (move === undefined) return
  await sql`delete from workload_copy where workload_id = ${workloadId} and host_id = ${move.from}`.execute(tx.db)
  await placeOn(tx, workloadId, { machineId: move.from, gpuIndexes: [] })
  await addCopy(tx, workloadId, move.to, 'gone')
}

/** Removes old copies of workloads that have run on their new host. */
export async function dropCopies(database: Database): Promise<void> {
  const { rows } = await sql<{ id: string }>`
    select c.workload_id as id from workload_copy c join workload_node n on n.workload_id = c.workload_id
    where c.want = 'kept' and n.incarnation is not null`.execute(database.db)
  for (const { id } of rows)
    await transact(database, async (tx) => {
      await sql`select 1 from workload where id = ${id} for update`.execute(tx.db)
      await dropCopiesOf(tx, id)
    })
}

/** Removes all copies of a locked workload. */
export async function dropCopiesOf(tx: Tx, workloadId: string): Promise<void> {
  const { rows } = await sql<{ hostId: string }>`
    update workload_copy set want = 'gone' where workload_id = ${workloadId} and want = 'kept'
    returning host_id as "hostId"`.execute(tx.db)
  for (const { hostId } of rows) await addCopy(tx, workloadId, hostId, 'gone')
}

/** Returns the host that the disk is copied from. undefined: no copy is under way. */
export async function findDiskSource(
  db: Db,
  { hostId, workloadId }: { readonly hostId: string; readonly workloadId: string },
): Promise<string | undefined> {
  const { rows } = await sql<{ from: string }>`
    select c.host_id as from from workload_copy c
    join workload_node n on n.workload_id = c.workload_id join workload w on w.id = c.workload_id
    where c.workload_id = ${workloadId} and c.want = 'kept' and w.want = 'run' and n.host_id = ${hostId}
      and n.incarnation is null`.execute(db)
  return rows[0]?.from
}

/** `incarnation` is null until it has run there. */
async function placeOn(tx: Tx, workloadId: string, to: NodeClaim): Promise<void> {
  await tx.db
    .updateTable('workload_node')
    .set({
      host_id: to.machineId,
      gpu_indexes: [...to.gpuIndexes],
      state: null,
      failure: null,
      exit_code: null,
      message: null,
      ssh_user: null,
      incarnation: null,
      disks: [],
      // A host that missed the move must not create the workload anew, without its disk.
      started: true,
    })
    .where('workload_id', '=', workloadId)
    .execute()
}

async function addCopy(tx: Tx, workloadId: string, hostId: string, want: 'kept' | 'gone'): Promise<void> {
  const generation = (await bumpHosts(tx, [hostId])).get(hostId)
  await sql`insert into workload_copy (workload_id, host_id, want, generation)
    values (${workloadId}, ${hostId}, ${want}, ${generation})
    on conflict (workload_id, host_id) do update set want = excluded.want, generation = excluded.generation`.execute(
    tx.db,
  )
}

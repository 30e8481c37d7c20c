/** Volumes in the desired state of our own hosts; part of host-world.ts. */
import { sql } from 'kysely'
import { toDate } from '../../base/instant.ts'
import type { RentalSpec, Mount } from '../../domain/rental.ts'
import type { Db, Tx } from '../platform/database.ts'
import { hostsOf } from './host-power.ts'
import { bumpHosts } from './host.ts'

export interface NewVolume {
  readonly id: string
  readonly driver: 'host' | 'private-cloud'
  readonly tag: string
  readonly hostId: string | null
  readonly label: string
  readonly sizeGb: number
  readonly isReserved?: boolean
  readonly vip: string
  readonly copyOf?: string | null
}

export async function addVolume(tx: Tx, volume: NewVolume): Promise<{ id: string; vip: string }> {
  const existingVolume = await tx.db
    .selectFrom('host_volume')
    .select(['id', 'vip'])
    .where('tag', '=', volume.tag)
    .executeTakeFirst()
  if (existingVolume !== undefined) return existingVolume
  const { hostId } = volume
  const generation = hostId === null ? null : ((await bumpHosts(tx, [hostId])).get(hostId) ?? null)
  await tx.db
    .insertInto('host_volume')
    .values({
      id: volume.id,
      driver: volume.driver,
      tag: volume.tag,
      host_id: hostId,
      label: volume.label,
      size_gb: volume.sizeGb,
      vip: volume.vip,
      reserved: volume.isReserved ?? false,
      copy_of: volume.copyOf ?? null,
      generation,
      created_at: toDate(tx.clock.now()),
    })
    .execute()
  return { id: volume.id, vip: volume.vip }
}

export async function readVolumes(db: Db, where: ReturnType<typeof sql>) {
  const { rows } = await sql<{
    id: string
    tag: string
    hostId: string | null
    sizeGb: number
    vip: string
    want: 'there' | 'gone'
    present: boolean
    failure: string | null
    foundGb: number | null
    usedGb: number | null
    wantedBy: string[]
    attachedTo: string[]
    heldBy: string[]
  }>`
    select v.id, v.tag, v.host_id as "hostId", v.size_gb as "sizeGb", v.vip, v.want, v.present, v.failure,
      v.found_gb as "foundGb", v.used_gb as "usedGb",
      array(select d.workload_id from workload_disk d where d.volume_id = v.id order by 1) as "wantedBy",
      array(select d.workload_id from workload_disk d where d.volume_id = v.id
            and not exists (select 1 from workload_node n where n.workload_id = d.workload_id and v.id <> all (n.disks))
            order by 1) as "attachedTo",
      array(select distinct n.workload_id from workload_node n where v.id = any (n.disks) order by 1) as "heldBy"
    from host_volume v where ${where} order by v.id`.execute(db)
  return rows
}

/** False: it is attached. */
export async function requestVolumeDestroy(tx: Tx, id: string): Promise<boolean> {
  const volume = await tx.db.selectFrom('host_volume').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
  if (volume === undefined || volume.want === 'gone') return true
  const attachment = await tx.db
    .selectFrom('workload_disk')
    .select('workload_id')
    .where('volume_id', '=', id)
    .executeTakeFirst()
  if (attachment !== undefined) return false
  const { host_id: hostId } = volume
  const generation = hostId === null ? null : ((await bumpHosts(tx, [hostId])).get(hostId) ?? null)
  await tx.db.updateTable('host_volume').set({ want: 'gone', generation }).where('id', '=', id).execute()
  return true
}

export async function growVolume(tx: Tx, id: string, sizeGb: number): Promise<void> {
  const grown = await tx.db
    .updateTable('host_volume')
    .set({ size_gb: sizeGb, failure: null })
    .where('id', '=', id)
    .where('size_gb', '<', sizeGb)
    .returning('host_id')
    .executeTakeFirst()
  if (grown !== undefined && grown.host_id !== null) await bumpHosts(tx, [grown.host_id])
}

/** Returns why the disk cannot be attached. undefined: the attachment is recorded. */
export async function wantDisk(
  tx: Tx,
  volumeId: string,
  workloadId: string,
  mount: Mount = { path: null, readOnly: false },
): Promise<string | undefined> {
  const rows = await sql<{ host_id: string | null; volume_want: string; want: string; on_host: boolean }>`
    select v.host_id, v.want as volume_want, w.want,
      exists (select 1 from workload_node n where n.workload_id = w.id and n.host_id = v.host_id) as on_host
    from host_volume v, workload w where v.id = ${volumeId} and w.id = ${workloadId} for update of v, w`.execute(tx.db)
  const row = rows.rows[0]
  if (row === undefined || row.volume_want === 'gone') return 'There is no such volume or no such machine.'
  if (row.want === 'gone') return 'The machine is ending.'
  if (row.host_id !== null && !row.on_host) return 'The volume and the machine are on different hosts.'
  // This is read after the lock was taken.
  if (row.host_id !== null && (await isHeld(tx, volumeId, workloadId, mount.readOnly)))
    return 'The volume is attached to another machine.'
  const newRow = await tx.db
    .insertInto('workload_disk')
    .values({ workload_id: workloadId, volume_id: volumeId, path: mount.path, read_only: mount.readOnly })
    .onConflict((conflict) => conflict.doNothing())
    .returning('volume_id')
    .executeTakeFirst()
  if (newRow !== undefined) await bumpHosts(tx, await hostsOf(tx, workloadId))
  return undefined
}

export async function unwantDisk(tx: Tx, volumeId: string, workloadId: string): Promise<void> {
  const row = await tx.db
    .deleteFrom('workload_disk')
    .where('workload_id', '=', workloadId)
    .where('volume_id', '=', volumeId)
    .returning('volume_id')
    .executeTakeFirst()
  if (row !== undefined) await bumpHosts(tx, await hostsOf(tx, workloadId))
}

/**
 * Locks volumes before hosts, the order used everywhere. Throws while another machine still has one of the volumes; the
 * caller tries again later.
 */
export async function lockDisks(tx: Tx, workloadId: string, disks: NonNullable<RentalSpec['disks']>): Promise<void> {
  const disksInOrder = disks.toSorted((a, b) => (a.volumeId < b.volumeId ? -1 : 1))
  for (const { volumeId, readOnly } of disksInOrder) {
    await tx.db.selectFrom('host_volume').select('id').where('id', '=', volumeId).forUpdate().execute()
    if (await isHeld(tx, volumeId, workloadId, readOnly)) throw new Error(`The volume ${volumeId} is still in use.`)
  }
}

/** Call it in the transaction that adds the workload, so that its host never starts it without them. */
export async function addDisks(tx: Tx, workloadId: string, disks: NonNullable<RentalSpec['disks']>): Promise<void> {
  for (const { volumeId, path, readOnly } of disks) {
    await tx.db
      .insertInto('workload_disk')
      .values({ workload_id: workloadId, volume_id: volumeId, path, read_only: readOnly })
      .execute()
  }
}

/** A volume on the disk of a host has one writer, or any number of readers. */
async function isHeld(tx: Tx, volumeId: string, workloadId: string, readOnly: boolean): Promise<boolean> {
  const others = await tx.db
    .selectFrom('workload_disk')
    .select('read_only')
    .where('volume_id', '=', volumeId)
    .where('workload_id', '!=', workloadId)
    .execute()
  return others.some((one) => !(readOnly && one.read_only))
}

/** The keys are the driver's ids of volumes. Volumes on the file server are left out. */
export async function findVolumeHosts(db: Db, externalIds: readonly string[]): Promise<Map<string, string>> {
  if (externalIds.length === 0) return new Map()
  const rows = await db.selectFrom('host_volume').select(['id', 'host_id']).where('id', 'in', externalIds).execute()
  return new Map(rows.flatMap(({ id, host_id: hostId }) => (hostId === null ? [] : [[id, hostId] as const])))
}

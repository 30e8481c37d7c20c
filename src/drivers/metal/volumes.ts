/**
 * Shared volumes for bare metal, exported to exactly the machines of the rentals that have them. The client lists are
 * recomputed from the desired state on every change and every few seconds, so that the next tenant of a machine never
 * inherits access.
 *
 * A row is only an intention until the file server has created the volume: its existence is always checked there.
 */
import { randomBytes } from 'node:crypto'
import type { VolumeDriver, VolumeOutcome, VolumeSpec } from '../driver.ts'
import { showVolume } from '../host/disk.ts'
import { untilAttached, untilDetached } from '../host/until.ts'
import type { HostWorld } from '../host/world.ts'
import { StorageFull, type FileServer } from '../../runtimes/storage/file-server.ts'

export interface FolderDriver extends VolumeDriver {
  /** Updates the client lists of the file server. */
  syncClients(signal: AbortSignal): Promise<void>
}

const ID_BYTES = 8
const MISSING = 'The file server does not have it.'

export function folderDriver(world: HostWorld, files: FileServer): FolderDriver {
  const syncClients = inTurn((signal) => syncOnce(world, files, signal))
  /** Faults by volume id. null: the volume is healthy. */
  const readFaults = async (signal: AbortSignal): Promise<Map<string, string | null>> =>
    new Map((await files.list(signal)).map(({ id, fault }) => [id, fault]))
  const faultIn = (faults: ReadonlyMap<string, string | null>, id: string): string | null => {
    const fault = faults.get(id)
    return fault === undefined ? MISSING : fault
  }
  return {
    serves: ['bare-metal'],
    attaches: ['bare-metal'],
    isLocal: false,
    regions: 'own',
    syncClients,

    async roomGb(regions, signal) {
      // Volumes that are recorded but not created yet count too.
      const faultsById = await readFaults(signal)
      const uncreated = (await world.listVolumes('private-cloud', '')).filter(({ id }) => !faultsById.has(id))
      const promisedGb = uncreated.reduce((sum, { sizeGb }) => sum + sizeGb, 0)
      // One file server serves every region.
      const roomGb = Math.max(0, (await files.roomGb()) - promisedGb)
      return new Map(regions.map((region) => [region, roomGb]))
    },

    create: (tag, spec, signal) => createFolder(world, files, tag, spec, signal),
    async destroy(externalId, signal) {
      signal.throwIfAborted()
      if (!(await world.requestVolumeDestroy(externalId))) throw new Error('The volume is attached.')
      await syncClients(signal)
      await files.destroy(externalId, signal)
      await world.forgetVolume(externalId)
    },
    async list(tagPrefix, signal) {
      signal.throwIfAborted()
      await files.check(signal)
      const faults = await readFaults(signal)
      return (await world.listVolumes('private-cloud', tagPrefix)).map((volume) => {
        const failure = faultIn(faults, volume.id)
        return showVolume({ ...volume, present: volume.present && failure === null, failure })
      })
    },
    async attach(externalId, machineExternalId, signal) {
      signal.throwIfAborted()
      const fault = faultIn(await readFaults(signal), externalId)
      if (fault !== null) throw new Error(fault)
      const refused = await world.wantDisk(externalId, machineExternalId)
      if (refused !== undefined) throw new Error(refused)
      await syncClients(signal)
      await untilAttached(world, 'the volume is mounted', externalId, machineExternalId, signal)
    },
    async detach(externalId, machineExternalId, signal) {
      signal.throwIfAborted()
      await world.unwantDisk(externalId, machineExternalId)
      // Unmount before revoking: otherwise the tenant's writes would hang.
      await untilDetached(world, 'the volume is unmounted', externalId, machineExternalId, signal)
      await syncClients(signal)
    },
  }
}

async function createFolder(
  world: HostWorld,
  files: FileServer,
  tag: string,
  { label, sizeGb }: VolumeSpec,
  signal: AbortSignal,
): Promise<VolumeOutcome> {
  signal.throwIfAborted()
  // The row comes first: a volume without a row would belong to nobody.
  const { id, vip } = await world.addVolume({
    id: `v-${randomBytes(ID_BYTES).toString('hex')}`,
    driver: 'private-cloud',
    tag,
    hostId: null,
    label,
    sizeGb,
    vip: files.vip,
  })
  try {
    await files.create(id, sizeGb, signal)
  } catch (error) {
    if (!(error instanceof StorageFull)) throw error
    await world.requestVolumeDestroy(id)
    await world.forgetVolume(id)
    return { kind: 'refused', reason: 'no_storage_capacity', message: `${error.message}.` }
  }
  await world.markVolumeMade(id)
  return { kind: 'created', externalId: id, vip }
}

/** One call at a time: a stale read must not overwrite a newer one. */
function inTurn(work: (signal: AbortSignal) => Promise<void>): (signal: AbortSignal) => Promise<void> {
  let last: Promise<unknown> = Promise.resolve()
  return (signal) => {
    const turn = last.then(() => work(signal))
    // A failure is reported to its own caller only.
    last = turn.catch(() => undefined)
    return turn
  }
}

async function syncOnce(world: HostWorld, files: FileServer, signal: AbortSignal): Promise<void> {
  const clientsByVolume = await listClients(world)
  const failures: unknown[] = []
  for (const { id, clients } of await files.list(signal)) {
    const allowed = clientsByVolume.get(id) ?? []
    if ([...clients].sort().join() === [...allowed].sort().join()) continue
    // A failing volume must not block updates of the others.
    await files.setClients(id, allowed, signal).catch((error: unknown) => failures.push(error))
  }
  if (failures.length > 0) throw failures[0]
}

/** Returns the addresses of all machines that should have a volume or still report it, by volume. */
async function listClients(world: HostWorld): Promise<Map<string, string[]>> {
  const [volumes, workloads] = await Promise.all([
    world.listVolumes('private-cloud', ''),
    world.listWorkloads('private-cloud', ''),
  ])
  const running = new Map(workloads.filter((one) => one.want === 'run').map((one) => [one.id, one]))
  return new Map(
    volumes.map((volume) => {
      const by = new Set([...volume.wantedBy, ...volume.heldBy])
      const addresses = [...by].flatMap(
        (id) => running.get(id)?.nodes.flatMap(({ address }) => (address === null ? [] : [address.privateIp])) ?? [],
      )
      return [volume.id, [...new Set(addresses)]]
    }),
  )
}

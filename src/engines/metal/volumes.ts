/**
 * Shared folders for bare metal: on a file server that lets exactly those machines in whose rentals have the volume.
 * Who may is worked out anew from what is wanted, each time and every few seconds, so a rental that ended in whatever
 * way leaves no door open for the next tenant of its machines.
 */
import { randomBytes } from 'node:crypto'
import type { VolumeEngine } from '../driver.ts'
import { showVolume } from '../host/disk.ts'
import { untilSo } from '../host/until.ts'
import type { HostWorld } from '../host/world.ts'
import type { FileServer } from '../storage/file-server.ts'

export interface FolderEngine extends VolumeEngine {
  /** Makes the file server's doors what they should be. */
  syncClients(signal: AbortSignal): Promise<void>
}

const ID_BYTES = 8

export function folderEngine(world: HostWorld, files: FileServer): FolderEngine {
  const syncClients = async (signal: AbortSignal): Promise<void> => {
    const wanted = await clientsWanted(world)
    for (const { id, clients } of await files.list(signal)) {
      const allowed = wanted.get(id) ?? []
      if ([...clients].sort().join() !== [...allowed].sort().join()) await files.setClients(id, allowed, signal)
    }
  }
  return {
    regions: 'own',
    syncClients,

    async roomGb(regions, signal) {
      signal.throwIfAborted()
      // One file server serves every region.
      const roomGb = await files.roomGb()
      return new Map(regions.map((region) => [region, roomGb]))
    },

    async create(tag, { label, sizeGb }, signal) {
      signal.throwIfAborted()
      // The row first: what is on the file server and in no row would be nobody's.
      const { id, vip } = await world.addVolume({
        id: `v-${randomBytes(ID_BYTES).toString('hex')}`,
        driver: 'private-cloud',
        tag,
        hostId: null,
        label,
        sizeGb,
        vip: files.vip,
      })
      await files.create(id, sizeGb, signal)
      return { externalId: id, vip }
    },
    async destroy(externalId, signal) {
      signal.throwIfAborted()
      if (!(await world.askVolumeGone(externalId))) throw new Error('The volume is attached.')
      await syncClients(signal)
      await files.destroy(externalId, signal)
      await world.forgetVolume(externalId)
    },
    async list(tagPrefix, signal) {
      signal.throwIfAborted()
      await files.check(signal)
      return (await world.listVolumes('private-cloud', tagPrefix)).map(showVolume)
    },
    async attach(externalId, machineExternalId, signal) {
      signal.throwIfAborted()
      const refused = await world.wantDisk(externalId, machineExternalId)
      if (refused !== undefined) throw new Error(refused)
      await syncClients(signal)
      await untilSo('the volume is mounted', signal, async () => {
        const volume = await world.findVolume(externalId)
        return volume?.attachedTo.includes(machineExternalId) === true
      })
    },
    async detach(externalId, machineExternalId, signal) {
      signal.throwIfAborted()
      await world.unwantDisk(externalId, machineExternalId)
      // Unmounted first and then refused: the other way round the tenant's writes would hang.
      await untilSo('the volume is unmounted', signal, async () => {
        const volume = await world.findVolume(externalId)
        return volume?.heldBy.includes(machineExternalId) !== true
      })
      await syncClients(signal)
    },
  }
}

/** Of each volume, the addresses of all machines of all rentals that should have it or still show it. */
async function clientsWanted(world: HostWorld): Promise<Map<string, string[]>> {
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

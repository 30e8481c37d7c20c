/**
 * Disks for virtual machines: files on one host, plugged into machines of that host while they run. A disk is made on
 * the host of the machine that it is for, or else where there is a host for virtual machines in its region; it stays
 * there, so only machines of that host can have it.
 */
import { randomBytes } from 'node:crypto'
import type { Clock } from '../../base/instant.ts'
import { isSilent } from '../../domain/host.ts'
import type { EngineVolume, VolumeEngine } from '../driver.ts'
import { untilSo } from './until.ts'
import type { HostWorld, KnownVolume } from './world.ts'

const ID_BYTES = 8

export function diskEngine(world: HostWorld, clock: Clock): VolumeEngine {
  return {
    regions: 'own',

    async create(tag, { region, label, sizeGb, near }, signal) {
      signal.throwIfAborted()
      const hostId = await placeOf(world, { region, near }, clock)
      return asExternal(
        await world.addVolume({
          id: `d-${randomBytes(ID_BYTES).toString('hex')}`,
          driver: 'host',
          tag,
          hostId,
          label,
          sizeGb,
          vip: hostId,
        }),
      )
    },
    async destroy(externalId, signal) {
      signal.throwIfAborted()
      if (!(await world.askVolumeGone(externalId))) throw new Error('The disk is attached.')
    },
    async list(tagPrefix, signal) {
      signal.throwIfAborted()
      return (await world.listVolumes('host', tagPrefix)).map(showVolume)
    },
    async attach(externalId, machineExternalId, signal) {
      signal.throwIfAborted()
      const refused = await world.wantDisk(externalId, machineExternalId)
      if (refused !== undefined) throw new Error(refused)
      await untilSo('the disk is plugged in', signal, async () => {
        const volume = await world.findVolume(externalId)
        return volume?.attachedTo.includes(machineExternalId) === true
      })
    },
    async detach(externalId, machineExternalId, signal) {
      signal.throwIfAborted()
      await world.unwantDisk(externalId, machineExternalId)
      await untilSo('the disk is pulled out', signal, async () => {
        const volume = await world.findVolume(externalId)
        return volume?.heldBy.includes(machineExternalId) !== true
      })
    },
  }
}

function asExternal({ id, vip }: { id: string; vip: string }): { externalId: string; vip: string } {
  return { externalId: id, vip }
}

/** What is being destroyed is shown until it is gone. */
export function showVolume({ id, tag, vip, attachedTo }: KnownVolume): EngineVolume {
  return { externalId: id, tag, vip, attachedTo }
}

async function placeOf(
  world: HostWorld,
  wish: { region: string; near: string | undefined },
  clock: Clock,
): Promise<string> {
  const beside = wish.near === undefined ? undefined : await world.findWorkload(wish.near)
  const there = beside?.nodes[0]?.hostId
  if (there !== undefined) return there
  const fit = (await world.listHosts('host')).find(
    ({ state, seenAt, offer: { offering, region } }) =>
      offering === 'virtual-machine' && region === wish.region && state === 'ready' && !isSilent(seenAt, clock.now()),
  )
  if (fit === undefined) throw new Error(`No host for virtual machines in ${wish.region} answers.`)
  return fit.id
}

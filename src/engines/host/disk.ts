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
import type { HostWorld, KnownHost, KnownVolume } from './world.ts'

const ID_BYTES = 8

export interface DiskOptions {
  readonly clock: Clock
  /** How many times over the disks of a host are promised; 1 keeps every promise whatever is written. */
  readonly overcommit: number
}

export function diskEngine(world: HostWorld, options: DiskOptions): VolumeEngine {
  return {
    regions: 'own',

    async roomGb(regions, signal) {
      signal.throwIfAborted()
      const hosts = await roomOfHosts(world, options)
      const most = (region: string): number =>
        hosts.reduce((gb, host) => (takesNew(host, region) ? Math.max(gb, host.roomGb) : gb), 0)
      return new Map(regions.map((region) => [region, most(region)]))
    },
    async create(tag, { region, label, sizeGb, near }, signal) {
      signal.throwIfAborted()
      const known = (await world.listVolumes('host', tag)).find((one) => one.tag === tag)
      const hostId = known?.hostId ?? (await placeOf(world, { region, near, sizeGb }, options))
      const wish = { driver: 'host', tag, hostId, label, sizeGb, vip: hostId } as const
      const { id, vip } = await world.addVolume({ id: `d-${randomBytes(ID_BYTES).toString('hex')}`, ...wish })
      // Nobody pays for a disk that its host has not made.
      await untilSo('the disk is made', signal, async () => (await world.findVolume(id))?.present === true)
      return { externalId: id, vip }
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

/** What is being destroyed is shown until it is gone. */
export function showVolume({ id, tag, vip, attachedTo, present }: KnownVolume): EngineVolume {
  return { externalId: id, tag, vip, attachedTo, ...(present ? {} : { ready: false as const }) }
}

/** The host of the machine that it is for, else one of the region; with room for what was promised there. */
async function placeOf(
  world: HostWorld,
  wish: { region: string; near: string | undefined; sizeGb: number },
  options: DiskOptions,
): Promise<string> {
  const beside = wish.near === undefined ? undefined : await world.findWorkload(wish.near)
  const there = beside?.nodes[0]?.hostId
  const fit = (await roomOfHosts(world, options)).find((host) => {
    const isPlace = there === undefined ? takesNew(host, wish.region) : host.id === there
    return isPlace && wish.sizeGb <= host.roomGb
  })
  if (fit === undefined) throw new Error(`No host has room for ${wish.sizeGb} GB.`)
  return fit.id
}

function takesNew({ state, offer }: KnownHost, region: string): boolean {
  return offer.offering === 'virtual-machine' && offer.region === region && state === 'ready'
}

/** Of hosts that can be heard, what is not promised yet. */
async function roomOfHosts(
  world: HostWorld,
  { clock, overcommit }: DiskOptions,
): Promise<Array<KnownHost & { readonly roomGb: number }>> {
  const promised = new Map<string, number>()
  for (const { hostId, sizeGb } of await world.listVolumes('host', '')) {
    if (hostId !== null) promised.set(hostId, (promised.get(hostId) ?? 0) + sizeGb)
  }
  const hosts = (await world.listHosts('host')).filter(({ seenAt }) => !isSilent(seenAt, clock.now()))
  return hosts.map((host) => {
    const leftGb = host.offer.hardware.storageGb * overcommit - (promised.get(host.id) ?? 0)
    return { ...host, roomGb: Math.max(0, Math.floor(leftGb)) }
  })
}

/**
 * Disks for virtual machines: files on one host, attached to running machines there. A disk is created on the host of the
 * machine that it is for, or on any virtual machine host of its region, and never moves.
 */
import { randomBytes } from 'node:crypto'
import type { Clock } from '../../base/instant.ts'
import { isSilent } from '../../domain/host.ts'
import type { EngineVolume, VolumeEngine, VolumeOutcome } from '../driver.ts'
import { pollUntil } from './until.ts'
import { lastMessageOf, type HostWorld, type KnownHost, type KnownVolume } from './world.ts'

const ID_BYTES = 8

export interface DiskOptions {
  readonly clock: Clock
  /** Overcommit factor of a host's disk. With 1 the blocks of each volume are reserved. */
  readonly overcommit: number
}

export function diskEngine(world: HostWorld, options: DiskOptions): VolumeEngine {
  return {
    serves: 'virtual-machine',
    regions: 'own',

    async roomGb(regions, signal, near) {
      signal.throwIfAborted()
      const sizes = await Promise.all(
        regions.map(async (region) => {
          const places = await placesFor(world, { region, near }, options)
          return [region, Math.max(0, ...places.map(({ roomGb }) => roomGb))] as const
        }),
      )
      return new Map(sizes)
    },
    async create(tag, { region, label, sizeGb, near }, signal): Promise<VolumeOutcome> {
      signal.throwIfAborted()
      const known = (await world.listVolumes('host', tag)).find((one) => one.tag === tag)
      const places = known === undefined ? await placesFor(world, { region, near }, options) : []
      const hostId = known?.hostId ?? places.find(({ roomGb }) => sizeGb <= roomGb)?.id
      if (hostId === undefined) {
        return { kind: 'refused', reason: 'no_storage_capacity', message: `No host has room for ${sizeGb} GB.` }
      }
      const isReserved = options.overcommit <= 1
      const order = { driver: 'host', tag, hostId, label, sizeGb, isReserved, vip: hostId } as const
      const { id, vip } = await world.addVolume({ id: `d-${randomBytes(ID_BYTES).toString('hex')}`, ...order })
      // A disk is not billed before its host has created it.
      await pollUntil('the disk was created', signal, async () => {
        const volume = await world.findVolume(id)
        if (volume !== undefined && volume.failure !== null) throw new Error(`Host ${hostId}: ${volume.failure}`)
        return volume?.present === true
      })
      return { kind: 'created', externalId: id, vip }
    },
    async destroy(externalId, signal) {
      signal.throwIfAborted()
      if (!(await world.requestVolumeDestroy(externalId))) throw new Error('The disk is attached.')
    },
    async list(tagPrefix, signal) {
      signal.throwIfAborted()
      return (await world.listVolumes('host', tagPrefix)).map(showVolume)
    },
    async attach(externalId, machineExternalId, signal) {
      signal.throwIfAborted()
      const refused = await world.wantDisk(externalId, machineExternalId)
      if (refused !== undefined) throw new Error(refused)
      await pollUntil(
        'the disk was attached',
        signal,
        async () => {
          const volume = await world.findVolume(externalId)
          return volume?.attachedTo.includes(machineExternalId) === true
        },
        () => lastMessageOf(world, machineExternalId),
      )
    },
    async detach(externalId, machineExternalId, signal) {
      signal.throwIfAborted()
      await world.unwantDisk(externalId, machineExternalId)
      await pollUntil(
        'the disk was detached',
        signal,
        async () => {
          const volume = await world.findVolume(externalId)
          return volume?.heldBy.includes(machineExternalId) !== true
        },
        () => lastMessageOf(world, machineExternalId),
      )
    },
  }
}

/** A volume being destroyed is listed until it is gone. */
export function showVolume({ id, tag, vip, attachedTo, present, failure }: KnownVolume): EngineVolume {
  if (present) return { externalId: id, tag, vip, attachedTo }
  return { externalId: id, tag, vip, attachedTo, ready: false, message: failure ?? 'The host does not list it.' }
}

/** Hosts with space: that of the machine, else those of the region, least promised first. */
async function placesFor(
  world: HostWorld,
  order: { region: string; near: string | undefined },
  options: DiskOptions,
): Promise<HostRoom[]> {
  const beside = order.near === undefined ? undefined : await world.findWorkload(order.near)
  const there = beside?.nodes[0]?.hostId
  const hosts = await roomOfHosts(world, options)
  return hosts.filter((host) => (there === undefined ? takesNew(host, order.region) : host.id === there))
}

function takesNew({ state, offer }: KnownHost, region: string): boolean {
  return offer.offering === 'virtual-machine' && offer.region === region && state === 'ready'
}

type HostRoom = KnownHost & { readonly roomGb: number }

/** Unpromised space of connected hosts. */
async function roomOfHosts(world: HostWorld, { clock, overcommit }: DiskOptions): Promise<HostRoom[]> {
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

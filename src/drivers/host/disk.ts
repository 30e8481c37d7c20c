/**
 * Volumes on the disk of one host: attached to its virtual machines as disks, mounted in its containers. A volume is
 * created on the host that it is for, or on any virtual machine host of its region, and never moves.
 */
import { randomBytes } from 'node:crypto'
import type { Clock } from '../../base/instant.ts'
import { isSilent } from '../../domain/host.ts'
import {
  CopyInProgress,
  type DriverVolume,
  type GrowOutcome,
  type Near,
  type VolumeDriver,
  type VolumeOutcome,
  type VolumeSpec,
} from '../driver.ts'
import { pollUntil, untilAttached, untilDetached } from './until.ts'
import { type HostWorld, type KnownHost, type KnownVolume } from './world.ts'

const ID_BYTES = 8

export interface DiskOptions {
  readonly clock: Clock
  /** Overcommit factor of a host's disk. With 1 the blocks of each volume are reserved. */
  readonly overcommit: number
}

export function diskDriver(world: HostWorld, options: DiskOptions): VolumeDriver {
  return {
    serves: ['virtual-machine', 'container'],
    attaches: ['virtual-machine'],
    isLocal: true,
    regions: 'own',
    copies: true,

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
    create: (tag, order, signal) => createDisk(world, options, tag, order, signal),
    grow: (externalId, sizeGb, signal) => growDisk(world, options, externalId, sizeGb, signal),
    async destroy(externalId, signal) {
      signal.throwIfAborted()
      if (!(await world.requestVolumeDestroy(externalId))) throw new Error('The disk is attached.')
    },
    async list(tagPrefix, signal) {
      signal.throwIfAborted()
      return (await world.listVolumes('host', tagPrefix)).map(showVolume)
    },
    async attach(externalId, machineExternalId, signal, mount) {
      signal.throwIfAborted()
      const refused = await world.wantDisk(externalId, machineExternalId, mount)
      if (refused !== undefined) throw new Error(refused)
      await untilAttached(world, 'the disk was attached', externalId, machineExternalId, signal)
    },
    async detach(externalId, machineExternalId, signal) {
      signal.throwIfAborted()
      await world.unwantDisk(externalId, machineExternalId)
      await untilDetached(world, 'the disk was detached', externalId, machineExternalId, signal)
    },
  }
}

async function createDisk(
  world: HostWorld,
  options: DiskOptions,
  tag: string,
  { region, label, sizeGb, near, copyOf }: VolumeSpec,
  signal: AbortSignal,
): Promise<VolumeOutcome> {
  signal.throwIfAborted()
  const existingVolume = (await world.listVolumes('host', tag)).find((one) => one.tag === tag)
  const places = existingVolume === undefined ? await placesFor(world, { region, near }, options) : []
  const hostId = existingVolume?.hostId ?? places.find(({ roomGb }) => sizeGb <= roomGb)?.id
  if (hostId === undefined) {
    return { kind: 'refused', reason: 'no_storage_capacity', message: `No host has room for ${sizeGb} GB.` }
  }
  const isReserved = options.overcommit <= 1
  const order = {
    driver: 'host',
    tag,
    hostId,
    label,
    sizeGb,
    isReserved,
    vip: hostId,
    copyOf: copyOf ?? null,
  } as const
  const { id, vip } = await world.addVolume({ id: `d-${randomBytes(ID_BYTES).toString('hex')}`, ...order })
  // A disk is not billed before its host has created it.
  await pollUntil('the disk was created', signal, async () => {
    const volume = await world.findVolume(id)
    if (volume !== undefined && volume.failure !== null) throw new Error(`Host ${hostId}: ${volume.failure}`)
    return volume?.present === true
  }).catch(async (error: unknown) => {
    // The host ends a copy that makes no progress, and reports that.
    const isCopying = copyOf !== undefined && signal.aborted && (await isConnected(world, hostId, options))
    throw isCopying ? new CopyInProgress() : error
  })
  return { kind: 'created', externalId: id, vip }
}

async function growDisk(
  world: HostWorld,
  options: DiskOptions,
  externalId: string,
  sizeGb: number,
  signal: AbortSignal,
): Promise<GrowOutcome> {
  signal.throwIfAborted()
  const existingVolume = await world.findVolume(externalId)
  if (existingVolume === undefined) return { kind: 'refused', message: 'There is no such disk.' }
  // Agents that cannot grow volumes do not report sizes.
  if (existingVolume.foundGb === null) return { kind: 'refused', message: 'The agent of its host is too old.' }
  const [place] = await placesFor(world, { region: '', near: { volume: externalId } }, options)
  if (place === undefined || sizeGb - existingVolume.sizeGb > place.roomGb) {
    return { kind: 'refused', message: `Its host has no room for ${sizeGb - existingVolume.sizeGb} GB more.` }
  }
  await world.growVolume(externalId, sizeGb)
  await pollUntil('the disk was grown', signal, async () => {
    const volume = await world.findVolume(externalId)
    if (volume !== undefined && volume.failure !== null) throw new Error(volume.failure)
    return (volume?.foundGb ?? 0) >= sizeGb
  })
  return { kind: 'grown' }
}

async function isConnected(world: HostWorld, hostId: string, { clock }: DiskOptions): Promise<boolean> {
  const host = (await world.listHosts('host')).find(({ id }) => id === hostId)
  return host !== undefined && !isSilent(host.seenAt, clock.now())
}

/** A volume being destroyed is listed until it is gone. */
export function showVolume({ id, tag, vip, attachedTo, present, failure, usedGb }: KnownVolume): DriverVolume {
  if (present) return { externalId: id, tag, vip, attachedTo, ...(usedGb === null ? {} : { usedGb }) }
  return { externalId: id, tag, vip, attachedTo, ready: false, message: failure ?? 'The host does not list it.' }
}

/** Hosts with space: the one that it is for, else those of the region. */
async function placesFor(
  world: HostWorld,
  order: { region: string; near: Near | undefined },
  options: DiskOptions,
): Promise<HostRoom[]> {
  const there = order.near === undefined ? undefined : await hostNear(world, order.near)
  const hosts = await roomOfHosts(world, options)
  return hosts.filter((host) =>
    there === undefined ? takesNew(host, order.region) : host.id === there && canHaveVolumes(host),
  )
}

/** Not every host with containers can: the agent reports it. */
function canHaveVolumes({ offer }: KnownHost): boolean {
  return offer.offering !== 'marketplace' || offer.hasPersistentStorage
}

async function hostNear(world: HostWorld, near: Near): Promise<string | undefined> {
  if ('host' in near) return near.host
  if ('volume' in near) return (await world.findVolume(near.volume))?.hostId ?? undefined
  return (await world.findWorkload(near.machine))?.nodes[0]?.hostId
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

/**
 * The state of the simulated cloud, separate from the driver: it outlives the server and is shared by several. Nothing
 * in it changes by itself. A row holds times, and its state follows from them and the clock, so a crash loses no timer.
 *
 * Each operation is atomic. Operations that can be refused return the row afterwards, which shows the outcome.
 * `memoryWorld` is for tests; store/machine/mock-world.ts is the same on PostgreSQL.
 */
import { addMs, earlier, type Instant } from '../../base/instant.ts'
import type { RentalSpec, Share } from '../../domain/rental.ts'

/** Fields of machines and volumes. */
export interface MockResource {
  readonly externalId: string
  readonly tag: string
  readonly createdAt: Instant
  /** The resource is listed from this time on. */
  readonly listedAt: Instant
  /** The resource is missing from the list in between. null: never. */
  readonly hiddenFrom: Instant | null
  readonly hiddenUntil: Instant | null
  /** The resource is gone from this time on. null: only when it is destroyed. */
  readonly goneAt: Instant | null
  /** null: no destroy call was accepted. */
  readonly destroyAskedAt: Instant | null
  /** Teardown time. */
  readonly destroyMs: number
  /** The number of destroy calls to refuse. */
  readonly destroyRefusalsLeft: number
}

export interface MockMachine extends MockResource {
  readonly spec: RentalSpec
  /** null: never. */
  readonly runningAt: Instant | null
  /** null: never. */
  readonly failedAt: Instant | null
  /** The machine is off from this time on. null: it is on. */
  readonly offAt: Instant | null
  readonly reboots: number
}

export interface MockVolume extends MockResource {
  readonly label: string
  readonly region: string
  readonly sizeGb: number
  readonly vip: string
  readonly attachRefusalsLeft: number
  /** External ids of machines that are not gone. */
  readonly attachedTo: readonly string[]
}

export interface MockWorld {
  /** Throws when the world cannot be reached. */
  check(): Promise<void>
  /** Deletes rows that were gone before then, so that the tables stay small. */
  forgetGone(before: Instant): Promise<void>

  /** Returns false if the external id is taken. */
  addMachine(machine: MockMachine): Promise<boolean>
  findMachine(externalId: string): Promise<MockMachine | undefined>
  /** Lists machines that are not gone and whose tag starts with the prefix, listed or not. */
  listMachines(tagPrefix: string, at: Instant): Promise<MockMachine[]>
  /** Uses up one refusal or starts the teardown; a repeated call does not delay it. undefined: no such machine. */
  requestMachineDestroy(externalId: string, at: Instant): Promise<MockMachine | undefined>
  /** Off from `at` on, unless it goes off sooner. undefined: no such machine. */
  turnOff(externalId: string, at: Instant): Promise<MockMachine | undefined>
  /** Turns on a machine that is off. Nothing happens if it is on or being destroyed. undefined: no such machine. */
  turnOn(externalId: string, life: PowerOn): Promise<MockMachine | undefined>
  /** Counts up to `count`. undefined: no such machine. */
  rebootMachine(externalId: string, count: number): Promise<MockMachine | undefined>
  /** Lets the machine disappear without a destroy call. */
  markMachineGone(externalId: string, at: Instant): Promise<void>

  addVolume(volume: MockVolume): Promise<boolean>
  /** False: no such volume. */
  growVolume(externalId: string, sizeGb: number): Promise<boolean>
  listVolumes(tagPrefix: string, at: Instant): Promise<MockVolume[]>
  /** Works as for machines, but an attached volume stays. */
  askVolumeDestroy(externalId: string, at: Instant): Promise<MockVolume | undefined>
  markVolumeGone(externalId: string, at: Instant): Promise<void>
  /** Uses up one refusal or attaches. undefined: no such volume or machine. */
  attachVolume(externalId: string, machineExternalId: string, at: Instant): Promise<MockVolume | undefined>
  detachVolume(externalId: string, machineExternalId: string): Promise<void>
}

/** The change to a machine that is turned on. */
export type PowerOn = Pick<MockMachine, 'runningAt' | 'failedAt'> & Share

export function isGone(resource: MockResource, at: Instant): boolean {
  return resource.goneAt !== null && resource.goneAt <= at
}

export function isListed(resource: MockResource, at: Instant): boolean {
  const isHidden =
    resource.hiddenFrom !== null &&
    resource.hiddenUntil !== null &&
    resource.hiddenFrom <= at &&
    at < resource.hiddenUntil
  return resource.listedAt <= at && !isHidden && !isGone(resource, at)
}

/** Atomic, since no operation awaits between its first read and last write. */
export function memoryWorld(): MockWorld {
  const machines = new Map<string, MockMachine>()
  const volumes = new Map<string, MockVolume>()

  const isThere = (machineId: string, at: Instant): boolean => {
    const machine = machines.get(machineId)
    return machine !== undefined && !isGone(machine, at)
  }
  const withLivingAttachments = (volume: MockVolume, at: Instant): MockVolume => ({
    ...volume,
    attachedTo: volume.attachedTo.filter((machineId) => isThere(machineId, at)),
  })

  return {
    check: async () => {},
    forgetGone: async (before) => {
      dropGone(machines, before)
      dropGone(volumes, before)
    },

    addMachine: async (machine) => addNew(machines, machine),
    findMachine: async (externalId) => machines.get(externalId),
    listMachines: async (tagPrefix, at) => living(machines, tagPrefix, at),
    requestMachineDestroy: async (externalId, at) =>
      change(machines, externalId, (machine) => requestDestroy(machine, at)),
    turnOff: async (externalId, at) =>
      change(machines, externalId, (machine) => ({ ...machine, offAt: earliest(machine.offAt, at) })),
    turnOn: async (externalId, { nodes, resources, ...times }) =>
      change(machines, externalId, (machine) => {
        if (machine.offAt === null || machine.destroyAskedAt !== null) return machine
        return { ...machine, ...times, offAt: null, spec: { ...machine.spec, nodes, resources } }
      }),
    rebootMachine: async (externalId, count) =>
      change(machines, externalId, (machine) => ({ ...machine, reboots: Math.max(machine.reboots, count) })),
    markMachineGone: async (externalId, at) => {
      change(machines, externalId, (machine) => ({ ...machine, goneAt: earliest(machine.goneAt, at) }))
    },

    addVolume: async (volume) => addNew(volumes, volume),
    growVolume: async (externalId, sizeGb) =>
      change(volumes, externalId, (volume) => ({ ...volume, sizeGb })) !== undefined,
    listVolumes: async (tagPrefix, at) =>
      living(volumes, tagPrefix, at).map((volume) => withLivingAttachments(volume, at)),
    askVolumeDestroy: async (externalId, at) =>
      change(volumes, externalId, (stored) => {
        const volume = withLivingAttachments(stored, at)
        return volume.attachedTo.length > 0 ? volume : requestDestroy(volume, at)
      }),
    markVolumeGone: async (externalId, at) => {
      change(volumes, externalId, (volume) => ({ ...volume, goneAt: earliest(volume.goneAt, at) }))
    },
    attachVolume: async (externalId, machineId, at) => {
      const volume = volumes.get(externalId)
      if (volume === undefined || isGone(volume, at) || !isThere(machineId, at)) return undefined
      return change(volumes, externalId, (volume) => attach(withLivingAttachments(volume, at), machineId))
    },
    detachVolume: async (externalId, machineId) => {
      change(volumes, externalId, (volume) => ({
        ...volume,
        attachedTo: volume.attachedTo.filter((attached) => attached !== machineId),
      }))
    },
  }
}

function addNew<T extends MockResource>(resources: Map<string, T>, resource: T): boolean {
  if (resources.has(resource.externalId)) return false
  resources.set(resource.externalId, resource)
  return true
}

function living<T extends MockResource>(resources: ReadonlyMap<string, T>, tagPrefix: string, at: Instant): T[] {
  return [...resources.values()].filter((resource) => resource.tag.startsWith(tagPrefix) && !isGone(resource, at))
}

function change<T extends MockResource>(
  resources: Map<string, T>,
  externalId: string,
  changed: (resource: T) => T,
): T | undefined {
  const resource = resources.get(externalId)
  if (resource === undefined) return undefined
  const next = changed(resource)
  resources.set(externalId, next)
  return next
}

function requestDestroy<T extends MockResource>(resource: T, at: Instant): T {
  if (resource.destroyRefusalsLeft > 0) return { ...resource, destroyRefusalsLeft: resource.destroyRefusalsLeft - 1 }
  return {
    ...resource,
    destroyAskedAt: resource.destroyAskedAt ?? at,
    goneAt: earliest(resource.goneAt, addMs(at, resource.destroyMs)),
  }
}

function attach(volume: MockVolume, machineId: string): MockVolume {
  if (volume.attachRefusalsLeft > 0) return { ...volume, attachRefusalsLeft: volume.attachRefusalsLeft - 1 }
  const others = volume.attachedTo.filter((attached) => attached !== machineId)
  return { ...volume, attachedTo: [...others, machineId] }
}

function dropGone(resources: Map<string, MockResource>, before: Instant): void {
  for (const [externalId, resource] of resources) {
    if (resource.goneAt !== null && resource.goneAt < before) resources.delete(externalId)
  }
}

function earliest(a: Instant | null, b: Instant): Instant {
  return a === null ? b : earlier(a, b)
}

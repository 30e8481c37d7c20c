/**
 * The simulated cloud's own state, apart from the driver as a real cloud is: it outlives the server, and several
 * servers work on it at once. The surprise is that nothing in it changes by itself. A row holds times, and what it is
 * at a moment follows from them and the clock, so there is no timer to lose in a crash.
 *
 * Each operation is atomic. Those that can be refused answer the row as it is afterwards, from which the outcome
 * shows. `memoryWorld` is for tests; store/mock-world.ts is the same over PostgreSQL.
 */
import { addMs, earlier, type Instant } from '../../base/instant.ts'
import type { EngineSpec } from '../../domain/rental.ts'

/** What a machine and a volume have in common. */
export interface MockThing {
  readonly externalId: string
  readonly tag: string
  readonly createdAt: Instant
  /** From when on the list shows it. */
  readonly listedAt: Instant
  /** The list leaves it out from the one to the other. null: never. */
  readonly hiddenFrom: Instant | null
  readonly hiddenUntil: Instant | null
  /** From then on it is gone. null: it stays until it is destroyed. */
  readonly goneAt: Instant | null
  /** null: nobody has asked, or every asking was refused. */
  readonly destroyAskedAt: Instant | null
  /** How long it takes to go, once asked. */
  readonly destroyMs: number
  /** How many more askings are refused. */
  readonly destroyRefusalsLeft: number
}

export interface MockMachine extends MockThing {
  readonly spec: EngineSpec
  /** null: it never comes up. */
  readonly runningAt: Instant | null
  /** null: it does not fail. */
  readonly failedAt: Instant | null
}

export interface MockVolume extends MockThing {
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
  /** Forgets what was gone before then, so that a world that is used for months stays small. */
  forgetGone(before: Instant): Promise<void>

  /** False, and nothing is added, when the external id is taken. */
  addMachine(machine: MockMachine): Promise<boolean>
  findMachine(externalId: string): Promise<MockMachine | undefined>
  /** Those whose tag begins with the prefix and that are not gone, whether or not the list shows them. */
  listMachines(tagPrefix: string, at: Instant): Promise<MockMachine[]>
  /** Uses up one refusal, or sets the end in motion; asking again does not put it off. undefined: no such machine. */
  askMachineDestroy(externalId: string, at: Instant): Promise<MockMachine | undefined>
  /** It is gone without anybody having asked. */
  markMachineGone(externalId: string, at: Instant): Promise<void>

  addVolume(volume: MockVolume): Promise<boolean>
  listVolumes(tagPrefix: string, at: Instant): Promise<MockVolume[]>
  /** As with machines; in addition an attached volume stays as it is. */
  askVolumeDestroy(externalId: string, at: Instant): Promise<MockVolume | undefined>
  markVolumeGone(externalId: string, at: Instant): Promise<void>
  /** Uses up one refusal, or attaches. undefined: one of the two is not there. */
  attachVolume(externalId: string, machineExternalId: string, at: Instant): Promise<MockVolume | undefined>
  detachVolume(externalId: string, machineExternalId: string): Promise<void>
}

export function isGone(thing: MockThing, at: Instant): boolean {
  return thing.goneAt !== null && thing.goneAt <= at
}

export function isListed(thing: MockThing, at: Instant): boolean {
  const isHidden =
    thing.hiddenFrom !== null && thing.hiddenUntil !== null && thing.hiddenFrom <= at && at < thing.hiddenUntil
  return thing.listedAt <= at && !isHidden && !isGone(thing, at)
}

/** Atomic because no operation waits for anything between its first look and its last write. */
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
    askMachineDestroy: async (externalId, at) => change(machines, externalId, (machine) => askDestroy(machine, at)),
    markMachineGone: async (externalId, at) => {
      change(machines, externalId, (machine) => ({ ...machine, goneAt: earliest(machine.goneAt, at) }))
    },

    addVolume: async (volume) => addNew(volumes, volume),
    listVolumes: async (tagPrefix, at) =>
      living(volumes, tagPrefix, at).map((volume) => withLivingAttachments(volume, at)),
    askVolumeDestroy: async (externalId, at) =>
      change(volumes, externalId, (stored) => {
        const volume = withLivingAttachments(stored, at)
        return volume.attachedTo.length > 0 ? volume : askDestroy(volume, at)
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

function addNew<T extends MockThing>(things: Map<string, T>, thing: T): boolean {
  if (things.has(thing.externalId)) return false
  things.set(thing.externalId, thing)
  return true
}

function living<T extends MockThing>(things: ReadonlyMap<string, T>, tagPrefix: string, at: Instant): T[] {
  return [...things.values()].filter((thing) => thing.tag.startsWith(tagPrefix) && !isGone(thing, at))
}

function change<T extends MockThing>(
  things: Map<string, T>,
  externalId: string,
  changed: (thing: T) => T,
): T | undefined {
  const thing = things.get(externalId)
  if (thing === undefined) return undefined
  const next = changed(thing)
  things.set(externalId, next)
  return next
}

function askDestroy<T extends MockThing>(thing: T, at: Instant): T {
  if (thing.destroyRefusalsLeft > 0) return { ...thing, destroyRefusalsLeft: thing.destroyRefusalsLeft - 1 }
  return {
    ...thing,
    destroyAskedAt: thing.destroyAskedAt ?? at,
    goneAt: earliest(thing.goneAt, addMs(at, thing.destroyMs)),
  }
}

function attach(volume: MockVolume, machineId: string): MockVolume {
  if (volume.attachRefusalsLeft > 0) return { ...volume, attachRefusalsLeft: volume.attachRefusalsLeft - 1 }
  const others = volume.attachedTo.filter((attached) => attached !== machineId)
  return { ...volume, attachedTo: [...others, machineId] }
}

function dropGone(things: Map<string, MockThing>, before: Instant): void {
  for (const [externalId, thing] of things) {
    if (thing.goneAt !== null && thing.goneAt < before) things.delete(externalId)
  }
}

function earliest(a: Instant | null, b: Instant): Instant {
  return a === null ? b : earlier(a, b)
}

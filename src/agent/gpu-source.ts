/**
 * The GPUs of this machine in a stable order: tenants refer to them by index. A GPU that the driver no longer lists
 * keeps its index and counts as unhealthy, so no index ever changes its meaning. The known GPUs are in the agent's
 * folder (`gpus.json`); a GPU that was replaced in its slot takes over the index. To forget GPUs that were removed for
 * good, stop the agent and delete that file.
 *
 * Simulated GPUs are declared and have no measurements. For drills the file `sick.json` in the folder, such as `[0, 3]`,
 * gives some a fatal fault, and `use.json`, such as `[{ "utilizationPercent": 0 }]`, says by index what they measure.
 */
import { z } from 'zod'
import { systemClock } from '../base/instant.ts'
import type { HostReport } from '../contract/agent.ts'
import type { AgentFolder } from './folder.ts'
import { GpuFaults } from './gpu-faults.ts'
import { shortAddress } from './gpu-health.ts'
import { simulatedModel, simulatedModelNames } from '../domain/gpu-model.ts'
import { SLOWED_DOWN, Slowdowns } from './gpu-slowdown.ts'
import type { Gpu, GpuListing, GpuReading, GpuUse } from './gpu-listing.ts'

/** All GPUs at one moment, by index. */
export interface GpuSnapshot {
  readonly gpus: readonly GpuReading[]
  readonly simulated: boolean
  readonly driver?: string
  readonly cuda?: string
  /** Notes for the machine's owner: problems, GPUs that were left out, why there are none. */
  readonly notes: readonly string[]
}

export interface GpuSource {
  read(signal?: AbortSignal): Promise<GpuSnapshot>
  /** The last snapshot with the faults that are new since: the driver may take long to answer about a broken GPU. */
  readFaults?(): GpuSnapshot | undefined
  /** Resets a broken GPU that is not in `occupied`, beside the readings: its test may take minutes. Done once per boot. */
  repair?(occupied: ReadonlySet<number>, signal: AbortSignal): void
  close(): void
}

const KNOWN_FILE = 'gpus.json'
const SICK_FILE = 'sick.json'
const USE_FILE = 'use.json'
const MAX_GPUS = 64

const knownGpus = z.array(
  z.object({
    uuid: z.string(),
    name: z.string(),
    ramMib: z.number(),
    clockMhz: z.number(),
    interface: z.string(),
    pciAddress: z.string(),
  }),
)
const sickIndexes = z.array(z.int().min(0))
const declaredUse = z.array(
  z.object({
    utilizationPercent: z.number().nullable().default(null),
    memoryUsedMib: z.number().nullable().default(null),
    memoryTotalMib: z.number().nullable().default(null),
    powerWatts: z.number().nullable().default(null),
    temperatureCelsius: z.number().nullable().default(null),
  }),
)

export interface RealGpuOptions {
  readonly list: (signal?: AbortSignal) => Promise<GpuListing>
  /** Returns why the GPU still does not work. Absent: GPUs cannot be reset. */
  readonly reset?: (uuid: string, signal: AbortSignal) => Promise<string | undefined>
  /** undefined: known GPUs are not stored. */
  readonly folder?: AgentFolder
  readonly kernelLog?: string
  /** Identifies the time since the machine booted. */
  readonly boot?: string
}

export function realGpus(options: RealGpuOptions): GpuSource {
  const { list, folder } = options
  const faults = new GpuFaults(folder, options.kernelLog, options.boot)
  const slowdowns = new Slowdowns()
  let earlierGpus: readonly Gpu[] = folder?.readJson(KNOWN_FILE, knownGpus) ?? []
  let last: Placed | undefined
  const failures = new Map<string, string>()
  let isResetting = false
  const repair = async (occupied: ReadonlySet<number>, signal: AbortSignal): Promise<void> => {
    const broken = last?.gpus.find(({ gpu }, index) => {
      const address = shortAddress(gpu.pciAddress)
      const isBroken = faults.at(address) !== undefined || last?.listing.toRecover?.has(gpu.uuid) === true
      // A reset would remove the instances of a GPU that is split.
      return isBroken && !occupied.has(index) && !faults.wasReset(address) && !gpu.uuid.startsWith('MIG-')
    })
    if (broken === undefined || options.reset === undefined || isResetting) return
    isResetting = true
    const { uuid, pciAddress } = broken.gpu
    faults.noteReset(shortAddress(pciAddress))
    const failure = await options.reset(uuid, signal).catch(String)
    if (failure === undefined) faults.clear(shortAddress(pciAddress))
    else failures.set(uuid, failure)
    isResetting = false
  }
  return {
    read: async (signal) => {
      const listing = await list(signal)
      faults.look()
      const gpusOf = (uuids: ReadonlySet<string> = new Set()) =>
        listing.gpus.flatMap(({ gpu }) => (uuids.has(gpu.uuid) ? [gpu] : []))
      faults.confirm(new Set(gpusOf(listing.toRecover).map(({ pciAddress }) => shortAddress(pciAddress))))
      slowdowns.note(gpusOf(listing.slowedDown).map(({ uuid }) => uuid))
      const { gpus, leftOut } = placeGpus(earlierGpus, listing)
      const now = gpus.map((one) => one.gpu)
      if (JSON.stringify(now) !== JSON.stringify(earlierGpus)) folder?.writeJson(KNOWN_FILE, now)
      earlierGpus = now
      const checked = gpus.map((one) => {
        const { uuid } = one.gpu
        const failure = failures.get(uuid)
        const isBroken = one.problems.length > 0 || faults.at(shortAddress(one.gpu.pciAddress)) !== undefined
        const reset = failure === undefined || !isBroken ? one : withProblem(one, failure)
        return slowdowns.isOften(uuid) ? withProblem(reset, SLOWED_DOWN) : reset
      })
      last = { gpus: checked, listing, leftOut }
      return snapshotOf(last, faults)
    },
    readFaults: () => (faults.look() && last !== undefined ? snapshotOf(last, faults) : undefined),
    repair: (occupied, signal) => void repair(occupied, signal),
    close: () => faults.close(),
  }
}

/** GPUs at their index, before faults. */
interface Placed {
  readonly gpus: readonly GpuReading[]
  readonly listing: GpuListing
  readonly leftOut: readonly string[]
}

function snapshotOf({ gpus, listing, leftOut }: Placed, faults: GpuFaults): GpuSnapshot {
  const checked = gpus.map((one) => {
    const fault = faults.at(shortAddress(one.gpu.pciAddress))
    return fault === undefined ? one : withFault(one, { at: fault.at, message: fault.sentence })
  })
  const reason = listing.reason === undefined ? [] : [listing.reason]
  return {
    gpus: checked,
    simulated: false,
    ...(listing.driver === undefined ? {} : { driver: listing.driver }),
    ...(listing.cuda === undefined ? {} : { cuda: listing.cuda }),
    notes: [...reason, ...(listing.notes ?? []), ...checked.flatMap(describeProblems), ...leftOut],
  }
}

const unknownUse: GpuUse = {
  utilizationPercent: null,
  memoryUsedMib: null,
  memoryTotalMib: null,
  powerWatts: null,
  temperatureCelsius: null,
}

/** Known GPUs at their index, then new ones. */
function placeGpus(
  earlierGpus: readonly Gpu[],
  listing: GpuListing,
): { gpus: readonly GpuReading[]; leftOut: readonly string[] } {
  const fresh = new Map(listing.gpus.map((one) => [one.gpu.uuid, one]))
  const present = earlierGpus.map((gpu) => {
    const reading = fresh.get(gpu.uuid)
    fresh.delete(gpu.uuid)
    return { gpu, reading }
  })
  const name = earlierGpus[0]?.name ?? mostCommonName(listing.gpus)
  const placed = present.map(({ gpu, reading }): GpuReading => {
    // An unhealthy GPU may report nonsense about itself: keep the facts from when it was healthy.
    if (reading !== undefined) return reading.problems.length > 0 ? { ...reading, gpu } : reading
    const successor = [...fresh.values()].find(
      (one) => one.gpu.name === name && one.gpu.pciAddress === gpu.pciAddress && gpu.pciAddress !== '',
    )
    if (successor === undefined) return { gpu, use: unknownUse, problems: ['no longer listed by the driver'] }
    fresh.delete(successor.gpu.uuid)
    return successor
  })
  const added = [...fresh.values()].filter((one) => one.gpu.name === name).slice(0, MAX_GPUS - placed.length)
  const others = [...fresh.values()].filter((one) => !added.includes(one))
  const leftOut = others.map(
    ({ gpu }) =>
      `${gpu.name} (${gpu.uuid}) is not offered: all GPUs of a machine must be the same model, here ${name}.`,
  )
  return { gpus: [...placed, ...added], leftOut }
}

function mostCommonName(gpus: readonly GpuReading[]): string {
  const counts = new Map<string, number>()
  for (const { gpu } of gpus) counts.set(gpu.name, (counts.get(gpu.name) ?? 0) + 1)
  return [...counts].toSorted((a, b) => b[1] - a[1])[0]?.[0] ?? ''
}

/** The broken GPUs as a report has them. */
export function faultsOf({ gpus }: GpuSnapshot): NonNullable<HostReport['gpuFaults']> {
  return gpus.flatMap(({ fault }, index) => (fault === undefined ? [] : [{ index, ...fault }]))
}

function withProblem(reading: GpuReading, problem: string): GpuReading {
  return { ...reading, problems: [...reading.problems, problem] }
}

function withFault(reading: GpuReading, fault: NonNullable<GpuReading['fault']>): GpuReading {
  return { ...withProblem(reading, fault.message), fault }
}

function describeProblems({ gpu, problems }: GpuReading, index: number): string[] {
  return problems.length === 0
    ? []
    : [`GPU ${index} (${gpu.uuid}) is unhealthy and not offered: ${problems.join('; ')}.`]
}

export interface SimulatedGpus {
  readonly word: string
  readonly count: number
}

/** `rtx4090:2`: two of them. Throws a sentence for the user when the text is invalid. */
export function parseSimulated(text: string): SimulatedGpus {
  const [, word = '', digits = '1'] = /^([a-z0-9]+)(?::(\d{1,3}))?$/.exec(text) ?? []
  const count = Number.parseInt(digits, 10)
  if (simulatedModel(word) === undefined || count < 1 || count > MAX_GPUS) {
    throw new Error(
      `Use MODEL:COUNT, such as h100:8, with at most ${MAX_GPUS} GPUs. Models: ${simulatedModelNames.join(', ')}.`,
    )
  }
  return { word, count }
}

export function simulatedGpus({ word, count }: SimulatedGpus, folder?: AgentFolder): GpuSource {
  const model = simulatedModel(word)
  if (model === undefined) throw new Error(`Unknown GPU model to simulate: ${word}.`)
  const gpus = Array.from({ length: count }, (_, index): Gpu => {
    const number = index.toString(16).padStart(2, '0')
    return {
      uuid: `GPU-sim-${word}-${number}`,
      name: model.name,
      ramMib: model.ramMib,
      clockMhz: model.clockMhz,
      interface: model.interface,
      pciAddress: `00000000:${number}:00.0`,
    }
  })
  const sickSince = new Map<number, number>()
  return {
    read: async () => {
      const sick = new Set(folder?.readJson(SICK_FILE, sickIndexes))
      for (const index of sickSince.keys()) if (!sick.has(index)) sickSince.delete(index)
      for (const index of sick) sickSince.set(index, sickSince.get(index) ?? systemClock.now())
      const uses = folder?.readJson(USE_FILE, declaredUse) ?? []
      const readings = gpus.map((gpu, index): GpuReading => {
        const at = sickSince.get(index)
        const reading = { gpu, use: uses[index] ?? unknownUse, problems: [] }
        return at === undefined ? reading : withFault(reading, { at, message: `listed in ${SICK_FILE} for a drill` })
      })
      const declared = `${count} simulated GPUs, declared with --simulate-gpus; no such hardware exists.`
      return { gpus: readings, simulated: true, notes: [declared, ...readings.flatMap(describeProblems)] }
    },
    close: () => {},
  }
}

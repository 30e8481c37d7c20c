/**
 * The GPUs of this machine in an order that stays: tenants hold them by their index. A GPU that was here once and is no
 * longer listed keeps its place and is sick, so that no index ever means another device. Which ones there were is kept
 * in the agent's folder (`gpus.json`); one that was replaced in its slot takes the place of the old one. To forget GPUs
 * that were taken out for good, stop the agent and remove that file.
 *
 * Simulated ones are declared, not found. For drills one is made sick by the file `sick.json` in the folder, such as
 * `[0, 3]`; without the file all are well.
 */
import { z } from 'zod'
import type { AgentFolder } from './folder.ts'
import { shortAddress, xidsInLog } from './gpu-health.ts'
import { modelByWord, simulatedWords } from './gpu-model.ts'
import { openKernelLog } from './kernel-log.ts'
import { listGpus, type Gpu, type GpuListing, type GpuReading, type GpuUse } from './nvidia-smi.ts'

/** All GPUs at one moment; the index of one is its place in the list. */
export interface GpuSight {
  readonly gpus: readonly GpuReading[]
  readonly simulated: boolean
  readonly driver?: string
  readonly cuda?: string
  /** For the machine's owner: what is wrong with which, what was left out, why there are none. */
  readonly notes: readonly string[]
}

export interface GpuSource {
  look(signal?: AbortSignal): Promise<GpuSight>
  close(): void
}

const ROLL_FILE = 'gpus.json'
const SICK_FILE = 'sick.json'
const MAX_GPUS = 64

const roll = z.array(
  z.object({
    uuid: z.string(),
    name: z.string(),
    ramMib: z.number(),
    clockMhz: z.number(),
    interface: z.string(),
    pciAddress: z.string(),
    minor: z.number().nullable(),
  }),
)
const sickIndexes = z.array(z.int().min(0))

export interface RealGpuOptions {
  /** `nvidia-smi`, or where it is. */
  readonly program: string
  /** undefined: nothing is remembered. */
  readonly folder?: AgentFolder
  readonly kernelLog?: string
}

export function realGpus(options: RealGpuOptions): GpuSource {
  const { program, folder } = options
  const log = openKernelLog(options.kernelLog)
  const xids = new Map<string, string>()
  let known: readonly Gpu[] = folder?.readJson(ROLL_FILE, roll) ?? []
  return {
    look: async (signal) => {
      const listing = await listGpus(program, signal)
      for (const [address, sentence] of xidsInLog(log.read())) xids.set(address, sentence)
      const { gpus, leftOut } = callRoll(known, listing)
      const now = gpus.map((one) => one.gpu)
      if (JSON.stringify(now) !== JSON.stringify(known)) folder?.writeJson(ROLL_FILE, now)
      known = now
      const checked = gpus.map((one) => withXid(one, xids.get(shortAddress(one.gpu.pciAddress))))
      const reason = listing.reason === undefined ? [] : [listing.reason]
      return {
        gpus: checked,
        simulated: false,
        ...(listing.driver === undefined ? {} : { driver: listing.driver }),
        ...(listing.cuda === undefined ? {} : { cuda: listing.cuda }),
        notes: [...reason, ...checked.flatMap(sicknessOf), ...leftOut],
      }
    },
    close: () => log.close(),
  }
}

const unknownUse: GpuUse = {
  utilizationPercent: null,
  memoryUsedMib: null,
  memoryTotalMib: null,
  powerWatts: null,
  temperatureCelsius: null,
}

/** Those that were here before in their places, then those that are new. */
function callRoll(
  known: readonly Gpu[],
  listing: GpuListing,
): { gpus: readonly GpuReading[]; leftOut: readonly string[] } {
  const fresh = new Map(listing.gpus.map((one) => [one.gpu.uuid, one]))
  const present = known.map((gpu) => {
    const reading = fresh.get(gpu.uuid)
    fresh.delete(gpu.uuid)
    return { gpu, reading }
  })
  const name = known[0]?.name ?? commonestName(listing.gpus)
  const placed = present.map(({ gpu, reading }): GpuReading => {
    // What an ailing one says of itself may be nonsense: what it said in better days stands.
    if (reading !== undefined) return reading.ailments.length > 0 ? { ...reading, gpu } : reading
    const successor = [...fresh.values()].find(
      (one) => one.gpu.name === name && one.gpu.pciAddress === gpu.pciAddress && gpu.pciAddress !== '',
    )
    if (successor === undefined) return { gpu, use: unknownUse, ailments: ['it is no longer listed by its driver'] }
    fresh.delete(successor.gpu.uuid)
    return successor
  })
  const added = [...fresh.values()].filter((one) => one.gpu.name === name).slice(0, MAX_GPUS - placed.length)
  const others = [...fresh.values()].filter((one) => !added.includes(one))
  const leftOut = others.map(
    ({ gpu }) => `${gpu.name} (${gpu.uuid}) is not offered: a machine is sold with GPUs of one model, here ${name}.`,
  )
  return { gpus: [...placed, ...added], leftOut }
}

function commonestName(gpus: readonly GpuReading[]): string {
  const counts = new Map<string, number>()
  for (const { gpu } of gpus) counts.set(gpu.name, (counts.get(gpu.name) ?? 0) + 1)
  return [...counts].toSorted((a, b) => b[1] - a[1])[0]?.[0] ?? ''
}

function withXid(reading: GpuReading, sentence: string | undefined): GpuReading {
  return sentence === undefined ? reading : { ...reading, ailments: [...reading.ailments, sentence] }
}

function sicknessOf({ gpu, ailments }: GpuReading, index: number): string[] {
  return ailments.length === 0 ? [] : [`GPU ${index} (${gpu.uuid}) is not for sale: ${ailments.join('; ')}.`]
}

export interface SimulatedGpus {
  readonly word: string
  readonly count: number
}

/** `rtx4090:2` is two of them. Throws a sentence for what it cannot be. */
export function parseSimulated(text: string): SimulatedGpus {
  const [, word = '', digits = '1'] = /^([a-z0-9]+)(?::(\d{1,3}))?$/.exec(text) ?? []
  const count = Number.parseInt(digits, 10)
  if (modelByWord(word) === undefined || count < 1 || count > MAX_GPUS) {
    throw new Error(`Write MODEL:COUNT, such as h100:8; models: ${simulatedWords.join(', ')}; ${MAX_GPUS} at most.`)
  }
  return { word, count }
}

export function simulatedGpus({ word, count }: SimulatedGpus, folder?: AgentFolder): GpuSource {
  const model = modelByWord(word)
  if (model === undefined) throw new Error(`There is no ${word} to simulate.`)
  const gpus = Array.from({ length: count }, (_, index): Gpu => {
    const number = index.toString(16).padStart(2, '0')
    return {
      uuid: `GPU-sim-${word}-${number}`,
      name: model.name,
      ramMib: model.ramMib,
      clockMhz: model.clockMhz,
      interface: model.interface,
      pciAddress: `00000000:${number}:00.0`,
      minor: null,
    }
  })
  return {
    look: async () => {
      const sick = new Set(folder?.readJson(SICK_FILE, sickIndexes))
      const readings = gpus.map((gpu, index): GpuReading => {
        return { gpu, use: unknownUse, ailments: sick.has(index) ? [`${SICK_FILE} names it, for a drill`] : [] }
      })
      const declared = `Its ${count} GPUs are simulated: declared with --simulate-gpus, and no such device is there.`
      return { gpus: readings, simulated: true, notes: [declared, ...readings.flatMap(sicknessOf)] }
    },
    close: () => {},
  }
}

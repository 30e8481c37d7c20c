/** The GPUs that the driver lists. A machine without `nvidia-smi` has none, with the reason; that is never an error. */
import { findProblems, isSlowedDown, needsRecovery } from './gpu-health.ts'
import { modelNamed } from '../domain/gpu-model.ts'
import type { MigInstance } from './mig-instance.ts'
import { isSplit, readReport, runNvidiaSmi, type GpuFields } from './nvidia-smi.ts'

export interface Gpu {
  readonly uuid: string
  /** The driver's name for it: `NVIDIA H200`. */
  readonly name: string
  readonly ramMib: number
  readonly clockMhz: number
  /** `SXM5`, `PCIe 5.0 x16`. */
  readonly interface: string
  /** `00000000:00:06.0`. */
  readonly pciAddress: string
}

export interface GpuUse {
  readonly utilizationPercent: number | null
  readonly memoryUsedMib: number | null
  readonly memoryTotalMib: number | null
  readonly powerWatts: number | null
  readonly temperatureCelsius: number | null
}

export interface GpuReading {
  readonly gpu: Gpu
  readonly use: GpuUse
  /** Problems, one phrase each; empty for a healthy GPU. */
  readonly problems: readonly string[]
  /** The kernel log shows it to be broken, or a drill: since when, in milliseconds since 1970, and why. */
  readonly fault?: { readonly at: number; readonly message: string }
}

export interface GpuListing {
  /** The instances of a GPU that is split, in place of that GPU. */
  readonly gpus: readonly GpuReading[]
  readonly driver?: string
  readonly cuda?: string
  /** The reason why there are no GPUs. */
  readonly reason?: string
  /** UUIDs of the GPUs for which the driver asks for a recovery action, and of those that the hardware slows down. */
  readonly toRecover?: ReadonlySet<string>
  readonly slowedDown?: ReadonlySet<string>
  /** Sentences about GPUs that are split into no instances. */
  readonly notes?: readonly string[]
}

export async function listGpus(program: string, signal?: AbortSignal): Promise<GpuListing> {
  const output = await runNvidiaSmi(program, signal)
  if ('reason' in output) return { gpus: [], reason: output.reason }
  return readListing(output.rows, output.report, output.instances)
}

function readListing(rows: readonly GpuFields[], reportText: string, instances: readonly MigInstance[]): GpuListing {
  const { cuda, flags } = readReport(reportText)
  const driver = rows.map((row) => known(row.driver_version)).find((version) => version !== undefined)
  const listed = rows.map((row) => {
    const gpu = readGpu(row, flags.get(row['pci.bus_id']?.toLowerCase() ?? '') ?? new Set())
    const rowInstances = instances.filter(({ gpuUuid }) => gpuUuid === row.uuid)
    return { row, gpus: isSplit(row) ? rowInstances.map((instance) => readInstance(gpu, instance)) : [gpu] }
  })
  const uuidsWith = (has: (row: GpuFields) => boolean): Set<string> =>
    new Set(listed.filter(({ row }) => has(row)).flatMap(({ gpus }) => gpus.map(({ gpu }) => gpu.uuid)))
  return {
    gpus: listed.flatMap(({ gpus }) => gpus),
    ...(driver === undefined ? {} : { driver }),
    ...(cuda === undefined ? {} : { cuda }),
    ...(rows.length === 0 ? { reason: 'The NVIDIA driver lists no GPU.' } : {}),
    toRecover: uuidsWith(needsRecovery),
    slowedDown: uuidsWith(isSlowedDown),
    notes: listed
      .filter(({ gpus }) => gpus.length === 0)
      .map(({ row }) => `${row.name} (${row.uuid}) has MIG on and no instances. Create some with nvidia-smi mig -cgi.`),
  }
}

/** The facts of the whole GPU, its faults above all, are those of each instance. */
function readInstance(whole: GpuReading, instance: MigInstance): GpuReading {
  const { uuid, profile, memoryTotalMib, memoryUsedMib } = instance
  const name = `${whole.gpu.name} MIG ${profile}`
  const ramMib = positive(memoryTotalMib) ?? modelNamed(name)?.ramMib ?? 1
  return {
    ...whole,
    gpu: { ...whole.gpu, uuid, name, ramMib },
    use: { ...whole.use, utilizationPercent: null, memoryUsedMib, memoryTotalMib },
  }
}

function readGpu(row: GpuFields, flags: ReadonlySet<string>): GpuReading {
  const name = known(row.name) ?? 'NVIDIA GPU'
  const model = modelNamed(name)
  const totalMib = amount(row['memory.total'])
  return {
    gpu: {
      uuid: row.uuid ?? '',
      name,
      ramMib: positive(totalMib) ?? model?.ramMib ?? 1,
      clockMhz: positive(amount(row['clocks.max.graphics'])) ?? model?.clockMhz ?? 1,
      interface: interfaceOf(row, name),
      pciAddress: known(row['pci.bus_id']) ?? '',
    },
    use: {
      utilizationPercent: amount(row['utilization.gpu']),
      memoryUsedMib: amount(row['memory.used']),
      memoryTotalMib: totalMib,
      powerWatts: amount(row['power.draw']),
      temperatureCelsius: amount(row['temperature.gpu']),
    },
    problems: findProblems(row, flags),
  }
}

/** The link's maximum, not its current speed: an idle link is slowed down. */
function interfaceOf(row: GpuFields, name: string): string {
  const model = modelNamed(name)
  if (model !== undefined && model.interface.startsWith('SXM')) return model.interface
  const socket = /\bSXM\d*/.exec(name)?.[0]
  if (socket !== undefined) return socket
  const generation = amount(row['pcie.link.gen.max'])
  const width = amount(row['pcie.link.width.max'])
  if (generation !== null && width !== null) return `PCIe ${generation}.0 x${width}`
  return model?.interface ?? 'PCIe'
}

/** null for `[N/A]`, `[Not Supported]`, `ERR!` and the like. */
function amount(text: string | undefined): number | null {
  return text !== undefined && /^-?\d{1,9}(\.\d+)?$/.test(text) ? Number.parseFloat(text) : null
}

/** A broken device may report a clock or a memory of zero, and the server refuses such an offer. */
function positive(value: number | null): number | null {
  return value !== null && value > 0 ? value : null
}

function known(text: string | undefined): string | undefined {
  return text === undefined || text === '' || /^\[|^(N\/A|ERR!|GPU is lost|Unknown Error)/i.test(text)
    ? undefined
    : text.slice(0, 100)
}

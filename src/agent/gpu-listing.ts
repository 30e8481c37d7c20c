/** The GPUs that the driver lists. A machine without `nvidia-smi` has none, with the reason; that is never an error. */
import { findProblems, isSlowedDown, needsRecovery } from './gpu-health.ts'
import { modelNamed } from '../domain/gpu-model.ts'
import { readReport, runNvidiaSmi, type GpuFields } from './nvidia-smi.ts'

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
  /** One phrase each; empty for a healthy GPU. */
  readonly problems: readonly string[]
  /** The kernel log shows it to be broken, or a drill: since when, in milliseconds since 1970, and why. */
  readonly fault?: { readonly at: number; readonly message: string }
}

export interface GpuListing {
  readonly gpus: readonly GpuReading[]
  readonly driver?: string
  readonly cuda?: string
  /** The reason why there are no GPUs. */
  readonly reason?: string
  /** UUIDs of the GPUs for which the driver asks for a recovery action, and of those that the hardware slows down. */
  readonly toRecover?: ReadonlySet<string>
  readonly slowedDown?: ReadonlySet<string>
}

export async function listGpus(program: string, signal?: AbortSignal): Promise<GpuListing> {
  const output = await runNvidiaSmi(program, signal)
  return 'reason' in output ? { gpus: [], reason: output.reason } : readListing(output.rows, output.report)
}

function readListing(rows: readonly GpuFields[], reportText: string): GpuListing {
  const { cuda, flags } = readReport(reportText)
  const driver = rows.map((row) => known(row.driver_version)).find((version) => version !== undefined)
  return {
    gpus: rows.map((row) => readGpu(row, flags.get(row['pci.bus_id']?.toLowerCase() ?? '') ?? new Set())),
    ...(driver === undefined ? {} : { driver }),
    ...(cuda === undefined ? {} : { cuda }),
    ...(rows.length === 0 ? { reason: 'The NVIDIA driver lists no GPU.' } : {}),
    toRecover: uuidsWith(rows, needsRecovery),
    slowedDown: uuidsWith(rows, isSlowedDown),
  }
}

function uuidsWith(rows: readonly GpuFields[], has: (row: GpuFields) => boolean): Set<string> {
  return new Set(rows.filter(has).flatMap(({ uuid }) => uuid ?? []))
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

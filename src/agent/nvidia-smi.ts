/** GPUs as `nvidia-smi -q -x` describes them. A machine without it has none, with the reason; that is never an error. */
import { execFile } from 'node:child_process'
import { ailmentsOf } from './gpu-health.ts'
import { modelNamed } from './gpu-model.ts'
import { findElement, parseXml, type XmlElement } from './xml.ts'

export interface Gpu {
  readonly uuid: string
  /** As the driver names it: `NVIDIA H200`. */
  readonly name: string
  readonly ramMib: number
  readonly clockMhz: number
  /** `SXM5`, `PCIe 5.0 x16`. */
  readonly interface: string
  /** `00000000:00:06.0`. */
  readonly pciAddress: string
  /** The number in `/dev/nvidia<minor>`. null: the driver does not say. */
  readonly minor: number | null
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
  /** What is wrong with it, in sentences; none: it is well. */
  readonly ailments: readonly string[]
}

export interface GpuListing {
  readonly gpus: readonly GpuReading[]
  readonly driver?: string
  readonly cuda?: string
  /** Why there are none. */
  readonly reason?: string
}

/** A driver that hangs on a lost device takes this long at most. */
const TIMEOUT_MS = 30_000
const MAX_OUTPUT_BYTES = 8 * 1_048_576

export async function listGpus(program: string, signal?: AbortSignal): Promise<GpuListing> {
  const answer = await ask(program, signal)
  if ('reason' in answer) return { gpus: [], reason: answer.reason }
  try {
    return readListing(answer.text)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return { gpus: [], reason: `What ${program} printed cannot be read: ${why}.` }
  }
}

function ask(program: string, signal: AbortSignal | undefined): Promise<{ text: string } | { reason: string }> {
  const options = {
    timeout: TIMEOUT_MS,
    killSignal: 'SIGKILL',
    maxBuffer: MAX_OUTPUT_BYTES,
    encoding: 'utf8',
    ...(signal === undefined ? {} : { signal }),
  } as const
  return new Promise((resolve) => {
    execFile(program, ['-q', '-x'], options, (error, text) => {
      if (error === null) return resolve({ text })
      if (error.code === 'ENOENT') return resolve({ reason: `There is no ${program} on this machine.` })
      // With one lost device among several it fails and describes the others all the same.
      if (text.includes('</gpu>')) return resolve({ text })
      const said = text.trim().split('\n')[0]?.slice(0, 200) ?? ''
      const how = error.killed === true ? `has not answered within ${TIMEOUT_MS / 1_000} s` : 'has failed'
      resolve({ reason: `${program} ${how}${said === '' ? '' : `: ${said}`}.` })
    })
  })
}

export function readListing(text: string): GpuListing {
  const log = parseXml(text)
  const driver = known(log, 'driver_version')
  const cuda = known(log, 'cuda_version')
  const gpus = log.children.filter((one) => one.name === 'gpu').flatMap((one) => readGpu(one) ?? [])
  return {
    gpus,
    ...(driver === undefined ? {} : { driver }),
    ...(cuda === undefined ? {} : { cuda }),
    ...(gpus.length === 0 ? { reason: 'The driver shows no GPU.' } : {}),
  }
}

/** undefined: not even its uuid can be read. It is missed from the roll, and counts as lost. */
function readGpu(element: XmlElement): GpuReading | undefined {
  const uuid = known(element, 'uuid')
  if (uuid === undefined || !/^[\w-]{1,100}$/.test(uuid)) return undefined
  const name = known(element, 'product_name') ?? 'NVIDIA GPU'
  const model = modelNamed(name)
  return {
    gpu: {
      uuid,
      name,
      ramMib: amount(element, 'fb_memory_usage', 'total') ?? model?.ramMib ?? 1,
      clockMhz: amount(element, 'max_clocks', 'graphics_clock') ?? model?.clockMhz ?? 1,
      interface: interfaceOf(element, name),
      pciAddress: known(element, 'pci', 'pci_bus_id') ?? element.attributes['id'] ?? '',
      minor: amount(element, 'minor_number'),
    },
    use: {
      utilizationPercent: amount(element, 'utilization', 'gpu_util'),
      memoryUsedMib: amount(element, 'fb_memory_usage', 'used'),
      memoryTotalMib: amount(element, 'fb_memory_usage', 'total'),
      powerWatts: powerOf(element),
      temperatureCelsius: amount(element, 'temperature', 'gpu_temp'),
    },
    ailments: ailmentsOf(element),
  }
}

/** What the link can do, not what it does now: an idle one is slowed down. */
function interfaceOf(element: XmlElement, name: string): string {
  const model = modelNamed(name)
  if (model !== undefined && model.interface.startsWith('SXM')) return model.interface
  const socket = /\bSXM\d*/.exec(name)?.[0]
  if (socket !== undefined) return socket
  const generation = amount(element, 'pci', 'pci_gpu_link_info', 'pcie_gen', 'max_link_gen')
  const width = amount(element, 'pci', 'pci_gpu_link_info', 'link_widths', 'max_link_width')
  if (generation !== null && width !== null) return `PCIe ${generation}.0 x${width}`
  return model?.interface ?? 'PCIe'
}

/** Drivers before 530 say `power_readings/power_draw`. */
function powerOf(element: XmlElement): number | null {
  return (
    amount(element, 'gpu_power_readings', 'average_power_draw') ??
    amount(element, 'gpu_power_readings', 'instant_power_draw') ??
    amount(element, 'gpu_power_readings', 'power_draw') ??
    amount(element, 'power_readings', 'power_draw')
  )
}

/** The number in front of its unit; null for `N/A`, `ERR!` and what is not there. */
function amount(element: XmlElement, ...names: readonly string[]): number | null {
  const digits = /^-?\d+(\.\d+)?/.exec(findElement(element, ...names)?.text ?? '')
  return digits === null ? null : Number.parseFloat(digits[0])
}

function known(element: XmlElement, ...names: readonly string[]): string | undefined {
  const text = findElement(element, ...names)?.text ?? ''
  return text === '' || /^\[?(N\/A|ERR!|GPU is lost|Unknown Error)/i.test(text) ? undefined : text.slice(0, 100)
}

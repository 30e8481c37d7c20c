/** Machines: hardware, simulated parts, and the share that a rental gets. */
import type { GpuVendor } from '../contract/shared.ts'

/** The hardware that its driver reports. */
export interface MachineHardware {
  readonly cpuModel: string
  readonly cpuCores: number
  readonly virtualCores: number
  readonly ramGb: number
  readonly storageGb: number
  readonly gpuClockMhz: number
  readonly gpuComputePower: number
  readonly gpuInterface: string
  readonly gpuDriver?: string | undefined
  readonly cudaVersion?: string | undefined
  /** undefined: nvidia. */
  readonly gpuVendor?: GpuVendor | undefined
  readonly cpuArch?: 'x64' | 'arm64' | undefined
  /** The treatment of a machine that uses more disk than it has. */
  readonly disk?: 'enforced' | 'watched' | 'shared' | undefined
  /** The supplier declared the GPUs; the devices do not exist. */
  readonly simulated?: boolean
}

/** GPUs are not sold with less disk than this or half of their usual share, whichever is smaller. */
export const MIN_DISK_GB = 20

/**
 * Whether free GPUs come with enough disk; stopped rentals may occupy it. `diskGb`: the size that the order requests.
 */
export function hasDisk(
  diskGbPerGpu: number,
  gpus: number,
  whole: { storageGb: number; gpusTotal: number },
  diskGb: number | null,
): boolean {
  const least = diskGb ?? Math.min(MIN_DISK_GB, Math.floor((whole.storageGb * gpus) / whole.gpusTotal / 2))
  return Math.floor(diskGbPerGpu * gpus) >= least
}

/** The default disk size of a rental that can be stopped: each GB costs money while it is stopped. */
const DEFAULT_DISK_GB = 50

/** `shareGb`: the disk that comes with the GPUs. `ordered`: the size that the order requests. */
export function diskSize(shareGb: number, ordered: number | null, canStop: boolean): number {
  return ordered ?? (canStop ? Math.min(DEFAULT_DISK_GB, shareGb) : shareGb)
}

/** CPU and memory in proportion to the GPUs. Disk too, but only what stopped rentals do not occupy (`diskGbPerGpu`). */
export function shareOfMachine(
  hardware: Pick<MachineHardware, 'cpuModel' | 'virtualCores' | 'ramGb' | 'storageGb'>,
  gpus: number,
  gpusTotal: number,
  diskGbPerGpu = hardware.storageGb / gpusTotal,
) {
  const share = gpus / gpusTotal
  return {
    cpuModel: hardware.cpuModel,
    cpuCount: Math.max(1, Math.floor(hardware.virtualCores * share)),
    ramGb: Math.floor(hardware.ramGb * share),
    storageGb: Math.floor(Math.min(hardware.storageGb * share, diskGbPerGpu * gpus)),
  }
}

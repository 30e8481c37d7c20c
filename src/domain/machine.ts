/** Machines: hardware, simulated parts, and the share that a rental gets. */
/** As its engine reports it. */
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
  readonly cpuArch?: 'x64' | 'arm64' | undefined
  /** What happens to a machine that uses more disk than it has. */
  readonly disk?: 'enforced' | 'watched' | 'shared' | undefined
  /** The supplier declared the GPUs; the devices do not exist. */
  readonly simulated?: boolean
}

/** CPU, memory and disk in proportion to the GPUs. */
export function shareOfMachine(
  hardware: Pick<MachineHardware, 'cpuModel' | 'virtualCores' | 'ramGb' | 'storageGb'>,
  gpus: number,
  gpusTotal: number,
) {
  const share = gpus / gpusTotal
  return {
    cpuModel: hardware.cpuModel,
    cpuCount: Math.max(1, Math.floor(hardware.virtualCores * share)),
    ramGb: Math.floor(hardware.ramGb * share),
    storageGb: Math.floor(hardware.storageGb * share),
  }
}

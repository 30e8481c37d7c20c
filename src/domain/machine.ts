/** What a machine is made of, as its engine reports it. */
export interface MachineHardware {
  readonly cpuModel: string
  readonly cpuCores: number
  readonly virtualCores: number
  readonly ramGb: number
  readonly storageGb: number
  readonly gpuClockMhz: number
  readonly gpuComputePower: number
  readonly gpuInterface: string
}

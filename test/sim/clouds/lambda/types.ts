/** Instance types of the simulated Lambda. */

interface LambdaTypeSize {
  readonly vcpus: number
  readonly memory_gib: number
  readonly storage_gib: number
  readonly gpus: number
}

export interface LambdaType {
  readonly name: string
  readonly gpu: string
  cents: number
  readonly specs: LambdaTypeSize
  /** By region: how many instances there can be. */
  readonly capacity: Map<string, number>
}

export function defaultTypes(): LambdaType[] {
  const big = { vcpus: 208, memory_gib: 1800, storage_gib: 22_528, gpus: 8 }
  const small = { vcpus: 26, memory_gib: 225, storage_gib: 2816, gpus: 1 }
  return [
    { name: 'gpu_8x_h100_sxm5', gpu: 'H100 (80 GB SXM5)', cents: 2392, specs: big, capacity: capacity() },
    { name: 'gpu_1x_h100_sxm5', gpu: 'H100 (80 GB SXM5)', cents: 329, specs: small, capacity: capacity() },
    { name: 'gpu_1x_h100_pcie', gpu: 'H100 (80 GB PCIe)', cents: 249, specs: small, capacity: new Map() },
    { name: 'gpu_1x_a10', gpu: 'A10 (24 GB PCIe)', cents: 75, specs: small, capacity: capacity() },
  ]
}

function capacity(): Map<string, number> {
  return new Map([
    ['us-east-1', 8],
    ['us-west-1', 8],
  ])
}

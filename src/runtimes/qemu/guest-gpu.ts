/** The GPUs of a guest: passed through, or only named if they are simulated. */
import type { Workload } from '../../contract/agent.ts'
import { NeverStarts } from '../runtime.ts'
import { checkPassthrough } from './vfio.ts'

export interface QemuGpu {
  readonly index: number
  readonly name: string
  /** null: simulated. The guest gets its name but no device. */
  readonly pciAddress: string | null
}

export function guestGpus(
  workload: Workload,
  gpus: readonly QemuGpu[],
): { simulatedGpus: string; passthrough: string[] } {
  const simulated: string[] = []
  const passthrough: string[] = []
  for (const index of workload.node.gpuIndexes) {
    const gpu = gpus.find((one) => one.index === index)
    if (gpu === undefined) throw new NeverStarts('gpu_missing', `The host has no GPU ${index}.`)
    if (gpu.pciAddress === null) simulated.push(`${gpu.name} (simulated)`)
    else {
      const passed = checkPassthrough(gpu.pciAddress)
      if (passed.ok) passthrough.push(...passed.args)
      else if (passed.isBusy) throw new Error(passed.reason)
      else throw new NeverStarts('gpu_passthrough_unavailable', passed.reason)
    }
  }
  return { simulatedGpus: simulated.join('; '), passthrough }
}

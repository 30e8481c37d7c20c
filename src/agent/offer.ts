/** The machine as it is put on sale: what was found on it, and what its owner asks for it. */
import type { HostOffer } from '../contract/agent.ts'
import { listedName, modelNamed } from './gpu-model.ts'
import type { GpuSight } from './gpu-source.ts'
import type { HostHardware } from './hardware.ts'
import type { AgentTerms } from './identity.ts'

/** Better than nothing for a GPU that nobody has written down: clock by clock about what a small one does. */
const TFLOPS_PER_GHZ = 20

/** undefined: without a GPU there is nothing to sell. */
export function makeOffer(terms: AgentTerms, hardware: HostHardware, sight: GpuSight): HostOffer | undefined {
  const first = sight.gpus[0]?.gpu
  if (first === undefined) return undefined
  const model = modelNamed(first.name)
  const isInSlot = first.interface.startsWith('PCIe')
  return {
    clusterName: terms.clusterName,
    region: terms.region,
    offering: terms.offering,
    gpuType: model?.gpuType ?? null,
    gpuModel: listedName(first.name),
    gpuRamMib: Math.max(Math.round(first.ramMib), 1),
    gpuFormFactor: model?.formFactor ?? (isInSlot ? 'pcie' : null),
    networkType: terms.networkType,
    ethernetVariant: terms.networkType === 'ethernet' ? 'normal' : null,
    gpusTotal: sight.gpus.length,
    gpusSick: sight.gpus.flatMap(({ ailments }, index) => (ailments.length === 0 ? [] : [index])),
    priceUsdPerGpuHour: terms.offering === 'marketplace' ? terms.priceUsdPerGpuHour : null,
    // Volumes are files on this host, which its virtual machines have as disks.
    hasPersistentStorage: terms.offering === 'virtual-machine',
    simulated: sight.simulated,
    hardware: {
      ...hardware,
      gpuClockMhz: first.clockMhz,
      gpuComputePower: model?.tflops ?? (TFLOPS_PER_GHZ * first.clockMhz) / 1_000,
      gpuInterface: first.interface,
      ...(sight.driver === undefined ? {} : { gpuDriver: sight.driver }),
      ...(sight.cuda === undefined ? {} : { cudaVersion: sight.cuda }),
    },
  }
}

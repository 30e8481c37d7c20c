/** The machine as it is put on sale: what was found on it, and what its owner asks for it. */
import type { HostOffer } from '../contract/agent.ts'
import { listedName, modelNamed } from './gpu-model.ts'
import type { GpuSnapshot } from './gpu-source.ts'
import type { HostHardware } from './hardware.ts'
import type { AgentTerms } from './identity.ts'

/** Better than nothing for a GPU that nobody has written down: clock by clock about what a small one does. */
const TFLOPS_PER_GHZ = 20

/** undefined: without a GPU there is nothing to sell. */
export function makeOffer(terms: AgentTerms, hardware: HostHardware, snapshot: GpuSnapshot): HostOffer | undefined {
  const first = snapshot.gpus[0]?.gpu
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
    gpusTotal: snapshot.gpus.length,
    gpusSick: snapshot.gpus.flatMap(({ problems }, index) => (problems.length === 0 ? [] : [index])),
    priceUsdPerGpuHour: terms.offering === 'marketplace' ? terms.priceUsdPerGpuHour : null,
    // Volumes are files on this host, which its virtual machines have as disks.
    hasPersistentStorage: terms.offering === 'virtual-machine',
    simulated: snapshot.simulated,
    hardware: {
      ...hardware,
      gpuClockMhz: first.clockMhz,
      gpuComputePower: model?.tflops ?? (TFLOPS_PER_GHZ * first.clockMhz) / 1_000,
      gpuInterface: first.interface,
      ...(snapshot.driver === undefined ? {} : { gpuDriver: snapshot.driver }),
      ...(snapshot.cuda === undefined ? {} : { cudaVersion: snapshot.cuda }),
    },
  }
}

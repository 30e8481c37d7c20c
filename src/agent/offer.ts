/** The machine's offer: its hardware and its owner's terms. */
import type { HostOffer } from '../contract/agent.ts'
import { listedName, modelNamed } from '../domain/gpu-model.ts'
import type { GpuSnapshot } from './gpu-source.ts'
import type { HostHardware } from './hardware.ts'
import type { AgentTerms } from './identity.ts'

/** An estimate for GPUs that are not in the table: about the rate of a small one. */
const TFLOPS_PER_GHZ = 20

/** undefined: no GPU to offer. */
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
    // Volumes are files on this host, attached to virtual machines as disks.
    hasPersistentStorage: terms.offering === 'virtual-machine',
    simulated: snapshot.simulated,
    hardware: {
      ...hardware,
      gpuClockMhz: first.clockMhz,
      gpuComputePower: model?.tflops ?? (TFLOPS_PER_GHZ * first.clockMhz) / 1_000,
      gpuInterface: first.interface,
      gpuVendor: 'nvidia',
      ...(snapshot.driver === undefined ? {} : { gpuDriver: snapshot.driver }),
      ...(snapshot.cuda === undefined ? {} : { cudaVersion: snapshot.cuda }),
    },
  }
}

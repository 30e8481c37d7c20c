/**
 * Voltage Park offers bare-metal nodes by location and network, and virtual machines by location and preset.
 *
 * A location is an id without a place. A preset is ordered by its id alone, so a preset that is available in several
 * locations could be created in any of them, and is not offered.
 */
import { nanoUsdOf } from '../../../base/money.ts'
import type { CloudOffer } from '../cloud.ts'
import type { CloudHttp } from '../http.ts'
import { metalLocation, vmLocation, type MetalLocation, type Preset } from './api.ts'
import { readLocations } from './pages.ts'

const METAL_LOCATIONS = '/api/v1/bare-metal/locations'
const VM_LOCATIONS = '/api/v1/virtual-machines/instant/locations'

const PRESET_CHARS = 8

export type VoltageParkOffer = CloudOffer &
  (
    | { readonly kind: 'bare-metal'; readonly networkType: 'ethernet' | 'infiniband' }
    | { readonly kind: 'virtual-machine'; readonly presetId: string }
  )

export async function readOffers(http: CloudHttp, signal: AbortSignal): Promise<VoltageParkOffer[]> {
  const [metal, virtual] = await Promise.all([
    readLocations(http, metalLocation, METAL_LOCATIONS, signal),
    readLocations(http, vmLocation, VM_LOCATIONS, signal),
  ])
  const presets = virtual.flatMap(({ id, available_presets }) =>
    available_presets.flatMap((preset) => presetOffer(id, preset) ?? []),
  )
  const isOnlyOne = (offer: VoltageParkOffer): boolean => presets.filter(({ type }) => type === offer.type).length === 1
  return [...metal.flatMap(metalOffers), ...presets.filter(isOnlyOne)]
}

function metalOffers(location: MetalLocation): VoltageParkOffer[] {
  const { gpu_model, gpu_count, cpu_model, cpu_count, ram_gb, storage_gb } = location.specs_per_node
  if (gpu_count < 1) return []
  const node = {
    region: location.id,
    kind: 'bare-metal',
    isClustered: true,
    gpu: gpu_model,
    gpus: gpu_count,
    cpuModel: cpu_model,
    cpus: cpu_count,
    ramGb: ram_gb,
    storageGb: storage_gb,
  } as const
  // Prices are per GPU, and counts are in GPUs.
  const nodesOf = (gpus: number): number => Math.floor(gpus / gpu_count)
  const costOf = (perGpu: bigint) => nanoUsdOf(perGpu * BigInt(gpu_count))
  return [
    {
      ...node,
      type: 'metal-ethernet',
      networkType: 'ethernet',
      available: nodesOf(location.gpu_count_ethernet),
      costPerHour: costOf(location.gpu_price_ethernet),
    },
    {
      ...node,
      type: 'metal-infiniband',
      networkType: 'infiniband',
      available: nodesOf(location.gpu_count_infiniband),
      costPerHour: costOf(location.gpu_price_infiniband),
    },
  ]
}

/** The id of an offer is too short for two of the vendor's ids, so a type contains only the beginning of one. */
function presetOffer(location: string, preset: Preset): VoltageParkOffer | undefined {
  const { gpus, ram_gb, storage_gb, vcpu_count } = preset.resources
  const [[gpu, count] = [], ...others] = Object.entries(gpus)
  if (gpu === undefined || count === undefined || others.length > 0) return undefined
  if (/windows/i.test(preset.operating_system)) return undefined
  return {
    type: `vm-${count.count}x-${preset.id.slice(0, PRESET_CHARS)}`,
    presetId: preset.id,
    region: location,
    kind: 'virtual-machine',
    gpu,
    gpus: count.count,
    networkType: 'ethernet',
    available: preset.available_vms,
    costPerHour: nanoUsdOf(preset.compute_rate_hourly + preset.storage_rate_hourly),
    cpus: vcpu_count,
    ramGb: ram_gb,
    storageGb: storage_gb,
  }
}

/** Decides which of a vendor's offers can be sold, and as what. */
import { floorDivide, formatUsd, nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import type { ProviderOffer, UnsoldReason } from '../../contract/provider.ts'
import { bareMetalRegion, virtualMachineRegion } from '../../contract/region.ts'
import { listedName, modelNamed, type GpuModel } from '../../domain/gpu-model.ts'
import { offerOfUnit } from '../../domain/unit.ts'
import type { InventoryOffer } from '../driver.ts'
import type { CloudOffer, CloudVendor } from './cloud.ts'
import type { CloudAccount } from './world.ts'

const MAX_OFFER_CHARS = 90

export interface OfferPlace {
  readonly account: string
  readonly region: string
  readonly type: string
}

export type Sellable =
  | { readonly kind: 'sold'; readonly item: InventoryOffer }
  | { readonly kind: 'unsold'; readonly reason: UnsoldReason }

/** The id contains the account and the vendor's names, so that an order needs no look-up. */
export function offerIdOf(driver: string, { account, region, type }: OfferPlace): string {
  return [driver, account, region, type].join(':')
}

/** undefined: the machine is not ours. */
export function placeOfMachine(driver: string, machineId: string): OfferPlace | undefined {
  const [name, account, region, ...type] = (offerOfUnit(machineId) ?? machineId).split(':')
  if (name !== driver || account === undefined || region === undefined || type.length === 0) return undefined
  return { account, region, type: type.join(':') }
}

/**
 * Merges offers of the same type in the same place, since an order cannot tell them apart. The result has the larger
 * number and the higher price, so that nothing is sold below its cost.
 */
export function mergeOffers<Offer extends CloudOffer>(offers: readonly Offer[]): Offer[] {
  const merged = new Map<string, Offer>()
  for (const offer of offers) {
    const key = JSON.stringify([offer.region, offer.type])
    const previous = merged.get(key)
    merged.set(key, previous === undefined ? offer : mergeTwo(previous, offer))
  }
  return [...merged.values()]
}

function mergeTwo<Offer extends CloudOffer>(one: Offer, other: Offer): Offer {
  const [cheap, expensive] = one.costPerHour <= other.costPerHour ? [one, other] : [other, one]
  const isCounted = cheap.available !== null && expensive.available !== null
  return { ...expensive, available: isCounted ? Math.max(cheap.available, expensive.available) : null }
}

export function sellableOf(vendor: CloudVendor, account: CloudAccount, offer: CloudOffer): Sellable {
  const gpu = gpuOf(offer.gpu)
  if (gpu === undefined || gpu.gpuType === null || gpu.formFactor === null) return unsold('gpu_not_sold')
  const region = regionOf(vendor, account, offer)
  if (region === undefined) return unsold('region_not_mapped')
  const id = offerIdOf(vendor.id, { account: account.name, region: offer.region, type: offer.type })
  if (id.length > MAX_OFFER_CHARS) return unsold('name_too_long')
  if (offer.available === 0) return unsold('no_capacity')
  const cpuModel = offer.cpuModel ?? 'x86-64'
  return {
    kind: 'sold',
    item: {
      id,
      clusterName: `${vendor.id}-${account.name}-${offer.region}`,
      region,
      offering: offer.kind,
      gpuType: gpu.gpuType,
      gpuModel: listedName(gpu.name),
      gpuRamMib: gpu.ramMib,
      gpuFormFactor: gpu.formFactor,
      networkType: offer.networkType,
      ethernetVariant: offer.networkType === 'ethernet' ? 'normal' : null,
      gpusTotal: offer.gpus,
      priceUsdPerGpuHour: null,
      hasPersistentStorage: false,
      hardware: {
        cpuModel,
        cpuCores: offer.cpus,
        virtualCores: offer.cpus,
        ramGb: offer.ramGb,
        storageGb: offer.storageGb,
        gpuClockMhz: gpu.clockMhz,
        gpuComputePower: gpu.tflops,
        gpuInterface: gpu.interface,
      },
      available: offer.available,
      soldWhole: true,
      preference: account.preference,
      sellsBelowCost: account.sellsBelowCost,
      costUsdPerGpuHour: formatUsd(costPerGpuHour(offer.costPerHour, offer.gpus)),
    },
  }
}

/** Describes an offer for the operator, sold or not. */
export function reportOffer(vendor: CloudVendor, account: CloudAccount, offer: CloudOffer): ProviderOffer {
  const sellable = sellableOf(vendor, account, offer)
  return {
    offerId: sellable.kind === 'sold' ? sellable.item.id : null,
    type: offer.type,
    providerRegion: offer.region,
    region: sellable.kind === 'sold' ? sellable.item.region : null,
    gpu: offer.gpu,
    gpuType: sellable.kind === 'sold' ? sellable.item.gpuType : null,
    networkType: offer.networkType,
    gpuCount: offer.gpus,
    machineType: offer.kind,
    available: offer.available,
    costPerHourUsd: offer.costPerHour,
    unsold: sellable.kind === 'sold' ? null : sellable.reason,
  }
}

/** Rounds up: the cost of a GPU is never shown too low. */
function costPerGpuHour(costPerHour: NanoUsd, gpus: number): NanoUsd {
  return nanoUsdOf(floorDivide(costPerHour + BigInt(gpus) - 1n, BigInt(gpus)))
}

/** Finds the model and the slot in a vendor's text, such as `H100 (80 GB SXM5)`, `8x H100 80GB PCIe` or `h200.sxm`. */
export function gpuOf(text: string): GpuModel | undefined {
  const words = text
    .toUpperCase()
    .replaceAll(/[()_.,/-]/g, ' ')
    .replaceAll(/\b\d+ ?(?:GB|GIB|X)\b/g, ' ')
    .trim()
    .split(/\s+/)
  const model = words.find((word) => /^(?:[ABHL]\d{1,3}S?|GH200|V100|T4)$/.test(word))
  if (model === undefined) return undefined
  const slot = words.find((word) => word === 'PCIE' || word === 'NVL')
  return modelNamed(slot === undefined ? model : `${model} ${slot === 'PCIE' ? 'PCIe' : slot}`)
}

function regionOf(vendor: CloudVendor, account: CloudAccount, offer: CloudOffer): string | undefined {
  const region = account.regions[offer.region] ?? vendor.regions[offer.region] ?? vendor.regions['*']
  const sold = offer.kind === 'bare-metal' ? bareMetalRegion : virtualMachineRegion
  return region !== undefined && sold.safeParse(region).success ? region : undefined
}

function unsold(reason: UnsoldReason): Sellable {
  return { kind: 'unsold', reason }
}

/**
 * Validates a host's offer. A host reports its own data, which goes into the tables that everyone rents from: values that
 * do not fit them, or that nobody could order, are rejected on arrival.
 */
import { counted } from '../base/counted.ts'
import { MAX_INT32 } from '../base/limits.ts'
import { parseUsd, usd } from '../base/money.ts'
import type { HostOffer } from '../contract/agent.ts'
import { bareMetalRegion, virtualMachineRegion } from '../contract/region.ts'

export interface OfferFault {
  /** The field's path in the offer. */
  readonly path: readonly string[]
  readonly message: string
}

/** The maximum price per GPU-hour, the same as everywhere. */
const MAX_PRICE = usd('1000')

/** Returns the first fault. undefined: the offer can be sold. */
export function findOfferFault(offer: HostOffer): OfferFault | undefined {
  const isMarketplace = offer.offering === 'marketplace'
  if (!isMarketplace) {
    const regions = offer.offering === 'bare-metal' ? bareMetalRegion : virtualMachineRegion
    if (!regions.safeParse(offer.region).success) {
      return fault('region', `A ${offer.offering} must be in one of the regions ${regions.options.join(', ')}`)
    }
    if (offer.gpuType === null) return fault('gpuType', 'Only h100, h200 and b200 can be rented by type')
    if (offer.gpuFormFactor === null) return fault('gpuFormFactor', 'Needed where GPUs can be rented by type')
  }
  return (
    findPriceFault(offer.priceUsdPerGpuHour, isMarketplace) ?? findGpuFault(offer) ?? findHardwareFault(offer.hardware)
  )
}

function findPriceFault(text: string | null, isMarketplace: boolean): OfferFault | undefined {
  const price = text === null ? undefined : parseUsd(text)
  const fits = price !== undefined && price >= 0n && price <= MAX_PRICE
  if (isMarketplace) return fits ? undefined : fault('priceUsdPerGpuHour', 'Set a price from 0 to 1000 USD.')
  return text === null ? undefined : fault('priceUsdPerGpuHour', 'The price book sets the price of this machine.')
}

function findGpuFault(offer: HostOffer): OfferFault | undefined {
  const { gpusSick, gpusTotal, gpuRamMib, networkType, ethernetVariant } = offer
  if (gpuRamMib > MAX_INT32) return fault('gpuRamMib', 'This is more than any GPU has.')
  if (gpusSick.some((index) => index >= gpusTotal))
    return fault('gpusSick', `The machine has only ${counted(gpusTotal, 'GPU')}.`)
  if (new Set(gpusSick).size < gpusSick.length) return fault('gpusSick', 'A GPU is listed twice.')
  if (networkType !== 'ethernet' && ethernetVariant !== null)
    return fault('ethernetVariant', 'Only Ethernet has a variant.')
  return undefined
}

/** More than any machine has; derived values are stored as 32-bit integers. */
const MAX_AMOUNT = 1_000_000_000

function findHardwareFault(hardware: HostOffer['hardware']): OfferFault | undefined {
  const amounts = ['cpuCores', 'virtualCores', 'ramGb', 'storageGb', 'gpuClockMhz', 'gpuComputePower'] as const
  const wrong = amounts.find((name) => !(hardware[name] > 0 && hardware[name] <= MAX_AMOUNT))
  return wrong === undefined
    ? undefined
    : { path: ['hardware', wrong], message: 'This is not an amount a machine can have.' }
}

function fault(field: keyof HostOffer, message: string): OfferFault {
  return { path: [field], message }
}

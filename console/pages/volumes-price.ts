/**
 * What storage costs. No operation tells customers the price of a region, so that it is taken from where it can be
 * seen: the price book, for keys that may read it, or the newest volume that the account has in the region.
 */
import { floorDivide, nanoUsdOf, parseUsd, usdFromNumber, zeroUsd, type NanoUsd } from '../../src/base/money.ts'
import { volumePricePerHour } from '../../src/domain/volume.ts'
import { useMay } from '../api/me.ts'
import { useCall } from '../api/query.ts'

/** Of a volume of this size an hour. undefined: nobody has said. */
export function useVolumePrice(region: string, sizeGb: number): NanoUsd | undefined {
  const book = useCall('getPriceBook', {}, { enabled: useMay('operator') })
  const volumes = useCall('listVolumes')
  const listed = book.data?.storage.find((row) => row.region === region && row.enabled)
  if (listed !== undefined) return volumePricePerHour(parseUsd(listed.perGbHourUsd) ?? zeroUsd, sizeGb)
  // Newest first.
  const own = volumes.data?.find((volume) => volume.region === region)
  if (own === undefined) return undefined
  // Exact, since the whole price was this times the size.
  const perGb = floorDivide(usdFromNumber(own.costPerHour) ?? zeroUsd, BigInt(own.sizeGb))
  return volumePricePerHour(nanoUsdOf(perGb), sizeGb)
}

/** Where storage is sold, and what it costs there. */
import { parseUsd, type NanoUsd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import { volumePricePerHour } from '../../../src/domain/volume.ts'
import { useCall } from '../../api/query.ts'

type StorageOption = Reply<'listStorageOptions'>[number]

/** undefined: volumes cannot be made there, or it is not known yet. */
export function useStorageOption(region: string): StorageOption | undefined {
  return useCall('listStorageOptions').data?.find((option) => option.region === region && option.enabled)
}

/** Of a volume of this size an hour. */
export function priceOfVolume(option: StorageOption | undefined, sizeGb: number): NanoUsd | undefined {
  const perGb = option === undefined ? undefined : parseUsd(option.costPerGbHourUsd)
  return perGb === undefined ? undefined : volumePricePerHour(perGb, sizeGb)
}

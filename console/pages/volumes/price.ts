/** Regions that have storage, and its price. */
import { parseUsd, type NanoUsd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import { volumeSize } from '../../../src/contract/volume.ts'
import { volumePricePerHour } from '../../../src/domain/volume.ts'
import { useCall } from '../../api/query.ts'

export const STEP_GB = volumeSize.stepGb
export const MAX_GB = volumeSize.maxGb

export type StorageOption = Reply<'listStorageOptions'>[number]

/** undefined: the region has no storage, or the prices are still loading. */
export function useStorageOption(region: string): StorageOption | undefined {
  return useCall('listStorageOptions').data?.find((option) => option.region === region && option.enabled)
}

/** The price per hour. */
export function priceOfVolume(option: StorageOption | undefined, sizeGb: number): NanoUsd | undefined {
  const perGb = option === undefined ? undefined : parseUsd(option.costPerGbHourUsd)
  return perGb === undefined ? undefined : volumePricePerHour(perGb, sizeGb)
}

/** Regions and prices of storage over HTTP. */
import { ok } from '../../contract/result.ts'
import type { storageRegion } from '../../contract/region.ts'
import { volumeSize } from '../../contract/volume.ts'
import type { z } from 'zod'
import { listStorageOptions } from '../../app/order/storage-option.ts'
import type { Handlers } from '../http/handler.ts'
import type { VolumeDriver } from '../../drivers/driver.ts'

export type StorageRegion = z.infer<typeof storageRegion>

export const storageOptionHandlers = {
  listStorageOptions: async (app) => {
    const options = await listStorageOptions(app)
    return ok(
      options.map(({ region, enabled, perGbHour, availableGb, engine: volumes }) => ({
        region: region as StorageRegion,
        enabled,
        costPerGbHourUsd: perGbHour,
        minSizeInGb: volumeSize.minGb,
        maxSizeInGb: volumeSize.maxGb,
        availableGb,
        supports: volumes === undefined ? null : supportOf(volumes),
      })),
    )
  },
} satisfies Partial<Handlers>

export function supportOf(volumes: VolumeDriver | undefined) {
  return {
    kinds: [...(volumes?.serves ?? [])],
    attach: [...(volumes?.attaches ?? [])],
    shared: volumes?.isLocal === false,
    grow: volumes?.grow !== undefined,
    clone: volumes?.copies === true,
  }
}

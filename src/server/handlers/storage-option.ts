/** Regions and prices of storage over HTTP. */
import { ok } from '../../contract/result.ts'
import type { storageRegion } from '../../contract/region.ts'
import { volumeSize } from '../../contract/volume.ts'
import type { z } from 'zod'
import { listStorageOptions } from '../../app/order/storage-option.ts'
import type { Handlers } from '../http/handler.ts'
import type { VolumeEngine } from '../../drivers/driver.ts'

export type StorageRegion = z.infer<typeof storageRegion>

export const storageOptionHandlers = {
  listStorageOptions: async (app) => {
    const options = await listStorageOptions(app)
    return ok(
      options.map(({ region, enabled, perGbHour, availableGb, engine }) => ({
        region: region as StorageRegion,
        enabled,
        costPerGbHourUsd: perGbHour,
        minSizeInGb: volumeSize.minGb,
        maxSizeInGb: volumeSize.maxGb,
        availableGb,
        supports: engine === undefined ? null : supportOf(engine),
      })),
    )
  },
} satisfies Partial<Handlers>

export function supportOf(engine: VolumeEngine | undefined) {
  return {
    kinds: [...(engine?.serves ?? [])],
    attach: [...(engine?.attaches ?? [])],
    shared: engine?.isLocal === false,
    grow: engine?.grow !== undefined,
    clone: engine?.copies === true,
  }
}

/** The price book over HTTP, for operators. */
import { ok } from '../../contract/result.ts'
import type { Region } from '../../contract/region.ts'
import { changePriceBook, readPriceBook, type PriceBook } from '../../app/money/price-book.ts'
import { transact } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'

export const priceBookHandlers = {
  getPriceBook: async (app) => ok(priceBookRecord(await readPriceBook(app.database.db))),

  changePriceBook: async (app, { actor, body }) => {
    const changed = await transact(app.database, (tx) =>
      changePriceBook(tx, actor, {
        gpus: (body.gpus ?? []).map((row) => ({
          machine_type: row.machineType,
          region: row.region,
          gpu_type: row.gpuType,
          network_type: row.networkType,
          gpu_count: row.gpuCount,
          nano_per_gpu_hour: row.perGpuHourUsd,
          enabled: row.enabled,
        })),
        storage: (body.storage ?? []).map((row) => ({
          region: row.region,
          nano_per_gb_hour: row.perGbHourUsd,
          enabled: row.enabled,
        })),
        reserveOptions: (body.reserveOptions ?? []).map((row) => ({ ...row, accountId: row.accountId ?? null })),
        reason: body.reason,
      }),
    )
    return changed.ok ? ok(priceBookRecord(changed.value)) : changed
  },
} satisfies Partial<Handlers>

function priceBookRecord(book: PriceBook) {
  return {
    gpus: book.gpus.map((row) => ({
      machineType: row.machine_type,
      region: row.region as Region,
      gpuType: row.gpu_type,
      networkType: row.network_type,
      gpuCount: row.gpu_count,
      perGpuHourUsd: row.nano_per_gpu_hour,
      enabled: row.enabled,
    })),
    storage: book.storage.map((row) => ({
      region: row.region as Exclude<Region, 'private-cloud'>,
      perGbHourUsd: row.nano_per_gb_hour,
      enabled: row.enabled,
    })),
    reserveOptions: book.reserveOptions.map((row) => ({ ...row })),
  }
}

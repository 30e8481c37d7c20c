/** The operator's price book. A change leaves other rows alone; running rentals keep their price. */
import type { NanoUsd } from '../../base/money.ts'
import { failField, ok, type Result } from '../../contract/result.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import { findAccount } from '../../store/account/account.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import {
  listAllReserveOptions,
  listGpuPrices,
  listStoragePrices,
  saveGpuPrices,
  saveReserveOptions,
  saveStoragePrices,
  type GpuPrice,
  type OwnGpuPrice,
  type StoragePrice,
} from '../../store/machine/price.ts'
import type { ReserveOption } from '../../domain/term.ts'
import type { Actor } from '../app.ts'

export interface PriceBook {
  readonly gpus: readonly GpuPrice[]
  readonly storage: readonly StoragePrice[]
  readonly reserveOptions: ReadonlyArray<ReserveOption & { readonly accountId: string | null }>
}

export async function readPriceBook(db: Db): Promise<PriceBook> {
  const [gpus, storage, reserveOptions] = await Promise.all([
    listGpuPrices(db),
    listStoragePrices(db),
    listAllReserveOptions(db),
  ])
  return { gpus, storage, reserveOptions }
}

export interface PriceBookChange {
  readonly gpus: readonly OwnGpuPrice[]
  readonly storage: ReadonlyArray<{ region: string; nano_per_gb_hour: NanoUsd; enabled: boolean }>
  readonly reserveOptions: PriceBook['reserveOptions']
  readonly reason: string
}

export async function changePriceBook(tx: Tx, actor: Actor, change: PriceBookChange): Promise<Result<PriceBook>> {
  const twice = firstTwice(
    change.gpus.map((row) => [row.machine_type, row.region, row.gpu_type, row.network_type, row.gpu_count].join()),
  )
  if (twice !== undefined) return failField(['gpus', twice], 'duplicate_row')
  const storageTwice = firstTwice(change.storage.map((row) => row.region))
  if (storageTwice !== undefined) return failField(['storage', storageTwice], 'duplicate_row')
  for (const [index, option] of change.reserveOptions.entries()) {
    if (option.accountId !== null && (await findAccount(tx.db, option.accountId)) === undefined) {
      return failField(['reserveOptions', index, 'accountId'], 'account_not_found')
    }
  }
  await saveGpuPrices(tx, change.gpus)
  await saveStoragePrices(tx, change.storage)
  await saveReserveOptions(tx, change.reserveOptions)
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'price_book.change',
    reason: change.reason,
    detail: {
      gpus: change.gpus.map((row) => ({ ...row, nano_per_gpu_hour: row.nano_per_gpu_hour.toString() })),
      storage: change.storage.map((row) => ({ ...row, nano_per_gb_hour: row.nano_per_gb_hour.toString() })),
      reserveOptions: change.reserveOptions,
    },
  })
  return ok(await readPriceBook(tx.db))
}

function firstTwice(keys: readonly string[]): number | undefined {
  const index = keys.findIndex((key, at) => keys.indexOf(key) !== at)
  return index < 0 ? undefined : index
}

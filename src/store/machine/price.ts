/** The price book. */
import { sql, type Selectable } from 'kysely'
import { toDate } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { GpuType, NetworkType } from '../../contract/shared.ts'
import type { ReserveOption } from '../../domain/term.ts'
import type { Db, Tx } from '../platform/database.ts'
import { CAPACITY_WAKE } from './machine.ts'
import { writeAskingPrices } from '../provider/provider-price.ts'
import type { Tables } from '../platform/tables.ts'

export type GpuPrice = Selectable<Tables['gpu_price']>
/** A price that the operator sets. */
export type OwnGpuPrice = Omit<GpuPrice, 'updated_at' | 'provider_account_id'>
export type StoragePrice = Selectable<Tables['storage_price']>

export async function findGpuPrices(
  db: Db,
  order: { machineType: GpuPrice['machine_type']; region: string; gpuType: GpuType; networkType: NetworkType },
): Promise<GpuPrice[]> {
  return db
    .selectFrom('gpu_price')
    .selectAll()
    .where('machine_type', '=', order.machineType)
    .where('region', '=', order.region)
    .where('gpu_type', '=', order.gpuType)
    .where('network_type', '=', order.networkType)
    .orderBy('gpu_count')
    .execute()
}

export async function listGpuPrices(db: Db): Promise<GpuPrice[]> {
  return db
    .selectFrom('gpu_price')
    .selectAll()
    .orderBy('machine_type')
    .orderBy('region')
    .orderBy('gpu_type')
    .orderBy('network_type')
    .orderBy('gpu_count')
    .execute()
}

export async function listStoragePrices(db: Db): Promise<StoragePrice[]> {
  return db.selectFrom('storage_price').selectAll().orderBy('region').execute()
}

export async function findStoragePrice(db: Db, region: string): Promise<StoragePrice | undefined> {
  return db.selectFrom('storage_price').selectAll().where('region', '=', region).executeTakeFirst()
}

/** Lists terms for everyone, and those agreed with the account. */
export async function listReserveOptions(db: Db, accountId: string): Promise<ReserveOption[]> {
  const rows = await db
    .selectFrom('reserve_option')
    .select(['term_period_days', 'discount_percentage'])
    .where((e) => e.or([e('account_id', 'is', null), e('account_id', '=', accountId)]))
    .orderBy('term_period_days')
    .orderBy('discount_percentage')
    .execute()
  return rows.map((row) => ({
    termPeriodDays: row.term_period_days,
    discountPercentage: Number.parseFloat(row.discount_percentage),
  }))
}

export async function listAllReserveOptions(
  db: Db,
): Promise<Array<ReserveOption & { readonly accountId: string | null }>> {
  const rows = await db.selectFrom('reserve_option').selectAll().orderBy('term_period_days').orderBy('id').execute()
  return rows.map((row) => ({
    accountId: row.account_id,
    termPeriodDays: row.term_period_days,
    discountPercentage: Number.parseFloat(row.discount_percentage),
  }))
}

/** Saves prices of the operator. They replace prices that rules made, and apply to the offers of all accounts. */
export async function saveGpuPrices(tx: Tx, prices: readonly OwnGpuPrice[]): Promise<void> {
  if (prices.length === 0) return
  tx.wake.add(CAPACITY_WAKE)
  await sql`
    insert into gpu_price (machine_type, region, gpu_type, network_type, gpu_count, nano_per_gpu_hour, enabled, updated_at)
    select *, ${toDate(tx.clock.now())}::timestamptz
    from unnest(${prices.map((price) => price.machine_type)}::text[], ${prices.map((price) => price.region)}::text[],
      ${prices.map((price) => price.gpu_type)}::text[], ${prices.map((price) => price.network_type)}::text[],
      ${prices.map((price) => price.gpu_count)}::integer[], ${prices.map((price) => price.nano_per_gpu_hour)}::bigint[],
      ${prices.map((price) => price.enabled)}::boolean[])
    on conflict (machine_type, region, gpu_type, network_type, gpu_count) do update set
      nano_per_gpu_hour = excluded.nano_per_gpu_hour, enabled = excluded.enabled, provider_account_id = null,
      updated_at = excluded.updated_at`.execute(tx.db)
  await writeAskingPrices(tx, undefined)
}

export async function saveStoragePrices(
  tx: Tx,
  prices: ReadonlyArray<{ region: string; nano_per_gb_hour: NanoUsd; enabled: boolean }>,
): Promise<void> {
  if (prices.length === 0) return
  const updated_at = toDate(tx.clock.now())
  await tx.db
    .insertInto('storage_price')
    .values(prices.map((price) => ({ ...price, updated_at })))
    .onConflict((conflict) =>
      conflict.column('region').doUpdateSet((e) => ({
        nano_per_gb_hour: e.ref('excluded.nano_per_gb_hour'),
        enabled: e.ref('excluded.enabled'),
        updated_at,
      })),
    )
    .execute()
}

/** Saves one discount per term, for everyone or for one account; zero deletes the row. */
export async function saveReserveOptions(
  tx: Tx,
  options: ReadonlyArray<ReserveOption & { readonly accountId: string | null }>,
): Promise<void> {
  for (const option of options) {
    const deletion = tx.db
      .deleteFrom('reserve_option')
      .where('term_period_days', '=', option.termPeriodDays)
      .where('account_id', option.accountId === null ? 'is' : '=', option.accountId)
    await deletion.execute()
    if (option.discountPercentage === 0) continue
    await tx.db
      .insertInto('reserve_option')
      .values({
        account_id: option.accountId,
        term_period_days: option.termPeriodDays,
        discount_percentage: option.discountPercentage,
      })
      .execute()
  }
}

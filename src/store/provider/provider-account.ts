/** Accounts at other clouds. */
import { sql, type Selectable, type Updateable } from 'kysely'
import { toDate } from '../../base/instant.ts'
import { nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type ProviderAccount = Selectable<Tables['provider_account']>

/** A wake-up: accounts were added, changed or removed. */
export const PROVIDER_WAKE = 'provider-accounts'

export interface ProviderAccountCosts extends ProviderAccount {
  /** The costs posted in the calendar month (UTC) of the clock. */
  readonly month_nano: NanoUsd
}

/** Lists those in use, by name. */
export async function listProviderAccounts(db: Db, now: number, driver?: ProviderId): Promise<ProviderAccountCosts[]> {
  let select = db.selectFrom('provider_account as a').selectAll('a').where('a.removed_at', 'is', null)
  if (driver !== undefined) select = select.where('a.driver', '=', driver)
  const rows = await select
    .select(
      sql<bigint>`(select coalesce(sum(c.cost_nano), 0)::bigint from provider_cost c where c.provider_account_id = a.id
        and c.day >= date_trunc('month', ${new Date(now)}::timestamptz at time zone 'UTC')::date)`.as('month_nano'),
    )
    .orderBy('a.name')
    .execute()
  return rows.map((row) => ({ ...row, month_nano: nanoUsdOf(row.month_nano) }))
}

/** Lists the drivers that have an account. */
export async function listProviderDrivers(db: Db): Promise<ProviderId[]> {
  const rows = await db
    .selectFrom('provider_account')
    .select('driver')
    .distinct()
    .where('removed_at', 'is', null)
    .execute()
  return rows.map(({ driver }) => driver)
}

/** Finds removed ones too. */
export async function findProviderAccount(db: Db, name: string): Promise<ProviderAccount | undefined> {
  return db.selectFrom('provider_account').selectAll().where('name', '=', name).executeTakeFirst()
}

export async function insertProviderAccount(
  tx: Tx,
  account: Pick<ProviderAccount, 'id' | 'driver' | 'name' | 'base_url' | 'credentials_sealed'> & ProviderRules,
): Promise<void> {
  tx.wake.add(PROVIDER_WAKE)
  const now = toDate(tx.clock.now())
  await tx.db
    .insertInto('provider_account')
    .values({ ...account, regions: JSON.stringify(account.regions), created_at: now, health_since: now })
    .execute()
}

export type ProviderRules = Pick<
  ProviderAccount,
  | 'regions'
  | 'markup_bp'
  | 'floor_nano_per_gpu_hour'
  | 'fixed_nano_per_gpu_hour'
  | 'sells_below_cost'
  | 'monthly_cap_nano'
  | 'preference'
>

export async function updateProviderAccount(
  tx: Tx,
  id: string,
  change: Updateable<Tables['provider_account']>,
): Promise<void> {
  tx.wake.add(PROVIDER_WAKE)
  tx.wake.add('inventory')
  await tx.db.updateTable('provider_account').set(change).where('id', '=', id).execute()
}

/** Records whether the account answered. Repeated equal reports keep the time of the first. */
export async function saveProviderHealth(
  db: Db,
  id: string,
  report: { health: 'healthy' | 'stale' | 'broken'; reason: string | null; at: Date },
): Promise<void> {
  const { health, reason, at } = report
  await sql`
    update provider_account set health = ${health}, health_reason = ${reason},
      health_since = case when health = ${health} then health_since else ${at} end,
      answered_at = case when ${health} = 'healthy' then ${at} else answered_at end
    where id = ${id}`.execute(db)
}

/** Counts rentals at the account that are not released. */
export async function countProviderRentals(
  db: Db,
  { driver, name }: Pick<ProviderAccount, 'driver' | 'name'>,
): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*)::integer as n from rental
    where driver = ${driver} and released_at is null
      and (split_part(external_id, '/', 1) = ${name}
        or split_part(spec -> 'nodes' -> 0 ->> 'machineId', ':', 2) = ${name})`.execute(db)
  return rows[0]?.n ?? 0
}

/** Counts volumes at the account that are not deleted. */
export async function countProviderVolumes(
  db: Db,
  { driver, name }: Pick<ProviderAccount, 'driver' | 'name'>,
): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*)::integer as n from volume
    where driver = ${driver} and state <> 'deleted' and split_part(external_id, '/', 1) = ${name}`.execute(db)
  return rows[0]?.n ?? 0
}

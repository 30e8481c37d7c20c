/** Money that the house puts into an account to rent GPUs for models for everyone. */
import { sql } from 'kysely'
import { nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import type { Db, Tx } from '../platform/database.ts'

export interface HouseMoney {
  readonly accountId: string
  /** The cost of the living replicas per hour. */
  readonly perHour: NanoUsd
  /**
   * The part of the account's balance that is the house's and that no rental holds. Below zero: the house owes the
   * account.
   */
  readonly free: bigint
}

/** Accounts with replicas of the house, or with its money. */
export async function readHouseMoney(db: Db, accountId?: string): Promise<HouseMoney[]> {
  const rows = await sql<{ account_id: string; per_hour: bigint; free: bigint }>`
    with living as (
      select d.account_id, sum(t.cost_nano_per_hour) as per_hour,
        sum(coalesce(h.amount_nano, 0) + coalesce(s.settled, 0)) as used
      from managed_deployment d
      join replica p on p.deployment_id = d.id and p.state <> 'ended'
      join lateral (select cost_nano_per_hour from term where rental_id = p.rental_id order by n desc limit 1) t on true
      left join hold h on h.key = 'rental:' || p.rental_id
      left join lateral (select sum(settled_nano) as settled from segment where rental_id = p.rental_id) s on true
      where d.is_public group by d.account_id)
    select account_id, coalesce(l.per_hour, 0)::bigint as per_hour,
      (coalesce(m.given_nano, 0) - coalesce(l.used, 0))::bigint as free
    from living l full join house_money m using (account_id)
    where ${accountId ?? null}::text is null or account_id = ${accountId ?? null}`.execute(db)
  return rows.rows.map((row) => ({ accountId: row.account_id, perHour: nanoUsdOf(row.per_hour), free: row.free }))
}

/** `amount` below zero: the money went back to the house. */
export async function noteHouseMoney(tx: Tx, accountId: string, amount: bigint): Promise<void> {
  await sql`insert into house_money (account_id, given_nano) values (${accountId}, ${amount.toString()}::bigint)
    on conflict (account_id) do update set given_nano = house_money.given_nano + excluded.given_nano`.execute(tx.db)
}

/** The cost of a replica of the house is spent when it has ended. */
export async function spendHouseMoney(tx: Tx, accountId: string, rentalId: number): Promise<void> {
  await sql`insert into house_money (account_id, given_nano)
    select ${accountId}, -coalesce(sum(settled_nano), 0)::bigint from segment where rental_id = ${rentalId}
    on conflict (account_id) do update set given_nano = house_money.given_nano + excluded.given_nano`.execute(tx.db)
}

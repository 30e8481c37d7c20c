/** The stage of an account: how far it is trusted. */
import { sql } from 'kysely'
import { type Instant } from '../../base/instant.ts'
import { zeroUsd, type NanoUsd } from '../../base/money.ts'
import { at, type Db } from '../platform/database.ts'

/** A payment that a bank or the processor doubts moves nobody on. */
const isUndisputed = sql`
  not exists (select from payment p join payment_dispute d on d.payment_id = p.id
              where p.account_id = a.id and d.state not in ('won', 'closed'))
  and not exists (select from payment p where p.account_id = a.id and p.fraud_at is not null)`

/** Moves on new accounts whose first payment was made before then. */
export async function advanceStages(db: Db, paidBefore: Instant): Promise<void> {
  await sql`
    update account a set stage = 'paid'
    where a.stage = 'new' and ${isUndisputed}
      and exists (select from payment p where p.account_id = a.id and p.state = 'paid' and p.paid_at <= ${at(paidBefore)})`.execute(
    db,
  )
}

/** undefined: the account has not paid yet. */
export async function findFirstPaidAt(db: Db, accountId: string): Promise<Instant | undefined> {
  const row = await db
    .selectFrom('payment')
    .select('paid_at')
    .where('account_id', '=', accountId)
    .where('state', '=', 'paid')
    .orderBy('paid_at')
    .limit(1)
    .executeTakeFirst()
  return row?.paid_at ?? undefined
}

/** Adds up the prices per hour of rentals and volumes of the account, of stopped ones too. */
export async function readHourlySpend(db: Db, accountId: string): Promise<NanoUsd> {
  const { rows } = await sql<{ nano: NanoUsd }>`select hourly_spend(${accountId}) as nano`.execute(db)
  return rows[0]?.nano ?? zeroUsd
}

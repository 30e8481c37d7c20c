/**
 * Automatic top-ups. The row of an account is locked before anything is decided about a charge, so that servers agree on
 * the last attempt and on what the month has room for. Triggers (schema/0083_auto_top_up.sql) refuse what would break that.
 */
import { sql, type Selectable } from 'kysely'
import { addMs, startOfMonth, toDate, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import { ATTEMPT_EVERY_MS } from '../../domain/auto-top-up.ts'
import { MAX_FAILURES } from '../../domain/auto-top-up-terms.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type AutoTopUp = Selectable<Tables['auto_top_up']>
export type OffReason = NonNullable<AutoTopUp['off_reason']>

export async function findAutoTopUp(db: Db, accountId: string): Promise<AutoTopUp | undefined> {
  return db.selectFrom('auto_top_up').selectAll().where('account_id', '=', accountId).executeTakeFirst()
}

export async function lockAutoTopUp(tx: Tx, accountId: string): Promise<AutoTopUp | undefined> {
  return tx.db.selectFrom('auto_top_up').selectAll().where('account_id', '=', accountId).forUpdate().executeTakeFirst()
}

export interface NewAutoTopUp {
  readonly accountId: string
  readonly below: NanoUsd
  readonly amount: NanoUsd
  readonly cap: NanoUsd
  readonly cardId: string
  readonly consent: {
    readonly personId: string
    readonly keyId: string
    readonly text: string
    readonly address: string | null
  }
}

/** Switches it on. The last attempt stays: switching off and on does not charge more often. */
export async function saveAutoTopUp(tx: Tx, wish: NewAutoTopUp): Promise<void> {
  const now = toDate(tx.clock.now())
  const terms = {
    is_on: true,
    below_nano: wish.below,
    amount_nano: wish.amount,
    cap_nano: wish.cap,
    card_id: wish.cardId,
    failures: 0,
    paused_until: null,
    off_reason: null,
    consent_by: wish.consent.personId,
    consent_key: wish.consent.keyId,
    consent_at: now,
    consent_text: wish.consent.text,
    consent_address: wish.consent.address,
    updated_at: now,
  }
  await tx.db
    .insertInto('auto_top_up')
    .values({ account_id: wish.accountId, ...terms })
    .onConflict((conflict) => conflict.column('account_id').doUpdateSet(terms))
    .execute()
}

/** `reason` null: a person wants it. False: it was off. */
export async function switchOff(tx: Tx, accountId: string, reason: OffReason | null): Promise<boolean> {
  const row = await tx.db
    .updateTable('auto_top_up')
    .set({ is_on: false, off_reason: reason, updated_at: toDate(tx.clock.now()) })
    .where('account_id', '=', accountId)
    .where('is_on', '=', true)
    .returning('account_id')
    .executeTakeFirst()
  return row !== undefined
}

/** False: it is paused already. */
export async function pauseUntil(tx: Tx, accountId: string, until: Instant): Promise<boolean> {
  const row = await tx.db
    .updateTable('auto_top_up')
    .set({ paused_until: toDate(until) })
    .where('account_id', '=', accountId)
    .where((where) => where.or([where('paused_until', 'is', null), where('paused_until', '<', toDate(until) as never)]))
    .returning('account_id')
    .executeTakeFirst()
  return row !== undefined
}

/** Counts a failure; the last one switches it off. undefined: it is off. */
export async function countFailure(tx: Tx, accountId: string): Promise<AutoTopUp | undefined> {
  const isLast = sql<boolean>`failures + 1 >= ${MAX_FAILURES}`
  const { rows } = await sql<AutoTopUp>`
    update auto_top_up set failures = failures + 1, is_on = not ${isLast},
      off_reason = case when ${isLast} then 'failures' end, updated_at = ${at(tx.clock.now())}
    where account_id = ${accountId} and is_on returning *`.execute(tx.db)
  return rows[0]
}

export async function forgetFailures(tx: Tx, accountId: string): Promise<void> {
  await tx.db.updateTable('auto_top_up').set({ failures: 0 }).where('account_id', '=', accountId).execute()
}

/**
 * Whether the account needs a charge, and may be charged. It is asked again under the lock of the row. After a charge that
 * does not match nothing more is charged until the customer agrees anew.
 */
const isDue = (now: Instant, isLive: boolean) => sql`a.is_on
  and (a.attempted_at is null or a.attempted_at <= ${at(addMs(now, -ATTEMPT_EVERY_MS))})
  and (a.paused_until is null or a.paused_until <= ${at(now)})
  and exists (select from ledger_account l where l.account_id = a.account_id and l.kind = 'available'
              and l.balance_nano < a.below_nano)
  and exists (select from saved_card c where c.id = a.card_id and c.removed_at is null and c.is_live = ${isLive})
  and not exists (select from account_debt d where d.account_id = a.account_id and d.owed_nano > 0)
  and not exists (select from payment p where p.account_id = a.account_id and p.kind = 'automatic'
                  and (p.state = 'open' or p.state = 'mismatch' and p.created_at > a.consent_at))`

/** Lists those that have waited longest first. */
export async function listDue(db: Db, query: { now: Instant; isLive: boolean; limit: number }): Promise<string[]> {
  const { rows } = await sql<{ account_id: string }>`
    select a.account_id from auto_top_up a where ${isDue(query.now, query.isLive)}
    order by a.attempted_at nulls first, a.account_id limit ${query.limit}`.execute(db)
  return rows.map(({ account_id }) => account_id)
}

/** undefined: not due any more, or another server is at it. */
export async function lockDue(tx: Tx, accountId: string, isLive: boolean): Promise<AutoTopUp | undefined> {
  const { rows } = await sql<AutoTopUp>`
    select a.* from auto_top_up a where a.account_id = ${accountId} and ${isDue(tx.clock.now(), isLive)}
    for update of a skip locked`.execute(tx.db)
  return rows[0]
}

/** Writes the attempt and the payment that it consists of. The caller has locked the row. */
export async function insertAttempt(
  tx: Tx,
  wish: AutoTopUp,
  payment: { readonly id: string; readonly isLive: boolean; readonly customerId: string; readonly expiresAt: Instant },
): Promise<void> {
  const now = toDate(tx.clock.now())
  await tx.db.updateTable('auto_top_up').set({ attempted_at: now }).where('account_id', '=', wish.account_id).execute()
  await tx.db
    .insertInto('payment')
    .values({
      id: payment.id,
      account_id: wish.account_id,
      is_live: payment.isLive,
      kind: 'automatic',
      state: 'open',
      amount_nano: wish.amount_nano,
      customer_id: payment.customerId,
      card_id: wish.card_id,
      cap_nano: wish.cap_nano,
      due_at: now,
      created_at: now,
      expires_at: toDate(payment.expiresAt),
    })
    .execute()
  tx.wake.add('payments')
}

/** Sums up automatic charges of the month of an instant (UTC), tax included; those that are in progress too. */
export async function sumOfMonth(db: Db, accountId: string, now: Instant, exceptId = ''): Promise<NanoUsd> {
  const { rows } = await sql<{ total: NanoUsd }>`
    select coalesce(sum(amount_nano + coalesce(tax_nano, 0)), 0)::bigint as total from payment
    where account_id = ${accountId} and kind = 'automatic' and state in ('open', 'paid') and id <> ${exceptId}
      and created_at >= ${at(startOfMonth(now))}`.execute(db)
  return rows[0]?.total ?? (0n as NanoUsd)
}

export async function saveCalculation(
  tx: Tx,
  paymentId: string,
  calculation: { readonly calculationId: string; readonly tax: NanoUsd },
): Promise<void> {
  await tx.db
    .updateTable('payment')
    .set({ calculation_id: calculation.calculationId, tax_nano: calculation.tax })
    .where('id', '=', paymentId)
    .where('calculation_id', 'is', null)
    .execute()
}

/** Notes the charge at the processor before its outcome is final. */
export async function saveCharge(db: Db, paymentId: string, intentId: string, failure: string | null): Promise<void> {
  await db
    .updateTable('payment')
    .set({ intent_id: intentId, failure })
    .where('id', '=', paymentId)
    .where('state', '=', 'open')
    .execute()
}

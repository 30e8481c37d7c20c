/** Credits of every kind and outcome, written by the functions that production uses. */
import { sql } from 'kysely'
import { DAY_MS, addMs, toDate } from '../../src/base/instant.ts'
import { usd } from '../../src/base/money.ts'
import { expireCredit } from '../../src/app/payment/expire-credit.ts'
import { createVoucher, redeemVoucher } from '../../src/app/payment/voucher.ts'
import { insertGrant } from '../../src/store/payment/credit-grant.ts'
import { transact } from '../../src/store/platform/database.ts'
import { openAccount, type TestLedger } from './ledger.ts'

/** `acc_guest` has a trial, of which it spends a part before the rest expires, and the credit of a voucher. */
export async function recordCredits(ledger: TestLedger): Promise<void> {
  const actor = await openAccount(ledger, 'guest')
  const { accountId, personId } = actor
  await transact(ledger.database, async (tx) => {
    const trial = { id: 'grant_trial', accountId, kind: 'trial', amount: usd('5'), personId } as const
    const expiresAt = addMs(tx.clock.now(), DAY_MS)
    const posting = { memo: 'Trial credit', actor: null, reason: null }
    await insertGrant(tx, { ...trial, cardFingerprint: 'fp', expiresAt }, posting)
    const at = toDate(tx.clock.now())
    await sql`select ledger_hold('guest:hold', 'guest', ${at}, ${accountId}, 2000000000, 'Hold', null)`.execute(tx.db)
    await sql`select ledger_charge('guest:charge', 'guest', ${at}, 2000000000, 'Charge', null, 0::bigint, null, null, null, null)`.execute(
      tx.db,
    )
  })
  ledger.clock.advance(DAY_MS)
  await expireCredit(ledger.app, 10)
  const order = { amount: usd('7'), uses: 2, usesPerAccount: 1, redeemableUntil: undefined, creditDays: 30, note: '' }
  const created = await transact(ledger.database, (tx) => createVoucher(tx, actor, order))
  if (!created.ok) throw new Error(created.message)
  await ledger.database.db.updateTable('voucher').set({ id: 'vch_guest' }).execute()
  const redeemed = await transact(ledger.database, (tx) => redeemVoucher(tx, actor, created.value.code))
  if (!redeemed.ok) throw new Error(redeemed.message)
}

/** Check | fault | subject it must name | SQL that plants it; see ledger-verify.test.ts. */
export const creditPlants = `
    grants_are_their_postings  | it gave more            | grant grant_trial        | update credit_grant set amount_nano = amount_nano + 1, used_nano = used_nano + 1 where id = 'grant_trial'
    grants_are_their_postings  | never posted            | grant grant_trial        | delete from posting where key = 'grant:grant_trial'
    grants_are_their_postings  | of nobody               | grant:grant_trial        | update credit_grant set posting_key = 'other' where id = 'grant_trial'
    grants_are_their_postings  | of another account      | grant grant_trial        | update credit_grant set account_id = 'acc_debtor' where id = 'grant_trial'
    expired_credit_is_its_postings | took less           | grant grant_trial        | update credit_grant set taken_nano = taken_nano - 1, used_nano = used_nano + 1 where id = 'grant_trial'
    expired_credit_is_its_postings | never posted        | grant grant_trial        | delete from posting where key = 'grant:grant_trial:expiry:1'
    expired_credit_is_its_postings | took before the end | grant grant_trial        | update credit_grant set expires_at = expires_at + interval '1 day' where id = 'grant_trial'
    grants_are_used_by_spending | used without a charge  | acc_guest                | update credit_grant set used_nano = amount_nano, due_at = null, ended_at = granted_at where kind = 'voucher'
    vouchers_are_their_uses    | counts another use      | voucher vch_guest        | update voucher set used = 2
    vouchers_are_their_uses    | a use is gone           | voucher vch_guest        | delete from voucher_use
    vouchers_are_their_uses    | credit without a use    | grant grant_trial        | update credit_grant set kind = 'voucher' where id = 'grant_trial'`

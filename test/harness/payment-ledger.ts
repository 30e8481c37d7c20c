/** A ledger with payments, refunds and disputes of every outcome, written by the functions that production uses. */
import { sql } from 'kysely'
import { DAY_MS, addMs, toDate } from '../../src/base/instant.ts'
import { usd, zeroUsd, type NanoUsd } from '../../src/base/money.ts'
import {
  creditPayment,
  lockPayment,
  returnDispute,
  returnRefund,
  takeDispute,
  takeRefund,
  type Payment,
} from '../../src/store/payment/payment-posting.ts'
import { saveTransactions } from '../../src/store/payment/payment-comparison.ts'
import { transact, type Tx } from '../../src/store/platform/database.ts'
import { openAccount, type TestLedger } from './ledger.ts'

/** Writes a paid payment of `pay_<name>` with the intent `pi_<name>`. */
export async function pay(
  ledger: Pick<TestLedger, 'database' | 'clock'>,
  accountId: string,
  name: string,
  paid: { readonly amount: NanoUsd; readonly tax: NanoUsd; readonly cap?: NanoUsd },
): Promise<void> {
  const now = ledger.clock.now()
  await transact(ledger.database, async (tx) => {
    await tx.db
      .insertInto('payment')
      .values({
        id: `pay_${name}`,
        account_id: accountId,
        is_live: false,
        kind: paid.cap === undefined ? 'checkout' : 'automatic',
        state: 'open',
        amount_nano: paid.amount,
        tax_nano: paid.cap === undefined ? null : paid.tax,
        card_id: paid.cap === undefined ? null : `pm_${accountId}`,
        cap_nano: paid.cap ?? null,
        created_at: toDate(now),
        expires_at: toDate(addMs(now, DAY_MS)),
      })
      .execute()
    const facts = { intentId: `pi_${name}`, chargeId: `ch_${name}`, customerId: `cus_${accountId}`, tax: paid.tax }
    await creditPayment(tx, await lockedPayment(tx, name), facts)
  })
}

export async function refundPayment(ledger: TestLedger, name: string, id: string, amount: NanoUsd) {
  return transact(ledger.database, async (tx) =>
    takeRefund(tx, await lockedPayment(tx, name), { id, amount, actor: 'test', reason: 'a test' }),
  )
}

export async function failRefund(ledger: TestLedger, name: string, id: string): Promise<boolean> {
  return transact(ledger.database, async (tx) => returnRefund(tx, await lockedPayment(tx, name), id, 'expired_card'))
}

/** Takes what a dispute can take now. Call it again after a refund has failed. */
export async function dispute(ledger: TestLedger, name: string, id: string, amount: NanoUsd) {
  const at = toDate(ledger.clock.now())
  return transact(ledger.database, async (tx) => {
    const payment = await lockedPayment(tx, name)
    await sql`insert into payment_dispute (id, payment_id, state, reason, amount_nano, created_at, updated_at)
      values (${id}, ${payment.id}, 'open', 'fraudulent', ${amount.toString()}::bigint, ${at}, ${at})
      on conflict do nothing`.execute(tx.db)
    return takeDispute(tx, payment, await readDispute(tx, id))
  })
}

export async function winDispute(ledger: TestLedger, name: string, id: string): Promise<boolean> {
  return transact(ledger.database, async (tx) => {
    const payment = await lockedPayment(tx, name)
    return returnDispute(tx, payment, await readDispute(tx, id))
  })
}

export async function saveCard(ledger: Pick<TestLedger, 'database' | 'clock'>, accountId: string): Promise<void> {
  const at = toDate(ledger.clock.now())
  await ledger.database.db
    .insertInto('saved_card')
    .values({
      id: `pm_${accountId}`,
      account_id: accountId,
      is_live: false,
      brand: 'visa',
      last4: '4242',
      exp_month: 12,
      exp_year: 2030,
      saved_at: at,
    })
    .execute()
}

export async function readDebt({ database }: Pick<TestLedger, 'database'>, accountId: string): Promise<NanoUsd> {
  const row = await database.db
    .selectFrom('account_debt')
    .select('owed_nano')
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  return row?.owed_nano ?? zeroUsd
}

async function lockedPayment(tx: Tx, name: string): Promise<Payment> {
  const payment = await lockPayment(tx, `pay_${name}`)
  if (payment === undefined) throw new Error(`there is no payment ${name}`)
  return payment
}

async function readDispute(tx: Tx, id: string) {
  return tx.db.selectFrom('payment_dispute').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
}

/** `acc_payer` pays, gets a part back, and wins a dispute; `acc_debtor` has spent what it disputes. */
export async function recordPayments(ledger: TestLedger): Promise<void> {
  const { accountId: payer } = await openAccount(ledger, 'payer')
  const { accountId: debtor } = await openAccount(ledger, 'debtor')
  await saveCard(ledger, payer)
  await ledger.database.db
    .insertInto('auto_top_up')
    .values({
      account_id: payer,
      is_on: true,
      below_nano: usd('20'),
      amount_nano: usd('100'),
      cap_nano: usd('250'),
      card_id: `pm_${payer}`,
      consent_key: 'payerkey',
      consent_at: toDate(ledger.clock.now()),
      consent_text: 'test',
      updated_at: toDate(ledger.clock.now()),
    })
    .execute()
  await pay(ledger, payer, 'first', { amount: usd('100'), tax: usd('19') })
  await pay(ledger, payer, 'second', { amount: usd('100'), tax: usd('19'), cap: usd('250') })
  await pay(ledger, payer, 'untaxed', { amount: usd('50'), tax: usd('0') })
  await refundPayment(ledger, 'first', 'rfd_part', usd('33.33'))
  await refundPayment(ledger, 'first', 'rfd_failed', usd('10'))
  await failRefund(ledger, 'first', 'rfd_failed')
  await dispute(ledger, 'second', 'dp_won', usd('119'))
  await winDispute(ledger, 'second', 'dp_won')
  await pay(ledger, debtor, 'spent', { amount: usd('30'), tax: usd('5.70') })
  await refundPayment(ledger, 'spent', 'rfd_small', usd('5'))
  await ledger.database.db
    .updateTable('payment_refund')
    .set({ state: 'succeeded', due_at: null })
    .where('id', '=', 'rfd_small')
    .execute()
  // It spends 20 of the 25 that are left; a deposit repays a part of the debt.
  await transact(ledger.database, async (tx) => {
    await sql`select ledger_hold('debtor:hold', 'debtor', ${toDate(tx.clock.now())}, ${debtor}, 20000000000, 'Spent', null)`.execute(
      tx.db,
    )
  })
  await dispute(ledger, 'spent', 'dp_spent', usd('29.75'))
  await pay(ledger, debtor, 'repays', { amount: usd('7'), tax: usd('0') })
  const at = ledger.clock.now()
  const line = { cents: 11_900, currency: 'usd', at } as const
  await transact(ledger.database, (tx) =>
    saveTransactions(tx, false, [
      { ...line, id: 'txn_charge', kind: 'charge', sourceId: 'ch_first', feeCents: 376 },
      { ...line, id: 'txn_back', kind: 'dispute', sourceId: 'dp_won', feeCents: -1_500 },
      { ...line, id: 'txn_fee', kind: 'fee', sourceId: null, cents: -200, feeCents: 0 },
    ]),
  )
}

/** Check | fault | subject it must name | SQL that plants it; see ledger-verify.test.ts. */
export const paymentPlants = `
    payments_are_their_postings | credited more          | payment pay_first        | update payment set amount_nano = amount_nano - 10000000 where id = 'pay_first'
    payments_are_their_postings | other tax              | payment pay_first        | update payment set tax_nano = tax_nano - 10000000 where id = 'pay_first'
    payments_are_their_postings | never credited         | payment pay_untaxed      | delete from posting where key = 'stripe:pi_untaxed'
    payments_are_their_postings | of nobody              | stripe:pi_untaxed        | update payment set state = 'open' where id = 'pay_untaxed'
    payments_are_their_postings | of another account     | payment pay_untaxed      | update payment set account_id = 'acc_debtor' where id = 'pay_untaxed'
    refunds_are_their_postings | never taken             | refund rfd_part          | delete from posting where key = 'stripe-refund:rfd_part'
    refunds_are_their_postings | did not come back       | refund rfd_failed        | delete from posting where key = 'stripe-refund:rfd_failed:return'
    refunds_are_their_postings | came back for nothing   | stripe-refund:rfd_failed:return | update payment_refund set state = 'sent' where id = 'rfd_failed'
    refunds_are_their_postings | another amount          | refund rfd_part          | update payment_refund set amount_nano = amount_nano + 10000000 where id = 'rfd_part'
    disputes_are_their_postings | took less              | dispute dp_spent         | update payment_dispute set taken_nano = taken_nano - 1 where id = 'dp_spent'
    disputes_are_their_postings | took other tax         | dispute dp_spent         | update payment_dispute set tax_nano = tax_nano - 1 where id = 'dp_spent'
    disputes_are_their_postings | never given back       | dispute dp_won           | delete from posting where key = 'stripe-dispute:dp_won:return'
    disputes_are_their_postings | given back for nothing | dispute dp_won           | update payment_dispute set is_returned = false where id = 'dp_won'
    disputes_are_their_postings | of nobody              | dispute dp_won           | delete from payment_dispute where id = 'dp_won'
    payments_are_not_overdrawn | refund beside dispute   | payment pay_spent        | update payment_refund set amount_nano = amount_nano + 10000000 where id = 'rfd_small'
    payments_are_not_overdrawn | of an unpaid one        | payment pay_first        | update payment set state = 'open' where id = 'pay_first'
    tax_is_what_was_paid       | a payment says more     | tax                      | update payment set tax_nano = tax_nano + 10000000 where id = 'pay_first'
    tax_is_what_was_paid       | a refund kept it        | tax                      | update payment_refund set tax_nano = 0 where id = 'rfd_part'
    debts_are_what_was_lent    | it owes less            | acc_debtor               | update account_debt set owed_nano = owed_nano - 1
    debts_are_what_was_lent    | the debt is gone        | acc_debtor               | delete from account_debt
    debt_is_repaid_first       | money beside a debt     | acc_debtor               | update ledger_account set balance_nano = 1 where account_id = 'acc_debtor' and kind = 'available'
    processor_fees_are_its_transactions | never booked  | transaction txn_charge   | delete from posting where key = 'stripe-fee:txn_charge'
    processor_fees_are_its_transactions | another fee   | transaction txn_fee      | update processor_transaction set cents = -201 where id = 'txn_fee'
    processor_fees_are_its_transactions | of nothing    | stripe-fee:txn_back      | delete from processor_transaction where id = 'txn_back'
    automatic_payments_stay_within_caps | more than it  | payment pay_second       | update payment set cap_nano = 118990000000 where id = 'pay_second'`

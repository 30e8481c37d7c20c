/**
 * A server that takes payments is killed (SIGKILL) again and again while customers pay, banks dispute, operators refund and
 * pay suppliers.
 * Afterwards Stripe's objects, the rows and the ledger must agree: nothing is lost, and nothing is doubled.
 */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { usd } from '../src/base/money.ts'
import { crashPayments, type PaymentCrash } from './lab/payment-crash.ts'
import { needs } from './needs.ts'
import type { Json } from './sim/stripe-object.ts'

needs('kills')

const KILLS = Number.parseInt(process.env.BERTH_TEST_PAYMENT_KILLS ?? '6', 10)
/** A kill takes about three seconds, ten on a busy machine; the end of a run two minutes at most. */
const TIMEOUT_MS = 5 * 60_000 + KILLS * 15_000
const CENT = usd('0.01')

let crash: PaymentCrash
beforeAll(async () => {
  crash = await crashPayments(KILLS)
}, TIMEOUT_MS)
afterAll(() => crash?.close())

const amountOf = (row: Json): bigint => BigInt(row['amount'] as number) * CENT
const textOf = (row: Json, name: string): string => String(row[name])

describe(`promise 40: ${KILLS} kills during top-ups, refunds, disputes and payouts`, () => {
  test('every answered top-up is one payment, with one page and one customer for each account', async () => {
    const { stripe, database, answered } = crash
    const payments = await database.db.selectFrom('payment').select('id').execute()
    expect(payments.map(({ id }) => id).toSorted()).toEqual([...answered.values()].toSorted())
    expect(answered.size).toBeGreaterThanOrEqual(KILLS)
    const references = stripe.all('checkout.session').map((one) => textOf(one, 'client_reference_id'))
    expect(references).toHaveLength(new Set(references).size)
    const profiles = await database.db.selectFrom('billing_profile').select('customer_id').execute()
    expect(stripe.all('customer').map(({ id }) => id)).toHaveLength(profiles.length)
  })

  test('exactly what Stripe was paid is credited, once', async () => {
    const { stripe, database } = crash
    const rows = await database.db.selectFrom('payment').selectAll().where('state', '=', 'paid').execute()
    const credited = rows.map(({ id, intent_id: intent, amount_nano: amount }) => [id, intent, amount])
    const paid = stripe
      .all('checkout.session')
      .filter((one) => one['payment_status'] === 'paid')
      .map((one) => [
        textOf(one, 'client_reference_id'),
        textOf(one, 'payment_intent'),
        BigInt(one['amount_subtotal'] as number) * CENT,
      ])
    expect(byFirst(credited)).toEqual(byFirst(paid))
    expect(paid.length).toBeGreaterThan(0)
    const states = await database.db.selectFrom('payment').select('state').distinct().execute()
    expect(states.map(({ state }) => state)).not.toContain('mismatch')
  })

  test('promise 45: each refund is one refund at Stripe, or came back', async () => {
    const { stripe, database } = crash
    const rows = await database.db.selectFrom('payment_refund').selectAll().where('state', '<>', 'failed').execute()
    const kept = rows.map(({ id, state, amount_nano: amount, tax_nano: tax }) => [id, state, amount + tax])
    const refunds = stripe.all('refund').filter(({ status }) => status !== 'failed')
    const sent = refunds.map((one) => [
      textOf(one['metadata'] as Json, 'berth_refund'),
      textOf(one, 'status'),
      amountOf(one),
    ])
    expect(byFirst(kept)).toEqual(byFirst(sent))
  })

  test('promise 47: each dispute has taken what Stripe withdrew, and no more', async () => {
    const { stripe, database } = crash
    const rows = await database.db.selectFrom('payment_dispute').selectAll().execute()
    const taken = rows.map((row) => [row.id, row.is_returned ? 0n : row.taken_nano + row.tax_nano])
    const withdrawn = stripe.all('dispute').map((one) => {
      const balance = (one['balance_transactions'] as Json[]).reduce((sum, row) => sum + amountOf(row), 0n)
      return [textOf(one, 'id'), -balance]
    })
    expect(byFirst(taken)).toEqual(byFirst(withdrawn))
  })

  test('promises 60 and 62: each payout is one transfer at Stripe, less what was reversed, or came back', async () => {
    const { stripe, database } = crash
    const payouts = await database.db.selectFrom('payout').selectAll().where('state', '<>', 'canceled').execute()
    expect(payouts.filter(({ state }) => !['draft', 'paid', 'failed'].includes(state))).toEqual([])
    const kept = payouts
      .filter((payout) => payout.transfer_id !== null)
      .map((payout) => [payout.id, payout.transfer_id, payout.amount_nano, payout.returned_nano])
    const sent = stripe
      .all('transfer')
      .map((one) => [
        textOf(one, 'transfer_group'),
        textOf(one, 'id'),
        amountOf(one),
        BigInt(one['amount_reversed'] as number) * CENT,
      ])
    expect(byFirst(kept)).toEqual(byFirst(sent))
    expect(sent.length).toBeGreaterThan(0)
    const withoutTransfer = payouts.filter(({ state, transfer_id: transfer }) => state !== 'draft' && transfer === null)
    expect(withoutTransfer.every((payout) => payout.returned_nano === payout.amount_nano)).toBe(true)
  })

  test("each account's money at the processor is what Stripe's balance transactions say", async () => {
    const { rows } = await sql<{ customer: string; nano: bigint }>`
      select b.customer_id as customer,
             sum(case when t.from_id = l.id then t.amount_nano else -t.amount_nano end)::bigint as nano
      from ledger_account l join transfer t on l.id in (t.from_id, t.to_id) join posting p on p.id = t.posting_id
      join billing_profile b on b.account_id = p.account_id
      where l.kind = 'processor' group by 1`.execute(crash.database.db)
    const sums = new Map<string, bigint>()
    const ofCustomers = crash.stripe
      .all('balance_transaction')
      .filter((row) => !textOf(row, 'type').startsWith('transfer'))
    for (const row of ofCustomers) {
      const customer = customerOf(textOf(row, 'source'))
      sums.set(customer, (sums.get(customer) ?? 0n) + amountOf(row))
    }
    expect(byFirst(rows.map(({ customer, nano }) => [customer, nano]))).toEqual(byFirst([...sums]))
  })

  test('the ledger adds up, and no operator has to look into anything but disputes and reversed payouts', async () => {
    const { body } = await crash.operator('GET', '/v2/operator/ledger/verify')
    expect(body).toMatchObject({ ok: true, findings: [] })
    const alerts = await crash.database.db.selectFrom('payment_alert').selectAll().execute()
    expect(alerts.filter(({ kind }) => kind !== 'dispute' && kind !== 'payout')).toEqual([])
    const counts = ['checkout.session', 'payment_intent', 'refund', 'dispute', 'transfer'].map(
      (kind) => `${crash.stripe.all(kind).length} ${kind}s`,
    )
    process.stdout.write(
      `${KILLS} kills: ${counts.join(', ')}, ${crash.stripe.calls.length} calls, ${crash.stripe.events.length} messages, ${crash.messages.lost} of them lost, ${crash.messages.accepted} deliveries\n`,
    )
  })
})

function customerOf(source: string): string {
  const object = crash.stripe.get(source)
  return textOf(crash.stripe.get(textOf(object, 'payment_intent')), 'customer')
}

function byFirst<T extends readonly unknown[]>(rows: readonly T[]): T[] {
  return rows.toSorted((a, b) => (String(a[0]) < String(b[0]) ? -1 : 1))
}

/** Trials and vouchers over HTTP, against a simulated Stripe. */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS, toDate } from '../src/base/instant.ts'
import { limits } from '../src/base/limits.ts'
import { usd, zeroUsd } from '../src/base/money.ts'
import { sweepExpired } from '../src/reconcile/expire.ts'
import { proveAddress } from '../src/store/account/person.ts'
import { transact } from '../src/store/platform/database.ts'
import { payTopUp, startPaying, topUp, rowOf, type Paying } from './harness/paying.ts'
import type { Call } from './harness/server.ts'
import { cards } from './sim/stripe-object.ts'

let paying: Paying
beforeAll(async () => {
  paying = await startPaying({ env: { BERTH_TRIAL_USD: '5', BERTH_TRIAL_DAYS: '14' } })
})
afterAll(() => paying.close())

const { signal } = new AbortController()
const sweep = () => sweepExpired(paying.app).run(signal)
const credits = async (call: Call) => (await call('GET', '/v2/billing/credits')).body
let numbers = 4_242_000_000_000_000

/** A card that nobody else has. */
function newCard() {
  numbers += 1
  return { number: String(numbers), brand: 'visa' }
}

/** An account whose owner has proved the address. */
async function openAccount() {
  const account = await paying.account({ sshKey: false })
  const { id: personId } = (await account.call('GET', '/v2/users/me')).body as { id: string }
  await transact(paying.app.database, (tx) => proveAddress(tx, personId))
  return { ...account, personId }
}

async function setUp(call: Call) {
  const { status, body } = await call('POST', '/v2/billing/card-setups')
  expect([status, body.state]).toEqual([200, 'open'])
  const { id } = body as { id: string }
  const row = await paying.app.database.db
    .selectFrom('card_setup')
    .select('session_id')
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  return { id, sessionId: row.session_id ?? '', url: String(body.url) }
}

/** Saves the card on the page, and lets the message arrive. */
async function saveCard(call: Call, card = newCard(), changes = {}) {
  const { id, sessionId } = await setUp(call)
  paying.stripe.saveCard(sessionId, card, changes)
  await paying.deliver()
  await paying.settle()
  return (await call('GET', `/v2/billing/card-setups/${id}`)).body
}

describe('promise 50: a trial', () => {
  test('comes with the first card that is saved, is told, and expires', async () => {
    const { id: accountId, call } = await openAccount()
    expect((await credits(call)).trial).toEqual({ amountUsd: '5.000000000', days: 14, state: 'available' })
    expect(await saveCard(call)).toMatchObject({ state: 'done', url: null, failure: null })
    expect(await paying.available(accountId)).toBe(usd('5'))
    expect(await credits(call)).toMatchObject({
      unspentUsd: '5.000000000',
      trial: { state: 'given' },
      credits: [{ kind: 'trial', amountUsd: '5.000000000', unspentUsd: '5.000000000', expiredUsd: '0.000000000' }],
    })
    expect((await call('GET', '/v2/billing/cards')).body.cards).toMatchObject([{ brand: 'visa' }])
    paying.clock.advance(14 * DAY_MS - 1_000)
    await sweep()
    expect(await paying.available(accountId)).toBe(usd('5'))
    paying.clock.advance(1_000)
    await sweep()
    expect(await paying.available(accountId)).toBe(zeroUsd)
    expect((await credits(call)).credits).toMatchObject([{ unspentUsd: '0.000000000', expiredUsd: '5.000000000' }])
    const { lines } = (await call('GET', '/v2/customer/statement')).body as { lines: object[] }
    expect(lines[0]).toMatchObject({ kind: 'credit_expiry', amountUsd: '-5.000000000' })
    expect(await paying.findings()).toEqual([])
  })

  test('comes with the first payment as well, and its money is not refunded to the card', async () => {
    const { id: accountId, call } = await openAccount()
    const { id } = await topUp(call, '20')
    paying.stripe.pay((await rowOf(paying.app, id)).session_id ?? '', newCard())
    await paying.deliver()
    await paying.settle()
    expect(await paying.available(accountId)).toBe(usd('25'))
    // It spends 10: the trial, and 5 of what was paid.
    await spend(accountId, '10')
    const refund = (amountUsd: string) =>
      paying.operator('POST', `/v2/operator/payments/${id}/refund`, { amountUsd, reason: 'a test' })
    await give(accountId, '8')
    expect((await refund('15.01')).body.reason).toBe('insufficient_balance')
    expect((await refund('15')).status).toBe(200)
    expect(await paying.available(accountId)).toBe(usd('8'))
    expect(await paying.findings()).toEqual([])
  })

  test('is given once per card, also with several accounts at once', async () => {
    const card = newCard()
    const accounts = await Promise.all([openAccount(), openAccount(), openAccount(), openAccount()])
    for (const { call } of accounts) paying.stripe.saveCard((await setUp(call)).sessionId, card)
    await paying.deliver()
    await Promise.all([paying.settle(), paying.settle(), paying.settle()])
    await paying.settle()
    const balances = await Promise.all(accounts.map(({ id }) => paying.available(id)))
    expect(balances.filter((balance) => balance > 0n)).toEqual([usd('5')])
  })

  test('is given once per person and once per account, whatever the card', async () => {
    const first = await openAccount()
    await saveCard(first.call)
    await saveCard(first.call)
    expect(await paying.available(first.id)).toBe(usd('5'))
    const second = await openAccount()
    const setup = await setUp(second.call)
    await paying.app.database.db
      .updateTable('card_setup')
      .set({ person_id: first.personId })
      .where('id', '=', setup.id)
      .execute()
    paying.stripe.saveCard(setup.sessionId, newCard())
    await paying.deliver()
    await paying.settle()
    expect(await paying.available(second.id)).toBe(zeroUsd)
  })

  test('needs a proved address, a fingerprint, a good card, and a page that is ours', async () => {
    const unproved = await paying.account({ sshKey: false })
    expect(await saveCard(unproved.call)).toMatchObject({ state: 'done' })
    const declined = await openAccount()
    expect(await saveCard(declined.call, cards.declined)).toMatchObject({ state: 'open' })
    const foreign = await openAccount()
    const failed = await saveCard(foreign.call, newCard(), { client_reference_id: 'setup_other' })
    expect(failed).toMatchObject({ state: 'failed', failure: expect.stringContaining('reference') })
    const paid = await openAccount()
    expect(await saveCard(paid.call, newCard(), { mode: 'payment' })).toMatchObject({ state: 'failed' })
    for (const { id } of [unproved, declined, foreign, paid]) expect(await paying.available(id)).toBe(zeroUsd)
  })

  test('a card is also saved without any message, and a lost answer makes no second page', async () => {
    const { id: accountId, call } = await openAccount()
    paying.stripe.faults.push(undefined, 'after')
    const first = (await call('POST', '/v2/billing/card-setups')).body as { id: string; url: string | null }
    expect(first.url).toBeNull()
    paying.clock.advance(HOUR_MS / 60)
    await paying.settle()
    const row = paying.app.database.db.selectFrom('card_setup').selectAll().where('id', '=', first.id)
    const { session_id: sessionId } = await row.executeTakeFirstOrThrow()
    expect(paying.stripe.all('checkout.session').filter((one) => one['client_reference_id'] === first.id)).toHaveLength(
      1,
    )
    paying.stripe.saveCard(sessionId ?? '', newCard())
    paying.clock.advance(HOUR_MS)
    await paying.settle()
    expect(await paying.available(accountId)).toBe(usd('5'))
    const { call: stranger } = await openAccount()
    expect((await stranger('GET', `/v2/billing/card-setups/${first.id}`)).body.reason).toBe('card_setup_not_found')
  })
})

describe('promise 51: a voucher', () => {
  const create = async (body: object) => {
    const reply = await paying.operator('POST', '/v2/operator/vouchers', body)
    if (reply.status !== 200) throw new Error(JSON.stringify(reply.body))
    return reply.body as { code: string; voucher: { id: string } }
  }
  const redeem = (call: Call, code: string) => call('POST', '/v2/billing/vouchers/redeem', { code })
  const forget = () => paying.app.database.db.deleteFrom('voucher_try').execute()

  test('of three uses gives three, when twelve ask at once', async () => {
    const { code, voucher } = await create({ amountUsd: '7.50', uses: 3 })
    const accounts = await Promise.all(Array.from({ length: 12 }, () => paying.account({ sshKey: false })))
    const replies = await Promise.all(accounts.map(({ call }) => redeem(call, code)))
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(3)
    expect(new Set(replies.filter(({ status }) => status !== 200).map(({ body }) => body.reason))).toEqual(
      new Set(['voucher_used_up']),
    )
    const balances = await Promise.all(accounts.map(({ id }) => paying.available(id)))
    expect(balances.filter((balance) => balance === usd('7.5'))).toHaveLength(3)
    const { vouchers } = (await paying.operator('GET', '/v2/operator/vouchers')).body as { vouchers: object[] }
    expect(vouchers).toContainEqual(expect.objectContaining({ id: voucher.id, used: 3, uses: 3 }))
    await forget()
  })

  test('is redeemed as often as one account may, also at once and however it is typed', async () => {
    const { code } = await create({ amountUsd: '2', uses: 10, usesPerAccount: 2, creditDays: 30 })
    const { id, call } = await paying.account({ sshKey: false })
    const forms = [code, code.toLowerCase(), code.replaceAll('-', ''), ` ${code.replaceAll('0', 'o')} `]
    const replies = await Promise.all(forms.map((form) => redeem(call, form)))
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(2)
    expect(replies.filter(({ body }) => body.reason === 'voucher_redeemed')).toHaveLength(2)
    expect(await paying.available(id)).toBe(usd('4'))
    const expiresAt = new Date(paying.clock.now() + 30 * DAY_MS).toISOString()
    expect((await credits(call)).credits).toMatchObject([{ kind: 'voucher', expiresAt }, { expiresAt }])
    await forget()
  })

  test('that has ended, was revoked or is unknown gives nothing', async () => {
    const { call } = await paying.account({ sshKey: false })
    const redeemableUntil = new Date(paying.clock.now() + HOUR_MS).toISOString()
    const timed = await create({ amountUsd: '2', uses: 2, redeemableUntil })
    const revoked = await create({ amountUsd: '2' })
    expect((await paying.operator('DELETE', `/v2/operator/vouchers/${revoked.voucher.id}`)).status).toBe(200)
    expect((await redeem(call, revoked.code)).body.reason).toBe('voucher_ended')
    expect((await redeem(call, timed.code)).status).toBe(200)
    paying.clock.advance(HOUR_MS)
    const { call: other } = await paying.account({ sshKey: false })
    expect((await redeem(other, timed.code)).body.reason).toBe('voucher_ended')
    expect((await redeem(other, '0000-0000-0000-0000')).body.reason).toBe('voucher_not_found')
    expect((await paying.operator('DELETE', '/v2/operator/vouchers/vch_none')).body.reason).toBe('voucher_not_found')
    await forget()
  })

  test('is stored as a hash, and shown once', async () => {
    const { code } = await create({ amountUsd: '2' })
    const { rows } = await sql<{ text: string }>`select to_jsonb(v)::text as text from voucher v`.execute(
      paying.app.database.db,
    )
    for (const { text } of rows) expect(text.includes(code) || text.includes(code.replaceAll('-', ''))).toBe(false)
    expect(JSON.stringify((await paying.operator('GET', '/v2/operator/vouchers')).body)).not.toContain(code)
    const faulty = await paying.operator('POST', '/v2/operator/vouchers', { amountUsd: '2', usesPerAccount: 2 })
    expect(JSON.stringify(faulty.body)).toContain('uses_per_account_range')
  })

  test('guesses are limited per account, also at once; right codes do not count', async () => {
    const { code } = await create({ amountUsd: '1', uses: 100, usesPerAccount: 100 })
    const { call } = await paying.account({ sshKey: false })
    for (let n = 0; n < limits.voucherTriesPerHour + 2; n += 1) expect((await redeem(call, code)).status).toBe(200)
    const guesses = await Promise.all(
      Array.from({ length: limits.voucherTriesPerHour + 5 }, (_, n) => redeem(call, `1111-1111-1111-11${n + 10}`)),
    )
    const reasons = guesses.map(({ body }) => body.reason)
    expect(reasons.filter((reason) => reason === 'voucher_not_found')).toHaveLength(limits.voucherTriesPerHour)
    expect(reasons.filter((reason) => reason === 'too_many_voucher_tries')).toHaveLength(5)
    expect((await redeem(call, code)).body.reason).toBe('too_many_voucher_tries')
    paying.clock.advance(HOUR_MS)
    expect((await redeem(call, code)).status).toBe(200)
  })

  test('guesses are limited per network, whatever the account', async () => {
    await forget()
    const accounts = limits.voucherTriesPerHourAndNetwork / limits.voucherTriesPerHour
    const guess = '2222-2222-2222-2222'
    for (let n = 0; n < accounts; n += 1) {
      const { call } = await paying.account({ sshKey: false })
      for (let k = 0; k < limits.voucherTriesPerHour; k += 1)
        expect((await redeem(call, guess)).body.reason).toBe('voucher_not_found')
    }
    const { call } = await paying.account({ sshKey: false })
    expect((await redeem(call, guess)).body.reason).toBe('too_many_voucher_tries')
    await forget()
  })

  test('gives nothing to an account in debt', async () => {
    const { code } = await create({ amountUsd: '5' })
    const { id: accountId, call } = await paying.account({ sshKey: false })
    const { intentId } = await payTopUp(paying, call)
    await paying.deliver()
    await paying.settle()
    await spend(accountId, '90')
    paying.stripe.dispute(intentId)
    await paying.deliver()
    await paying.settle()
    expect((await redeem(call, code)).body.reason).toBe('account_in_debt')
    expect(await paying.findings()).toEqual([])
  })
})

test('a gift of the operator can expire; money that was paid cannot', async () => {
  const { id: accountId, call } = await paying.account({ sshKey: false })
  const path = `/v2/operator/accounts/${accountId}/credit`
  const credit = (body: object) => paying.operator('POST', path, { amountUsd: '10', reason: 'a test', ...body })
  expect(JSON.stringify((await credit({ expiresInDays: 7 })).body)).toContain('purchase_does_not_expire')
  expect((await credit({ kind: 'credit', expiresInDays: 7 })).status).toBe(200)
  expect((await credit({})).status).toBe(200)
  expect(await credits(call)).toMatchObject({ unspentUsd: '10.000000000', credits: [{ kind: 'operator' }] })
  await spend(accountId, '4')
  paying.clock.advance(7 * DAY_MS)
  await sweep()
  expect(await paying.available(accountId)).toBe(usd('10'))
  expect(await paying.findings()).toEqual([])
})

/** Charges the account, as the meter does. */
async function spend(accountId: string, amountUsd: string): Promise<void> {
  const key = `test:${accountId}:${paying.clock.now()}:${amountUsd}`
  const [at, nano] = [toDate(paying.clock.now()), usd(amountUsd).toString()]
  await transact(paying.app.database, async (tx) => {
    await sql`select ledger_hold(${`${key}:hold`}, ${key}, ${at}, ${accountId}, ${nano}::bigint, 'Hold', null)`.execute(
      tx.db,
    )
    await sql`select ledger_charge(${key}, ${key}, ${at}, ${nano}::bigint, 'Charge', null, 0::bigint, null, null, null, null)`.execute(
      tx.db,
    )
  })
}

async function give(accountId: string, amountUsd: string): Promise<void> {
  const body = { amountUsd, reason: 'a test', kind: 'credit' }
  expect((await paying.operator('POST', `/v2/operator/accounts/${accountId}/credit`, body)).status).toBe(200)
}

/** Money never moves twice, balances stay above zero, refunds never exceed payments, and every move is audited. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  openOperator,
  openTestAccount,
  startIdentityTest,
  type IdentityTest,
  type TestAccount,
} from '../../../test/harness/identity.ts'
import { toDate } from '../../base/instant.ts'
import { usd, zeroUsd } from '../../base/money.ts'
import { listAudit } from '../../store/platform/audit.ts'
import { transact } from '../../store/platform/database.ts'
import { listEvents } from '../../store/notice/event.ts'
import { chargeHold, placeHold, readBalances } from '../../store/ledger/ledger.ts'
import { adjustAccount, creditAccount, payOutSupplier, refundCharge, type MoneyInput } from './operator-money.ts'

let fixture: IdentityTest
let operator: TestAccount
beforeAll(async () => {
  fixture = await startIdentityTest()
  operator = await openOperator(fixture)
})
afterAll(() => fixture.close())

let keys = 0
function input(accountId: string, amount: string, key = `key-${(keys += 1)}`): MoneyInput {
  return { accountId, amount: usd(amount), reason: 'because of a test', idempotencyKey: key }
}
const credit = (given: MoneyInput, kind: 'purchase' | 'credit' = 'purchase') =>
  transact(fixture.database, (tx) => creditAccount(tx, operator.actor, { ...given, kind }))
const adjust = (given: MoneyInput) => transact(fixture.database, (tx) => adjustAccount(tx, operator.actor, given))
const refund = (given: MoneyInput, rentalId: number) =>
  transact(fixture.database, (tx) => refundCharge(tx, operator.actor, { ...given, rentalId }))
const payOut = (given: MoneyInput) => transact(fixture.database, (tx) => payOutSupplier(tx, operator.actor, given))
const available = async (accountId: string) => (await readBalances(fixture.database.db, accountId)).available

/** `share` of its charges went to the supplier. */
async function rentalCharged(account: TestAccount, amount: string, supplier?: TestAccount, share = '0') {
  const now = toDate(fixture.clock.now())
  const { id } = await fixture.database.db
    .insertInto('rental')
    .values({
      account_id: account.accountId,
      person_id: account.actor.personId,
      kind: 'container',
      name: `rental-${(keys += 1)}`,
      region: 'mock-region',
      cluster_name: 'mock',
      gpu_count: 1,
      network_type: 'ethernet',
      driver: 'mock',
      spec: '{}',
      status_since: now,
      created_at: now,
      due_at: now,
    })
    .returning('id')
    .executeTakeFirstOrThrow()
  const holdKey = `rental:${id}`
  await transact(fixture.database, async (tx) => {
    const { accountId } = account
    await placeHold(tx, { postingKey: `h:${id}`, holdKey, accountId, amount: usd(amount), memo: 'hold' })
    await chargeHold(tx, {
      postingKey: `c:${id}`,
      holdKey,
      amount: usd(amount),
      memo: 'charge',
      supplierId: supplier?.accountId ?? null,
      supplierAmount: usd(share),
      rentalId: id,
      volumeId: null,
      apiKeyId: null,
    })
  })
  return id
}

describe('credit', () => {
  test('a purchase comes from funding, a gift from adjustments; both record an event and wake the loops', async () => {
    const { accountId } = await openTestAccount(fixture)
    fixture.woken.length = 0
    const bought = await credit(input(accountId, '12.50'))
    expect(bought).toMatchObject({ ok: true, value: { replayed: false, balances: { available: usd('12.5') } } })
    expect(await credit(input(accountId, '0.000000001'), 'credit')).toMatchObject({ ok: true })
    expect(await available(accountId)).toBe(usd('12.500000001'))
    expect(fixture.woken).toEqual(expect.arrayContaining(['meter', 'volumes', `events:${accountId}`]))
    const events = await listEvents(fixture.database.db, accountId, { type: 'balance.credited', limit: 5 })
    expect(events.map((event) => event.data)).toEqual([
      { amountUsd: '0.000000001', kind: 'credit', availableUsd: '12.500000001' },
      { amountUsd: '12.500000000', kind: 'purchase', availableUsd: '12.500000000' },
    ])
    const rows = await fixture.database.db
      .selectFrom('posting')
      .select(['kind', 'actor', 'reason'])
      .where('account_id', '=', accountId)
      .orderBy('id')
      .execute()
    const { keyId: actor } = operator.actor
    const reason = 'because of a test'
    expect(rows).toEqual([
      { kind: 'purchase', actor, reason },
      { kind: 'credit', actor, reason },
    ])
    const audit = await listAudit(fixture.database.db, { accountId, limit: 5 })
    expect(audit).toMatchObject([
      { actor, reason, action: 'balance.credit' },
      { actor, reason, action: 'balance.purchase', detail: { amountUsd: '12.500000000' } },
    ])
  })

  test('the same key moves money once, even concurrently, and reports the duplicate', async () => {
    const { accountId } = await openTestAccount(fixture)
    const given = input(accountId, '3')
    const results = await Promise.all(Array.from({ length: 8 }, () => credit(given)))
    expect(results.filter((result) => result.ok && !result.value.replayed)).toHaveLength(1)
    expect(results.filter((result) => result.ok && result.value.replayed)).toHaveLength(7)
    expect(await available(accountId)).toBe(usd('3'))
    expect(await listAudit(fixture.database.db, { accountId, limit: 5 })).toHaveLength(1)
  })

  test('rejects the same key for another move, even with equal transfers', async () => {
    const { accountId } = await openTestAccount(fixture)
    const given = input(accountId, '3')
    await credit(given, 'credit')
    const reused = { kind: 'conflict', reason: 'idempotency_key_reused' }
    expect(await credit({ ...given, amount: usd('4') }, 'credit')).toMatchObject(reused)
    expect(await credit(given)).toMatchObject(reused)
    expect(await adjust(given)).toMatchObject(reused)
    expect(await available(accountId)).toBe(usd('3'))
  })

  test('keys are separate per account, and may be long', async () => {
    const [one, two] = [await openTestAccount(fixture), await openTestAccount(fixture)]
    const key = 'k'.repeat(255)
    expect(await credit(input(one.accountId, '1', key))).toMatchObject({ ok: true, value: { replayed: false } })
    expect(await credit(input(two.accountId, '1', key))).toMatchObject({ ok: true, value: { replayed: false } })
    expect(await credit(input(two.accountId, '1', key))).toMatchObject({ ok: true, value: { replayed: true } })
  })

  test('rejects an unknown account and a balance beyond the limit', async () => {
    expect(await credit(input('acc_none', '1'))).toMatchObject({ kind: 'not_found' })
    const { accountId } = await openTestAccount(fixture)
    const results = []
    for (let n = 0; n < 6; n += 1) results.push(await credit(input(accountId, '999999999')))
    expect(results.map((result) => result.ok)).toEqual([true, true, true, true, false, false])
    expect(results.at(-1)).toMatchObject({ kind: 'invalid', issues: [{ path: ['amountUsd'] }] })
  })
})

describe('adjust', () => {
  test('adds and subtracts, never below zero and never by zero', async () => {
    const { accountId } = await openTestAccount(fixture)
    expect(await adjust(input(accountId, '5'))).toMatchObject({ ok: true })
    expect(await adjust(input(accountId, '-2'))).toMatchObject({
      ok: true,
      value: { balances: { available: usd('3') } },
    })
    expect(await adjust(input(accountId, '-3.000000001'))).toMatchObject({
      kind: 'insufficient_balance',
      reason: 'insufficient_balance',
    })
    expect(await adjust(input(accountId, '-0'))).toMatchObject({ kind: 'invalid', issues: [{ path: ['amountUsd'] }] })
    expect(await adjust(input(accountId, '-3'))).toMatchObject({ ok: true })
    expect(await available(accountId)).toBe(zeroUsd)
    const events = await listEvents(fixture.database.db, accountId, { type: 'balance.adjusted', limit: 5 })
    expect(events.map((event) => event.data['amountUsd'])).toEqual(['-3.000000000', '-2.000000000', '5.000000000'])
    expect(await listAudit(fixture.database.db, { accountId, limit: 9 })).toHaveLength(3)
  })
})

describe('refund', () => {
  test('refunds at most the charges less earlier refunds; the supplier keeps its share', async () => {
    const account = await openTestAccount(fixture, { balance: usd('10') })
    const supplier = await openTestAccount(fixture, { platformFeeBp: 2_000 })
    const rentalId = await rentalCharged(account, '6', supplier, '4.8')
    const { accountId } = account
    expect(await refund(input(accountId, '6.000000001'), rentalId)).toMatchObject({ reason: 'refund_too_large' })
    const given = input(accountId, '4')
    expect(await refund(given, rentalId)).toMatchObject({ ok: true, value: { balances: { available: usd('8') } } })
    // A repeated refund that would now be too large is still the same refund.
    expect(await refund(given, rentalId)).toMatchObject({ ok: true, value: { replayed: true } })
    expect(await refund(input(accountId, '2.1'), rentalId)).toMatchObject({ reason: 'refund_too_large' })
    expect(await refund(input(accountId, '2'), rentalId)).toMatchObject({ ok: true })
    expect(await available(accountId)).toBe(usd('10'))
    expect((await readBalances(fixture.database.db, supplier.accountId)).earnings).toBe(usd('4.8'))
    const rows = await fixture.database.db
      .selectFrom('posting')
      .select('rental_id')
      .where('account_id', '=', accountId)
      .where('kind', '=', 'refund')
      .execute()
    expect(rows).toEqual([{ rental_id: rentalId }, { rental_id: rentalId }])
  })

  test('concurrent refunds do not exceed the payment', async () => {
    const account = await openTestAccount(fixture, { balance: usd('10') })
    const rentalId = await rentalCharged(account, '5')
    const results = await Promise.all(Array.from({ length: 6 }, () => refund(input(account.accountId, '2'), rentalId)))
    expect(results.filter((result) => result.ok)).toHaveLength(2)
    expect(await available(account.accountId)).toBe(usd('9'))
  })

  test("does not find another account's rental, or an impossible id", async () => {
    const account = await openTestAccount(fixture, { balance: usd('10') })
    const other = await openTestAccount(fixture)
    const rentalId = await rentalCharged(account, '5')
    expect(await refund(input(other.accountId, '1'), rentalId)).toMatchObject({ kind: 'not_found' })
    expect(await refund(input(account.accountId, '1'), 2 ** 40)).toMatchObject({ kind: 'not_found' })
  })
})

describe('payout', () => {
  test('takes no more than the earnings', async () => {
    const account = await openTestAccount(fixture, { balance: usd('10') })
    const supplier = await openTestAccount(fixture, { platformFeeBp: 2_000 })
    await rentalCharged(account, '10', supplier, '8')
    const { accountId } = supplier
    expect(await payOut(input(accountId, '8.01'))).toMatchObject({ kind: 'insufficient_balance' })
    const given = input(accountId, '5')
    expect(await payOut(given)).toMatchObject({ ok: true, value: { balances: { earnings: usd('3') } } })
    expect(await payOut(given)).toMatchObject({ ok: true, value: { replayed: true, balances: { earnings: usd('3') } } })
    expect(await listAudit(fixture.database.db, { accountId, limit: 5 })).toMatchObject([
      { action: 'balance.payout', subject: expect.stringContaining('op:') as string },
    ])
  })
})

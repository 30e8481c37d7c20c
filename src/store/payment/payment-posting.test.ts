import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HOUR_MS, toDate } from '../../base/instant.ts'
import { usd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { buy, openAccount, openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import {
  dispute,
  failRefund,
  pay,
  readDebt,
  refundPayment,
  saveCard,
  winDispute,
} from '../../../test/harness/payment-ledger.ts'
import { transact } from '../platform/database.ts'
import { ledgerChecks, readHouse, readWholeLedger, runCheck } from '../ledger/ledger-verify.ts'
import { readBalances } from '../ledger/ledger.ts'
import { saveCreditLine } from '../ledger/standing.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await openTestLedger()
})
afterAll(() => ledger.close())

const available = async (accountId: string) => (await readBalances(ledger.database.db, accountId)).available

async function findings(): Promise<unknown[]> {
  return readWholeLedger(ledger.database, async (db) => {
    const all: unknown[] = []
    for (const check of ledgerChecks) all.push(...(await runCheck(db, check, 10)).findings)
    return all
  })
}

/** Puts money on hold, as an order does. */
async function spend(accountId: string, amount: NanoUsd): Promise<void> {
  await sql`select ledger_hold(${`${accountId}:spend`}, ${accountId}, ${toDate(ledger.clock.now())}, ${accountId},
    ${amount.toString()}::bigint, 'Spent', null)`.execute(ledger.database.db)
}

async function giveBack(accountId: string, amount: NanoUsd): Promise<void> {
  await sql`select ledger_release(${`${accountId}:back:${amount}`}, ${accountId}, ${toDate(ledger.clock.now())},
    ${amount.toString()}::bigint, 'Not needed')`.execute(ledger.database.db)
}

test('promise 39: $100 at 19 % credits $100 and books $19 of tax; the processor has $119.00', async () => {
  const { accountId } = await openAccount(ledger, 'taxed')
  const before = await readHouse(ledger.database.db)
  await pay(ledger, accountId, 'taxed', { amount: usd('100'), tax: usd('19') })
  const after = await readHouse(ledger.database.db)
  expect(await available(accountId)).toBe(usd('100'))
  expect((after.get('tax') ?? 0n) - (before.get('tax') ?? 0n)).toBe(usd('19'))
  expect((after.get('processor') ?? 0n) - (before.get('processor') ?? 0n)).toBe(0n - usd('119'))
})

test('refunds in parts return all of the tax, to the cent', async () => {
  const { accountId } = await openAccount(ledger, 'parts')
  await pay(ledger, accountId, 'parts', { amount: usd('100'), tax: usd('19') })
  const parts = [usd('33.33'), usd('33.33'), usd('33.34')]
  const refunds = []
  for (const [n, amount] of parts.entries()) refunds.push(await refundPayment(ledger, 'parts', `rfd_parts${n}`, amount))
  expect(refunds).toMatchObject([{ tax_nano: usd('6.33') }, { tax_nano: usd('6.33') }, { tax_nano: usd('6.34') }])
  expect(await refundPayment(ledger, 'parts', 'rfd_more', usd('0.01'))).toBe('too_much')
  expect(await available(accountId)).toBe(zeroUsd)
})

test('promise 45: two refunds at once never exceed what was paid, nor what is unspent', async () => {
  const { accountId } = await openAccount(ledger, 'twice', usd('500'))
  await pay(ledger, accountId, 'twice', { amount: usd('100'), tax: usd('19') })
  const both = await Promise.all(
    ['a', 'b'].map((id) => refundPayment(ledger, 'twice', `rfd_twice_${id}`, usd('60')).catch(String)),
  )
  expect(both.filter((one) => one === 'too_much')).toHaveLength(1)
  expect(await available(accountId)).toBe(usd('540'))
  await spend(accountId, usd('510'))
  expect(await refundPayment(ledger, 'twice', 'rfd_spent', usd('40'))).toBe('insufficient')
  expect(await refundPayment(ledger, 'twice', 'rfd_unspent', usd('30'))).toMatchObject({ state: 'open' })
  expect(await available(accountId)).toBe(zeroUsd)
})

test('promise 45: a failed refund comes back once, with its tax', async () => {
  const { accountId } = await openAccount(ledger, 'back')
  await pay(ledger, accountId, 'back', { amount: usd('100'), tax: usd('19') })
  const tax = (await readHouse(ledger.database.db)).get('tax')
  await refundPayment(ledger, 'back', 'rfd_back', usd('100'))
  expect(await available(accountId)).toBe(zeroUsd)
  expect(await failRefund(ledger, 'back', 'rfd_back')).toBe(true)
  expect(await failRefund(ledger, 'back', 'rfd_back')).toBe(false)
  expect(await available(accountId)).toBe(usd('100'))
  expect((await readHouse(ledger.database.db)).get('tax')).toBe(tax)
})

test('promises 46 and 48: a chargeback of spent money leaves a debt, which deposits and releases repay first', async () => {
  const { accountId } = await openAccount(ledger, 'spender')
  await pay(ledger, accountId, 'spender', { amount: usd('100'), tax: usd('19') })
  await spend(accountId, usd('70'))
  await dispute(ledger, 'spender', 'dp_spender', usd('119'))
  expect([await available(accountId), await readDebt(ledger, accountId)]).toEqual([zeroUsd, usd('70')])
  expect(await findings()).toEqual([])
  // Again is not more.
  await dispute(ledger, 'spender', 'dp_spender', usd('119'))
  expect(await readDebt(ledger, accountId)).toBe(usd('70'))
  await buy(ledger, accountId, usd('20'))
  expect([await available(accountId), await readDebt(ledger, accountId)]).toEqual([zeroUsd, usd('50')])
  await giveBack(accountId, usd('60'))
  expect([await available(accountId), await readDebt(ledger, accountId)]).toEqual([usd('10'), zeroUsd])
  expect(await findings()).toEqual([])
})

test('a debt is repaid before the credit line', async () => {
  const { accountId } = await openAccount(ledger, 'both')
  await transact(ledger.database, (tx) => saveCreditLine(tx, accountId, usd('100')))
  await pay(ledger, accountId, 'both', { amount: usd('10'), tax: zeroUsd })
  await spend(accountId, usd('10'))
  await sql`select draw_credit('both:draw', ${accountId}, 30000000000, ${toDate(ledger.clock.now())})`.execute(
    ledger.database.db,
  )
  await sql`select ledger_hold('both:term', 'both', ${toDate(ledger.clock.now())}, ${accountId}, 30000000000, 'Term', null)`.execute(
    ledger.database.db,
  )
  await dispute(ledger, 'both', 'dp_both', usd('10'))
  await buy(ledger, accountId, usd('15'))
  const { used_nano } = await ledger.database.db
    .selectFrom('credit_line')
    .select('used_nano')
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  expect([await readDebt(ledger, accountId), used_nano]).toEqual([zeroUsd, usd('25')])
  expect(await findings()).toEqual([])
})

test('promise 47: a won dispute returns exactly what it took, to the debt first', async () => {
  const { accountId } = await openAccount(ledger, 'winner')
  await pay(ledger, accountId, 'winner', { amount: usd('100'), tax: usd('19') })
  await spend(accountId, usd('70'))
  await dispute(ledger, 'winner', 'dp_winner', usd('119'))
  expect(await winDispute(ledger, 'winner', 'dp_winner')).toBe(true)
  expect(await winDispute(ledger, 'winner', 'dp_winner')).toBe(false)
  expect([await available(accountId), await readDebt(ledger, accountId)]).toEqual([usd('30'), zeroUsd])
  expect(await findings()).toEqual([])
})

test('promise 47: refund and dispute never both take; if the refund fails, the dispute takes its part', async () => {
  const { accountId } = await openAccount(ledger, 'once')
  await pay(ledger, accountId, 'once', { amount: usd('100'), tax: usd('19') })
  await refundPayment(ledger, 'once', 'rfd_once', usd('40'))
  expect(await dispute(ledger, 'once', 'dp_once', usd('119'))).toEqual({ amount: usd('60'), tax: usd('11.40') })
  expect([await available(accountId), await readDebt(ledger, accountId)]).toEqual([zeroUsd, zeroUsd])
  await failRefund(ledger, 'once', 'rfd_once')
  expect(await dispute(ledger, 'once', 'dp_once', usd('119'))).toEqual({ amount: usd('40'), tax: usd('7.60') })
  expect([await available(accountId), await readDebt(ledger, accountId)]).toEqual([zeroUsd, zeroUsd])
  expect(await refundPayment(ledger, 'once', 'rfd_late', usd('0.01'))).toBe('too_much')
  expect(await findings()).toEqual([])
})

test('promise 49: a dispute takes nothing from the earnings of suppliers', async () => {
  const { accountId: supplier } = await openAccount(ledger, 'earner')
  const { accountId } = await openAccount(ledger, 'renter')
  await pay(ledger, accountId, 'renter', { amount: usd('50'), tax: zeroUsd })
  await spend(accountId, usd('50'))
  await sql`select ledger_charge('renter:charge', ${accountId}, ${toDate(ledger.clock.now())}, 50000000000, 'Rental',
    ${supplier}, 45000000000, null, null, null, null)`.execute(ledger.database.db)
  await dispute(ledger, 'renter', 'dp_renter', usd('50'))
  expect((await readBalances(ledger.database.db, supplier)).earnings).toBe(usd('45'))
  expect(await readDebt(ledger, accountId)).toBe(usd('50'))
})

test('promise 42: the schema refuses an automatic payment that exceeds the cap by a cent', async () => {
  const { accountId } = await openAccount(ledger, 'capped')
  await saveCard(ledger, accountId)
  const cap = usd('238')
  const attempt = (name: string, tax: NanoUsd) => {
    ledger.clock.advance(HOUR_MS)
    return pay(ledger, accountId, name, { amount: usd('100'), tax, cap }).then(
      () => 'paid',
      (error: unknown) => (error as { constraint?: string }).constraint,
    )
  }
  expect(await attempt('capped1', usd('19'))).toBe('paid')
  expect(await attempt('capped2', usd('19.01'))).toBe('payment_within_cap')
  expect(await attempt('capped2', usd('19'))).toBe('paid')
  expect(await attempt('capped3', zeroUsd)).toBe('payment_within_cap')
})

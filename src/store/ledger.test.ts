import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addMs, MINUTE_MS } from '../base/instant.ts'
import { nanoUsdOf, usd, type NanoUsd } from '../base/money.ts'
import { openAccount, openBooks, startRental, type Books } from '../../test/harness/books.ts'
import { errorCode, transact, violatedConstraint, type Tx } from './database.ts'
import { ledgerChecks, runCheck } from './ledger-verify.ts'
import {
  chargeHold,
  placeHold,
  post,
  readBalances,
  releaseExpiredHolds,
  releaseHold,
  type Charge,
  type PostAnswer,
} from './ledger.ts'

let books: Books
beforeAll(async () => {
  books = await openBooks()
})
afterAll(() => books.close())

const inTx = <T>(work: (tx: Tx) => Promise<T>) => transact(books.database, work)

const fund = (tx: Tx, key: string, accountId: string, amount: NanoUsd): Promise<PostAnswer> =>
  post(tx, {
    key,
    kind: amount > 0n ? 'purchase' : 'adjustment',
    accountId,
    memo: 'Test',
    actor: 'test',
    reason: 'test',
    transfers: [
      amount > 0n
        ? { from: { accountId: null, kind: 'funding' }, to: { accountId, kind: 'available' }, amount }
        : {
            from: { accountId, kind: 'available' },
            to: { accountId: null, kind: 'adjustments' },
            amount: nanoUsdOf(-amount),
          },
    ],
  })

const charge = (more: Pick<Charge, 'postingKey' | 'holdKey' | 'amount'> & Partial<Charge>): Charge => ({
  memo: 'Test',
  supplierId: null,
  supplierAmount: usd('0'),
  rentalId: null,
  volumeId: null,
  apiKeyId: null,
  ...more,
})

async function findings() {
  const found = []
  for (const check of ledgerChecks) found.push(...(await runCheck(books.database.db, check, 10)).findings)
  return found
}

describe('one after the other', () => {
  test('money is set aside, charged, shared with the supplier and given back', async () => {
    const { accountId, keyId } = await openAccount(books, 'steps', usd('10'))
    const supplier = await openAccount(books, 'stepsupplier')
    const balances = (id = accountId) => readBalances(books.database.db, id)
    const hold = { postingKey: 'steps:h1', holdKey: 'steps:h', accountId, amount: usd('6'), memo: 'Test' }

    expect(await inTx((tx) => placeHold(tx, hold))).toBe('posted')
    expect(await inTx((tx) => placeHold(tx, hold))).toBe('replayed')
    expect(await balances()).toEqual({ available: usd('4'), held: usd('6'), earnings: 0n })

    expect(await inTx((tx) => placeHold(tx, { ...hold, postingKey: 'steps:h2' }))).toBe('insufficient')
    expect(await balances()).toEqual({ available: usd('4'), held: usd('6'), earnings: 0n })

    const paid = charge({ postingKey: 'steps:c1', holdKey: 'steps:h', amount: usd('2.5'), apiKeyId: keyId })
    const shared = { ...paid, supplierId: supplier.accountId, supplierAmount: usd('2') }
    await inTx((tx) => chargeHold(tx, shared))
    await inTx((tx) => chargeHold(tx, shared))
    expect(await balances()).toEqual({ available: usd('4'), held: usd('3.5'), earnings: 0n })
    expect(await balances(supplier.accountId)).toEqual({ available: 0n, held: 0n, earnings: usd('2') })

    await inTx((tx) => releaseHold(tx, 'steps:h', 'steps:r1', 'Test'))
    await inTx((tx) => releaseHold(tx, 'steps:h', 'steps:r2', 'Test'))
    expect(await balances()).toEqual({ available: usd('7.5'), held: 0n, earnings: 0n })
    const spend = await books.database.db.selectFrom('key_spend').selectAll().where('api_key_id', '=', keyId).execute()
    expect(spend).toEqual([{ api_key_id: keyId, month: '2026-01-01', spent_nano: usd('2.5') }])
    expect(await findings()).toEqual([])
  })

  test('a key that was used for other transfers is refused', async () => {
    const { accountId } = await openAccount(books, 'otherwise')
    await inTx((tx) => fund(tx, 'otherwise:1', accountId, usd('1')))
    await expect(inTx((tx) => fund(tx, 'otherwise:1', accountId, usd('2')))).rejects.toMatchObject({ code: '23505' })
    await expect(inTx((tx) => fund(tx, 'otherwise:1', accountId, usd('-1')))).rejects.toMatchObject({ code: '23505' })
    expect((await readBalances(books.database.db, accountId)).available).toBe(usd('1'))
  })

  test('a charge that its hold does not cover writes nothing, even where another hold would', async () => {
    const { accountId } = await openAccount(books, 'uncovered', usd('10'))
    for (const n of [1, 2]) {
      const hold = { holdKey: `uncovered:${n}`, accountId, amount: usd('1'), memo: 'Test' }
      await inTx((tx) => placeHold(tx, { ...hold, postingKey: `uncovered:h${n}` }))
    }
    const tooMuch = (amount: NanoUsd) => charge({ postingKey: `uncovered:c${amount}`, holdKey: 'uncovered:1', amount })
    await expect(inTx((tx) => chargeHold(tx, tooMuch(usd('3'))))).rejects.toThrow('does not cover')
    await expect(inTx((tx) => chargeHold(tx, tooMuch(usd('1.5'))))).rejects.toMatchObject({ code: '23514' })
    expect(await readBalances(books.database.db, accountId)).toMatchObject({ available: usd('8'), held: usd('2') })
    expect(await findings()).toEqual([])
  })
})

/** Many connections do random things to few accounts, everything several times under the same key. */
describe('all at once', () => {
  type Op = { readonly kind: 'fund' | 'hold' | 'charge' | 'release' | 'expire'; account: number; hold: number; cents: number }
  const op = fc.record<Op>({
    kind: fc.constantFrom('fund', 'hold', 'hold', 'charge', 'charge', 'release', 'expire'),
    account: fc.integer({ min: 0, max: 2 }),
    hold: fc.integer({ min: 0, max: 2 }),
    cents: fc.integer({ min: 1, max: 500 }),
  })

  test('no money is made, lost or spent twice, and no balance goes below zero', async () => {
    let run = 0
    const supplier = await openAccount(books, 'racesupplier')
    await fc.assert(
      fc.asyncProperty(fc.array(op, { minLength: 10, maxLength: 40 }), async (ops) => {
        run += 1
        const ids: string[] = []
        for (const n of [0, 1, 2]) ids.push((await openAccount(books, `race${run}x${n}`, usd('8'))).accountId)
        const posted = new Map<string, number>()
        await Promise.all(
          [...ops, ...ops, ...ops].map(async (op, n) => {
            const key = `race:${run}:${n % ops.length}`
            const answer = await perform(op, key, `race:${run}`, ids[op.account] ?? '', supplier.accountId)
            if (answer === 'posted') posted.set(key, (posted.get(key) ?? 0) + 1)
          }),
        )
        expect([...posted.values()].every((times) => times === 1)).toBe(true)
        expect(await findings()).toEqual([])
        // What came in is where it can be: with the customers, the supplier or the house.
        const written = await books.database.db
          .selectFrom('posting')
          .select('key')
          .where('key', 'in', [...posted.keys(), ''])
          .execute()
        expect(written.length).toBe(posted.size)
      }),
      { numRuns: 12, endOnFailure: true },
    )
  })

  async function perform(op: Op, key: string, run: string, accountId: string, supplierId: string) {
    const amount = nanoUsdOf(BigInt(op.cents) * 10_000_000n)
    const holdKey = `${run}:${accountId}:${op.hold}`
    try {
      switch (op.kind) {
        case 'fund':
          return await inTx((tx) => fund(tx, key, accountId, op.cents % 2 === 0 ? amount : nanoUsdOf(-amount)))
        case 'hold': {
          const expiresAt = addMs(books.clock.now(), op.cents % 3 === 0 ? 0 : MINUTE_MS)
          return await inTx((tx) => placeHold(tx, { postingKey: key, holdKey, accountId, amount, memo: 'Test', expiresAt }))
        }
        case 'charge': {
          const supplierAmount = nanoUsdOf(amount / 3n)
          return void (await inTx((tx) =>
            chargeHold(tx, charge({ postingKey: key, holdKey, amount, supplierId, supplierAmount })),
          ))
        }
        case 'release':
          return void (await inTx((tx) => releaseHold(tx, holdKey, key, 'Test')))
        case 'expire':
          return void (await inTx((tx) => releaseExpiredHolds(tx, 2)))
      }
    } catch (error) {
      // A hold that is not there, or has too little, or gave back another amount under this key: refused, all of it.
      const refused = ['P0002', '23514', '23505'].includes(errorCode(error) ?? '')
      if (!refused && !String(error).includes('does not cover')) throw error
    }
    return undefined
  }

  test('twenty racing for the last dollar: one gets it', async () => {
    const { accountId } = await openAccount(books, 'last', usd('1'))
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        inTx((tx) =>
          placeHold(tx, { postingKey: `last:${n}`, holdKey: `last:${n}`, accountId, amount: usd('1'), memo: 'Test' }),
        ),
      ),
    )
    expect(answers.filter((answer) => answer === 'posted')).toHaveLength(1)
    expect(await readBalances(books.database.db, accountId)).toMatchObject({ available: 0n, held: usd('1') })
  })

  test('twenty with the same key: one posts, the others are told so', async () => {
    const { accountId } = await openAccount(books, 'same')
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => inTx((tx) => fund(tx, 'same:1', accountId, usd('5')))),
    )
    expect(answers.toSorted()).toEqual(['posted', ...Array.from({ length: 19 }, () => 'replayed')])
    expect((await readBalances(books.database.db, accountId)).available).toBe(usd('5'))
  })
})

describe('the schema itself refuses', () => {
  beforeAll(async () => {
    const actor = await openAccount(books, 'schema', usd('100'))
    await startRental(books, actor, { pricePerHour: usd('2') })
    await sql`insert into audit (at, actor, action) values (now(), 'test', 'test')`.execute(books.database.db)
  })

  const post = (from: string, to: string, amount: string) =>
    `select ledger_post('x', 'credit', now(), 'acc_schema', 'x', null, null, null, null, null, null, ${from}, ${to}, ${amount})`
  const funding = `ledger_account_id(null, 'funding')`
  const available = `ledger_account_id('acc_schema', 'available')`

  test.each([
    // what, statement, SQL state, constraint
    ['a balance below zero', `update ledger_account set balance_nano = -1 where kind = 'held'`, '23514', 'never_negative'],
    ['a balance of the house', `update ledger_account set balance_nano = 0 where kind = 'revenue'`, '23514', 'customer_or_house'],
    ['a customer without a balance', `update ledger_account set balance_nano = null where kind = 'held'`, '23514', 'customer_or_house'],
    ['a second balance of a kind', `insert into ledger_account (account_id, kind, balance_nano) values ('acc_schema', 'held', 0)`, '23505', 'ledger_account_of_account'],
    ['a second account of the house', `insert into ledger_account (kind) values ('revenue')`, '23505', 'ledger_account_of_house'],
    ['a negative amount', post(`array[${funding}]`, `array[${available}]`, 'array[-5]'), '23514', 'transfer_amount_nano_check'],
    ['an amount of nothing', post(`array[${funding}]`, `array[${available}]`, 'array[0]'), '23514', 'transfer_amount_nano_check'],
    ['a transfer to itself', post(`array[${available}]`, `array[${available}]`, 'array[5]'), '23514', 'transfer_check'],
    ['a transfer from nowhere', post(`array[ledger_account_id('acc_nobody', 'held')]`, `array[${available}]`, 'array[5]'), '23502', undefined],
    ['a transfer without an amount', post(`array[${funding}, ${funding}]`, `array[${available}, ${available}]`, 'array[5]'), '23502', undefined],
    ['more than a balance can hold', post(`array[${funding}]`, `array[${available}]`, 'array[9223372036854775807]'), '22003', undefined],
    ['a hold below zero', `update hold set amount_nano = -1`, '23514', 'hold_amount_nano_check'],
    ['a charge to a hold that is not there', `select ledger_charge('x', 'nothing', now(), 5, 'x', null, 0, null, null, null, null)`, 'P0002', undefined],
    ['a posting of an unknown kind', `insert into posting (key, kind, at, account_id, memo) values ('x', 'gift', now(), 'acc_schema', 'x')`, '23514', 'posting_kind_check'],
    ['a posting to change', `update posting set memo = 'x'`, '23001', undefined],
    ['a posting to go', `delete from posting`, '23001', undefined],
    ['a transfer to change', `update transfer set amount_nano = 1`, '23001', undefined],
    ['a transfer to go', `delete from transfer`, '23001', undefined],
    ['an audit record to change', `update audit set actor = 'x'`, '23001', undefined],
    ['an account with money to go', `delete from account where id = 'acc_schema'`, '23503', undefined],
    ['stretches of a rental that overlap', `insert into segment (account_id, rental_id, hold_key, started_at, price_nano_per_hour, settled_until, due_at) select account_id, rental_id, hold_key, started_at + interval '1 hour', 1, started_at + interval '1 hour', due_at from segment`, '23P01', 'rental_segments_never_overlap'],
    ['a stretch charged past its end', `update segment set ended_at = started_at, settled_until = started_at + interval '1 ms'`, '23514', undefined],
    ['a stretch that ends before it begins', `update segment set ended_at = started_at - interval '1 ms'`, '23514', undefined],
    ['a stretch of nothing', `update segment set rental_id = null`, '23514', undefined],
  ])('%s', async (_, statement, state, constraint) => {
    const error: unknown = await sql
      .raw(statement)
      .execute(books.database.db)
      .then(
        () => undefined,
        (error: unknown) => error,
      )
    expect(errorCode(error)).toBe(state)
    if (constraint !== undefined) expect(violatedConstraint(error)).toBe(constraint)
  })

  test('and the books are as they were', async () => {
    expect(await findings()).toEqual([])
    expect(await readBalances(books.database.db, 'acc_schema')).toEqual({
      available: usd('98'),
      held: usd('2'),
      earnings: 0n,
    })
  })
})

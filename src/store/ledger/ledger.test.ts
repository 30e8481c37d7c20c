import * as fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addMs, MINUTE_MS } from '../../base/instant.ts'
import { nanoUsdOf, usd, type NanoUsd } from '../../base/money.ts'
import { openAccount, openTestLedger, startRental, type TestLedger } from '../../../test/harness/ledger.ts'
import { errorCode, transact, type Tx } from '../platform/database.ts'
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

let ledger: TestLedger
beforeAll(async () => {
  ledger = await openTestLedger()
})
afterAll(() => ledger.close())

const inTx = <T>(work: (tx: Tx) => Promise<T>) => transact(ledger.database, work)

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
            amount: nanoUsdOf(0n - amount),
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
  const findings = []
  for (const check of ledgerChecks) findings.push(...(await runCheck(ledger.database.db, check, 10)).findings)
  return findings
}

describe('sequentially', () => {
  test('holds money, charges it, shares it with the supplier and releases the rest', async () => {
    const { accountId, keyId } = await openAccount(ledger, 'steps', usd('10'))
    const supplier = await openAccount(ledger, 'stepsupplier')
    const balances = (id = accountId) => readBalances(ledger.database.db, id)
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
    const spend = await ledger.database.db.selectFrom('key_spend').selectAll().where('api_key_id', '=', keyId).execute()
    expect(spend).toEqual([{ api_key_id: keyId, month: '2026-01-01', spent_nano: usd('2.5') }])
    expect(await findings()).toEqual([])
  })

  test('rejects a posting key that was used for other transfers', async () => {
    const { accountId } = await openAccount(ledger, 'otherwise')
    await inTx((tx) => fund(tx, 'otherwise:1', accountId, usd('1')))
    await expect(inTx((tx) => fund(tx, 'otherwise:1', accountId, usd('2')))).rejects.toMatchObject({ code: '23505' })
    await expect(inTx((tx) => fund(tx, 'otherwise:1', accountId, usd('-1')))).rejects.toMatchObject({ code: '23505' })
    expect((await readBalances(ledger.database.db, accountId)).available).toBe(usd('1'))
  })

  test('writes nothing if its own hold does not cover a charge', async () => {
    const { accountId } = await openAccount(ledger, 'uncovered', usd('10'))
    for (const n of [1, 2]) {
      const hold = { holdKey: `uncovered:${n}`, accountId, amount: usd('1'), memo: 'Test' }
      await inTx((tx) => placeHold(tx, { ...hold, postingKey: `uncovered:h${n}` }))
    }
    const tooMuch = (amount: NanoUsd) => charge({ postingKey: `uncovered:c${amount}`, holdKey: 'uncovered:1', amount })
    await expect(inTx((tx) => chargeHold(tx, tooMuch(usd('3'))))).rejects.toThrow('does not cover')
    await expect(inTx((tx) => chargeHold(tx, tooMuch(usd('1.5'))))).rejects.toMatchObject({ code: '23514' })
    expect(await readBalances(ledger.database.db, accountId)).toMatchObject({ available: usd('8'), held: usd('2') })
    expect(await findings()).toEqual([])
  })
})

/** Many connections do random operations on few accounts, each several times with the same key. */
describe('concurrently', () => {
  type Op = {
    readonly kind: 'fund' | 'hold' | 'charge' | 'release' | 'expire'
    account: number
    hold: number
    cents: number
  }
  const op = fc.record<Op>({
    kind: fc.constantFrom('fund', 'hold', 'hold', 'charge', 'charge', 'release', 'expire'),
    account: fc.integer({ min: 0, max: 2 }),
    hold: fc.integer({ min: 0, max: 2 }),
    cents: fc.integer({ min: 1, max: 500 }),
  })

  test('creates, loses and double-spends no money, and no balance goes below zero', async () => {
    let run = 0
    const supplier = await openAccount(ledger, 'racesupplier')
    await fc.assert(
      fc.asyncProperty(fc.array(op, { minLength: 10, maxLength: 40 }), async (ops) => {
        run += 1
        const ids: string[] = []
        for (const n of [0, 1, 2]) ids.push((await openAccount(ledger, `race${run}x${n}`, usd('8'))).accountId)
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
        // All money received is with the customers, the supplier or the house.
        const written = await ledger.database.db
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
          return await inTx((tx) => fund(tx, key, accountId, op.cents % 2 === 0 ? amount : nanoUsdOf(0n - amount)))
        case 'hold': {
          const expiresAt = addMs(ledger.clock.now(), op.cents % 3 === 0 ? 0 : MINUTE_MS)
          return await inTx((tx) =>
            placeHold(tx, { postingKey: key, holdKey, accountId, amount, memo: 'Test', expiresAt }),
          )
        }
        case 'charge': {
          const supplierAmount = nanoUsdOf(amount / 3n)
          await inTx((tx) => chargeHold(tx, charge({ postingKey: key, holdKey, amount, supplierId, supplierAmount })))
          break
        }
        case 'release':
          await inTx((tx) => releaseHold(tx, holdKey, key, 'Test'))
          break
        case 'expire':
          await inTx((tx) => releaseExpiredHolds(tx, 2))
          break
      }
    } catch (error) {
      // Rejected as a whole: a missing hold, too little money, or another amount under this key.
      const refused = ['P0002', '23514', '23505'].includes(errorCode(error) ?? '')
      if (!refused && !String(error).includes('does not cover')) throw error
    }
    return undefined
  }

  test('one of twenty holds gets the last dollar', async () => {
    const { accountId } = await openAccount(ledger, 'last', usd('1'))
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        inTx((tx) =>
          placeHold(tx, { postingKey: `last:${n}`, holdKey: `last:${n}`, accountId, amount: usd('1'), memo: 'Test' }),
        ),
      ),
    )
    expect(answers.filter((answer) => answer === 'posted')).toHaveLength(1)
    expect(await readBalances(ledger.database.db, accountId)).toMatchObject({ available: 0n, held: usd('1') })
  })

  test('one of twenty postings with the same key is written, the others report a duplicate', async () => {
    const { accountId } = await openAccount(ledger, 'same')
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => inTx((tx) => fund(tx, 'same:1', accountId, usd('5')))),
    )
    expect(answers.toSorted()).toEqual(['posted', ...Array.from({ length: 19 }, () => 'replayed')])
    expect((await readBalances(ledger.database.db, accountId)).available).toBe(usd('5'))
  })
})

describe('the schema rejects', () => {
  beforeAll(async () => {
    const actor = await openAccount(ledger, 'schema', usd('100'))
    await startRental(ledger, actor, { pricePerHour: usd('2') })
    await sql`insert into audit (at, actor, action) values (now(), 'test', 'test')`.execute(ledger.database.db)
  })

  /** Fault | SQL state | constraint | statement; `from → to` is a transfer for `ledger_post`. */
  const refused = `
    a balance below zero          | 23514 | never_negative             | update ledger_account set balance_nano = -1 where kind = 'held'
    a balance of the house        | 23514 | customer_or_house          | update ledger_account set balance_nano = 0 where kind = 'revenue'
    a customer without a balance  | 23514 | customer_or_house          | update ledger_account set balance_nano = null where kind = 'held'
    a second balance of a kind    | 23505 | ledger_account_of_account  | insert into ledger_account (account_id, kind, balance_nano) values ('acc_schema', 'held', 0)
    a second account of the house | 23505 | ledger_account_of_house    | insert into ledger_account (kind) values ('revenue')
    a negative amount             | 23514 | transfer_amount_nano_check | funding → available: -5
    an amount of nothing          | 23514 | transfer_amount_nano_check | funding → available: 0
    a transfer to itself          | 23514 | transfer_check             | available → available: 5
    a transfer from nowhere       | 23502 |                            | nowhere → available: 5
    more than a balance can hold  | 22003 |                            | funding → available: 9223372036854775807
    a hold below zero             | 23514 | hold_amount_nano_check     | update hold set amount_nano = -1
    a charge to no hold           | P0002 |                            | select ledger_charge('x', 'nothing', now(), 5, 'x', null, 0, null, null, null, null)
    a posting of an unknown kind  | 23514 | posting_kind_check         | insert into posting (key, kind, at, account_id, memo) values ('x', 'gift', now(), 'acc_schema', 'x')
    a posting to change           | 23001 |                            | update posting set memo = 'x'
    a posting to go               | 23001 |                            | delete from posting
    a transfer to change          | 23001 |                            | update transfer set amount_nano = 1
    a transfer to go              | 23001 |                            | delete from transfer
    an audit record to change     | 23001 |                            | update audit set actor = 'x'
    an account with money to go   | 23503 |                            | delete from account where id = 'acc_schema'
    segments that overlap         | 23P01 | rental_segments_never_overlap | insert into segment (account_id, rental_id, hold_key, started_at, price_nano_per_hour, settled_until, due_at) select account_id, rental_id, hold_key, started_at + interval '1 hour', 1, started_at + interval '1 hour', due_at from segment
    a segment charged past its end | 23514 |                           | update segment set ended_at = started_at, settled_until = started_at + interval '1 ms'
    a segment that ends too soon  | 23514 |                            | update segment set ended_at = started_at - interval '1 ms'
    a segment of nothing          | 23514 |                            | update segment set rental_id = null`

  const transfer = (from: string, to: string, amount: string) => {
    const ref = (kind: string) => `ledger_account_id(${kind === 'funding' ? 'null' : `'acc_schema'`}, '${kind}')`
    return `select ledger_post('x', 'credit', now(), 'acc_schema', 'x', null, null, null, null, null, null,
      array[${ref(from)}], array[${ref(to)}], array[${amount}])`
  }

  const cases = refused
    .trim()
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()))

  test.each(cases)('%s', async (_, state, constraint, text = '') => {
    const statement = text.replace(/^(\w+) → (\w+): (-?\d+)$/, (_, ...parts: [string, string, string]) =>
      transfer(...parts),
    )
    const error: unknown = await sql
      .raw(statement)
      .execute(ledger.database.db)
      .then(
        () => undefined,
        (error: unknown) => error,
      )
    expect(error).toMatchObject({ code: state, ...(constraint === '' ? {} : { constraint }) })
  })

  test('and leaves the ledger unchanged', async () => {
    expect(await findings()).toEqual([])
    expect(await readBalances(ledger.database.db, 'acc_schema')).toEqual({
      available: usd('98'),
      held: usd('2'),
      earnings: 0n,
    })
  })
})

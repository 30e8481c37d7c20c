/** What is left of credits, compared with a model that replays every charge. */
import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addMs, DAY_MS, HOUR_MS, toDate, type Instant } from '../../base/instant.ts'
import { nanoUsdOf, usd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { buy, openAccount, openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import { pay, refundPayment } from '../../../test/harness/payment-ledger.ts'
import { expireCredit } from '../../app/payment/expire-credit.ts'
import { verifyLedger } from '../../app/money/ledger-verify.ts'
import { readBalances, post } from '../ledger/ledger.ts'
import { transact } from '../platform/database.ts'
import { insertGrant, listGrants, readUnspentGrants } from './credit-grant.ts'

let ledger: TestLedger
let opened = 0
beforeAll(async () => {
  ledger = await openTestLedger()
})
afterAll(() => ledger.close())

const available = async (accountId: string) => (await readBalances(ledger.database.db, accountId)).available
const unspent = (accountId: string) => readUnspentGrants(ledger.database.db, accountId)

async function open(money?: NanoUsd): Promise<string> {
  opened += 1
  return (await openAccount(ledger, `g${opened}`, money)).accountId
}

let grants = 0
async function give(accountId: string, amount: NanoUsd, expiresAt: Instant | null): Promise<string> {
  grants += 1
  const id = `grant_${grants}`
  const grant = { id, accountId, kind: 'operator', amount, personId: null, cardFingerprint: null, expiresAt } as const
  const posting = { memo: 'Gift', actor: 'test', reason: 'a test' }
  expect(await transact(ledger.database, (tx) => insertGrant(tx, grant, posting))).toBe(true)
  return id
}

let charges = 0
async function hold(accountId: string, amount: NanoUsd): Promise<string> {
  charges += 1
  const key = `g:${charges}`
  await sql`select ledger_hold(${`${key}:hold`}, ${key}, ${toDate(ledger.clock.now())}, ${accountId},
    ${amount.toString()}::bigint, 'Hold', null)`.execute(ledger.database.db)
  return key
}

async function charge(key: string, amount: NanoUsd): Promise<void> {
  await sql`select ledger_charge(${`${key}:charge`}, ${key}, ${toDate(ledger.clock.now())}, ${amount.toString()}::bigint,
    'Charge', null, 0::bigint, null, null, null, null)`.execute(ledger.database.db)
}

async function spend(accountId: string, amount: NanoUsd): Promise<void> {
  await charge(await hold(accountId, amount), amount)
}

async function takeAway(accountId: string, amount: NanoUsd): Promise<void> {
  charges += 1
  const transfer = {
    from: { accountId, kind: 'available' },
    to: { accountId: null, kind: 'adjustments' },
    amount,
  } as const
  await transact(ledger.database, (tx) =>
    post(tx, {
      key: `g:down:${charges}`,
      kind: 'adjustment',
      accountId,
      memo: 'Adjustment',
      actor: 'test',
      reason: 'a test',
      transfers: [transfer],
    }),
  )
}

const rests = async (accountId: string) =>
  Object.fromEntries((await listGrants(ledger.database.db, accountId, 100)).map(({ id, rest }) => [id, rest]))
const inDays = (days: number) => addMs(ledger.clock.now(), days * DAY_MS)

test('what expires first is spent first, and paid money last', async () => {
  const accountId = await open(usd('10'))
  const never = await give(accountId, usd('3'), null)
  const late = await give(accountId, usd('4'), inDays(20))
  const soon = await give(accountId, usd('5'), inDays(10))
  await spend(accountId, usd('6'))
  expect(await rests(accountId)).toEqual({ [soon]: zeroUsd, [late]: usd('3'), [never]: usd('3') })
  await spend(accountId, usd('5'))
  expect(await rests(accountId)).toEqual({ [soon]: zeroUsd, [late]: zeroUsd, [never]: usd('1') })
  await spend(accountId, usd('4'))
  expect([await unspent(accountId), await available(accountId)]).toEqual([zeroUsd, usd('7')])
})

test('a charge before a grant is not paid with it', async () => {
  const accountId = await open(usd('10'))
  await spend(accountId, usd('6'))
  const grant = await give(accountId, usd('5'), inDays(10))
  expect(await rests(accountId)).toEqual({ [grant]: usd('5') })
})

test('what is on hold at the end can still be charged, and is taken back when it is released', async () => {
  const accountId = await open()
  const grant = await give(accountId, usd('10'), inDays(1))
  const key = await hold(accountId, usd('8'))
  ledger.clock.advance(DAY_MS)
  await expireCredit(ledger.app, 100)
  expect([await available(accountId), await rests(accountId)]).toEqual([zeroUsd, { [grant]: usd('8') }])
  await charge(key, usd('3'))
  await sql`select ledger_release(${`${key}:back`}, ${key}, ${toDate(ledger.clock.now())}, ${usd('5').toString()}::bigint, 'Rest')`.execute(
    ledger.database.db,
  )
  expect(await available(accountId)).toBe(usd('5'))
  ledger.clock.advance(HOUR_MS)
  await expireCredit(ledger.app, 100)
  expect([await available(accountId), await rests(accountId)]).toEqual([zeroUsd, { [grant]: zeroUsd }])
  const [row] = await listGrants(ledger.database.db, accountId, 1)
  expect(row).toMatchObject({ used_nano: usd('3'), taken_nano: usd('7'), due_at: null })
})

test('money that is taken away otherwise was not given again by a later payment', async () => {
  const accountId = await open()
  const grant = await give(accountId, usd('10'), inDays(1))
  await takeAway(accountId, usd('7'))
  expect(await rests(accountId)).toEqual({ [grant]: usd('3') })
  await buy(ledger, accountId, usd('50'))
  expect(await rests(accountId)).toEqual({ [grant]: usd('3') })
  ledger.clock.advance(DAY_MS)
  await expireCredit(ledger.app, 100)
  expect(await available(accountId)).toBe(usd('50'))
})

test('a refund to a card leaves out what was given', async () => {
  const accountId = await open()
  await pay(ledger, accountId, 'given', { amount: usd('20'), tax: zeroUsd })
  await spend(accountId, usd('20'))
  await give(accountId, usd('20'), null)
  expect(await refundPayment(ledger, 'given', 'rfd_given', usd('0.01'))).toBe('insufficient')
  await buy(ledger, accountId, usd('1'))
  expect(await refundPayment(ledger, 'given', 'rfd_given_1', usd('1'))).toMatchObject({ state: 'open' })
  expect(await available(accountId)).toBe(usd('20'))
})

/** Everything in cents; a grant without an end has the last one. */
interface ModelGrant {
  readonly id: string
  readonly end: number
  readonly order: number
  rest: number
}

const NEVER = 1_000

test('property: rests are what a replay of every charge leaves, and nothing is ever below zero', async () => {
  const cents = (n: number): NanoUsd => nanoUsdOf(BigInt(n) * 10_000_000n)
  const step = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('give'),
        n: fc.integer({ min: 1, max: 500 }),
        days: fc.integer({ min: 1, max: 9 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant('buy'), n: fc.integer({ min: 1, max: 500 }), days: fc.constant(0) }),
    },
    {
      weight: 6,
      arbitrary: fc.record({ do: fc.constant('spend'), n: fc.integer({ min: 1, max: 400 }), days: fc.constant(0) }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constant('wait'), n: fc.constant(0), days: fc.integer({ min: 1, max: 4 }) }),
    },
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25 }), async (steps) => {
      const accountId = await open()
      const model: ModelGrant[] = []
      let [balance, today, given] = [0, 0, 0]
      for (const { do: action, n, days } of steps) {
        // Expiries of earlier cases are none of this account.
        if (action === 'give') {
          const isEndless = days === 9
          const id = await give(accountId, cents(n), isEndless ? null : inDays(days))
          given += 1
          model.push({ id, end: isEndless ? NEVER : today + days, order: given, rest: n })
          balance += n
        } else if (action === 'buy') {
          await buy(ledger, accountId, cents(n))
          balance += n
        } else if (action === 'wait') {
          ledger.clock.advance(days * DAY_MS)
          today += days
          while (await expireCredit(ledger.app, 100)) continue
          for (const grant of model.filter(({ end }) => end <= today)) {
            balance -= grant.rest
            grant.rest = 0
          }
        } else {
          const spent = Math.min(n, balance)
          if (spent === 0) continue
          await spend(accountId, cents(spent))
          balance -= spent
          let left = spent
          for (const grant of model.toSorted((a, b) => a.end - b.end || a.order - b.order)) {
            const part = Math.min(left, grant.rest)
            grant.rest -= part
            left -= part
          }
        }
        expect(await available(accountId)).toBe(cents(balance))
        const total = model.reduce((sum, { rest }) => sum + rest, 0)
        expect(await unspent(accountId)).toBe(cents(total))
        expect(total).toBeLessThanOrEqual(balance)
      }
      expect(await rests(accountId)).toEqual(Object.fromEntries(model.map(({ id, rest }) => [id, cents(rest)])))
    }),
    { numRuns: 40 },
  )
  const verdict = await verifyLedger(ledger.app)
  expect(verdict.ok && verdict.value.findings).toEqual([])
})

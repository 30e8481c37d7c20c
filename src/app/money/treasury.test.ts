/** Gateways never hold more than the balance, respect key limits, and release unused money. */
import * as fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { buy, openAccount } from '../../../test/harness/ledger.ts'
import {
  grantedBy,
  openPurseLedger,
  purseOfKey,
  sharedPurse,
  type PurseLedger,
} from '../../../test/harness/purse-ledger.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { addMs, MINUTE_MS, SECOND_MS } from '../../base/instant.ts'
import { nanoUsdOf, sumUsd, usd } from '../../base/money.ts'
import { transact } from '../../store/platform/database.ts'
import { lockAvailable, releaseExpiredHolds } from '../../store/ledger/ledger.ts'
import { lockOrderFacts } from '../../store/rental/order.ts'
import { topUpPurse } from '../../store/request/purse.ts'
import type { GatewayTreasury } from './treasury.ts'
import { settleRecords } from '../../domain/settlement.ts'

let ledger: PurseLedger
beforeAll(async () => {
  ledger = await openPurseLedger()
})
afterAll(() => ledger.close())

describe('topping up', () => {
  test('grants the requested amount, or what is left, or nothing if that is too little', async () => {
    const actor = await openAccount(ledger, 'grants', usd('1'))
    const treasury = await ledger.startTreasury()
    const topUp = (maximum: string, minimum: string) =>
      treasury.topUp(sharedPurse(actor), { maximum: usd(maximum), minimum: usd(minimum) })
    expect(await topUp('0.4', '0.1')).toEqual({
      kind: 'granted',
      holdKey: `purse:${ledger.gatewayIds.at(-1)}:${actor.accountId}`,
      amount: usd('0.4'),
      expiresAt: ledger.clock.now() + 10 * MINUTE_MS,
    })
    expect(await topUp('5', '0.6')).toMatchObject({ kind: 'granted', amount: usd('0.6') })
    expect(await topUp('5', '0.000000001')).toEqual({ kind: 'insufficient', why: 'balance' })
    expect(await ledger.balances(actor)).toEqual({ available: 0n, held: usd('1'), earnings: 0n })
  })

  test('of two gateways never exceeds a small balance', async () => {
    let accounts = 0
    await fc.assert(
      fc.asyncProperty(
        fc.bigInt({ min: 1n, max: 2_000n }),
        fc.array(fc.record({ minimum: fc.bigInt({ min: 1n, max: 300n }), more: fc.bigInt({ min: 0n, max: 300n }) }), {
          minLength: 4,
          maxLength: 16,
        }),
        async (balance, asks) => {
          accounts += 1
          const actor = await openAccount(ledger, `small${accounts}`, nanoUsdOf(balance))
          const [one, other] = [await ledger.startTreasury(), await ledger.startTreasury()]
          const topped = await Promise.all(
            asks.map(({ minimum, more }, n) =>
              (n % 2 === 0 ? one : other).topUp(sharedPurse(actor), {
                minimum: nanoUsdOf(minimum),
                maximum: nanoUsdOf(minimum + more),
              }),
            ),
          )
          const granted = sumUsd(topped.map(grantedBy))
          const { available, held } = await ledger.balances(actor)
          expect(held).toBe(granted)
          expect(available + held).toBe(balance)
          // The rest is too little for the refused request.
          const refused = asks.filter((_, n) => topped[n]?.kind === 'insufficient')
          expect(refused.filter(({ minimum }) => minimum <= available)).toEqual([])
        },
      ),
      { numRuns: 8 },
    )
  })

  test('respects the limits of a key over two gateways, counting spent and held money', async () => {
    const actor = await openAccount(ledger, 'limited', usd('100'))
    const [one, other] = [await ledger.startTreasury(), await ledger.startTreasury()]
    await ledger.limitKey(actor, { total: usd('1') })
    const ask = (treasury: GatewayTreasury, maximum: string, minimum: string) =>
      treasury.topUp(purseOfKey(actor), { maximum: usd(maximum), minimum: usd(minimum) })
    const granted = await Promise.all(
      Array.from({ length: 30 }, (_, n) => ask(n % 2 === 0 ? one : other, '0.07', '0.03')),
    )
    // 14 × 0.07, and 0.02 that is too little for another.
    expect(sumUsd(granted.map(grantedBy))).toBe(usd('0.98'))
    expect(granted.filter((topped) => topped.kind === 'insufficient' && topped.why === 'key_limit')).toHaveLength(16)

    // Spent and held money count the same; released money is available again.
    const holdKey = `purse:${ledger.gatewayIds.at(-2)}:${actor.accountId}:${actor.keyId}`
    await settleRecords(one, [ledger.recordOf(actor, holdKey, usd('0.05'))])
    expect(await ask(other, '1', '0.03')).toMatchObject({ kind: 'insufficient', why: 'key_limit' })
    await one.giveBack(holdKey, usd('0.1'))
    expect(await ask(other, '1', '0.03')).toMatchObject({ kind: 'granted', amount: usd('0.12') })

    // An order with the key counts the purses too; the account's own purse is not limited by the key.
    const facts = await transact(ledger.database, (tx) => lockOrderFacts(tx, actor.accountId, actor.keyId))
    expect(facts.key_budget).toBe(0n)
    expect(await ledger.fill(one, actor, usd('50'))).toBe(`purse:${ledger.gatewayIds.at(-2)}:${actor.accountId}`)
  })

  test('a monthly limit resets with the month, less money in purses', async () => {
    const actor = await openAccount(ledger, 'monthly', usd('100'))
    const treasury = await ledger.startTreasury()
    await ledger.limitKey(actor, { monthly: usd('1'), total: usd('1.5') })
    const holdKey = await ledger.fill(treasury, actor, usd('1'), purseOfKey(actor))
    await settleRecords(treasury, [ledger.recordOf(actor, holdKey, usd('0.8'))])
    expect((await treasury.topUp(purseOfKey(actor), { maximum: usd('1'), minimum: usd('0.1') })).kind).toBe(
      'insufficient',
    )
    ledger.clock.advance(31 * 24 * 60 * MINUTE_MS)
    const next = await treasury.topUp(purseOfKey(actor), { maximum: usd('9'), minimum: usd('0.1') })
    // Monthly 1 − 0.2, total 1.5 − 0.8 − 0.2.
    expect(grantedBy(next)).toBe(usd('0.5'))
  })
})

describe('unused purses', () => {
  test('are released in part or whole, and never more than they hold', async () => {
    const actor = await openAccount(ledger, 'back', usd('1'))
    const treasury = await ledger.startTreasury()
    const holdKey = await ledger.fill(treasury, actor, usd('0.5'))
    await treasury.giveBack(holdKey, usd('0.2'))
    expect((await treasury.readPurses([holdKey, 'purse:none'])).get(holdKey)).toBe(usd('0.3'))
    await treasury.giveBack(holdKey, nanoUsdOf(2n ** 70n))
    await treasury.giveBack('purse:none', usd('1'))
    expect(await ledger.balances(actor)).toMatchObject({ available: usd('1'), held: 0n })
  })

  test('of an earlier run are released together; those of other gateways stay', async () => {
    const [one, other] = [await ledger.startTreasury(), await ledger.startTreasury()]
    const actors = [await openAccount(ledger, 'ended1', usd('1')), await openAccount(ledger, 'ended2', usd('1'))]
    for (const actor of actors) await ledger.fill(one, actor, usd('0.3'))
    const remaining = actors[0] ?? (await openAccount(ledger, 'ended3', usd('1')))
    await ledger.fill(other, remaining, usd('0.1'))
    await one.releaseOwnPurses()
    expect((await Promise.all(actors.map((actor) => ledger.balances(actor)))).map(({ held }) => held)).toEqual([
      usd('0.1'),
      0n,
    ])
  })

  test('are not released if refilled at the last moment', async () => {
    const actor = await openAccount(ledger, 'lastmoment', usd('1'))
    const treasury = await ledger.startTreasury()
    await ledger.fill(treasury, actor, usd('0.5'))
    ledger.clock.advance(10 * MINUTE_MS)
    let releasing: Promise<number> | undefined
    await transact(ledger.database, async (tx) => {
      await lockAvailable(tx, [actor.accountId])
      releasing = transact(ledger.database, (other) => releaseExpiredHolds(other, 100))
      await waitFor('the release to wait for the balances', async () => {
        const waiting = await sql`select 1 from pg_stat_activity
          where wait_event_type = 'Lock' and datname = current_database()`.execute(ledger.database.db)
        return waiting.rows.length > 0
      })
      const expiresAt = addMs(ledger.clock.now(), 10 * MINUTE_MS)
      const request = { maximum: usd('0.1'), minimum: usd('0.1'), now: ledger.clock.now(), expiresAt }
      await topUpPurse(tx.db, `${ledger.gatewayIds.at(-1)}`, sharedPurse(actor), request)
    })
    await releasing
    expect((await ledger.balances(actor)).held).toBe(usd('0.6'))
  })

  test('stay while they are renewed', async () => {
    const actor = await openAccount(ledger, 'renewed', usd('1'))
    const treasury = await ledger.startTreasury()
    const holdKey = await ledger.fill(treasury, actor, usd('0.5'))
    ledger.clock.advance(9 * MINUTE_MS)
    expect(await treasury.renew([holdKey])).toBe(ledger.clock.now() + 10 * MINUTE_MS)
    ledger.clock.advance(9 * MINUTE_MS)
    await transact(ledger.database, (tx) => releaseExpiredHolds(tx, 100))
    expect((await ledger.balances(actor)).held).toBe(usd('0.5'))
    ledger.clock.advance(MINUTE_MS)
    await transact(ledger.database, (tx) => releaseExpiredHolds(tx, 100))
    expect((await ledger.balances(actor)).held).toBe(0n)
    await buy(ledger, actor.accountId, usd('1'))
  })
})

test('recently seen gateways count as live', async () => {
  ledger.clock.advance(31 * SECOND_MS)
  const treasury = await ledger.startTreasury()
  expect(await treasury.liveGateways()).toBe(1)
  await ledger.startTreasury()
  expect(await treasury.liveGateways()).toBe(2)
  ledger.clock.advance(20 * SECOND_MS)
  await treasury.beat()
  ledger.clock.advance(20 * SECOND_MS)
  expect(await treasury.liveGateways()).toBe(1)
})

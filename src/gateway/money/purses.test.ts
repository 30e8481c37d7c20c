/** Nothing is reserved that was not granted, and the sums add up whatever fails, in any order. */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { addMs, MINUTE_MS, SECOND_MS } from '../../base/instant.ts'
import { nanoUsdOf, usd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { fail } from '../../contract/result.ts'
import type { PurseOwner, Topped } from '../../domain/purse.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import type { OpenReservation, Purse } from './purse.ts'
import { Purses, type PurseTreasury } from './purses.ts'

type Fault = 'none' | 'before' | 'after'

/** A ledger with one account, whose calls can fail before or after they take effect. */
function makeLedger(balance: NanoUsd) {
  const clock = manualClock()
  const ledger = {
    clock,
    available: balance,
    holds: new Map<string, { amount: NanoUsd; expiresAt: number }>(),
    fault: 'none' as Fault,
    why: 'balance' as 'balance' | 'budget',
    topUps: 0,
    errors: 0,
  }
  const work = <T>(does: () => T): T => {
    if (ledger.fault === 'before') throw new Error('the database is away')
    const answer = does()
    if (ledger.fault === 'after') throw new Error('the connection broke')
    return answer
  }
  const holdOf = (key: string) => ledger.holds.get(key) ?? { amount: zeroUsd, expiresAt: 0 }
  const treasury: PurseTreasury = {
    topUp: async (owner, { maximum, minimum }) =>
      work((): Topped => {
        ledger.topUps += 1
        const holdKey = `purse:${owner.accountId}:${owner.apiKeyId ?? ''}`
        const amount = maximum < ledger.available ? maximum : ledger.available
        if (maximum < minimum) throw new Error('wants less than it needs')
        if (amount < minimum || amount <= 0n) return { kind: 'insufficient', why: ledger.why }
        const expiresAt = addMs(clock.now(), 10 * MINUTE_MS)
        ledger.available = nanoUsdOf(ledger.available - amount)
        ledger.holds.set(holdKey, { amount: nanoUsdOf(holdOf(holdKey).amount + amount), expiresAt })
        return { kind: 'granted', holdKey, amount, expiresAt }
      }),
    giveBack: async (holdKey, most) =>
      work(() => {
        const hold = holdOf(holdKey)
        const amount = most < hold.amount ? most : hold.amount
        ledger.available = nanoUsdOf(ledger.available + amount)
        ledger.holds.set(holdKey, { ...hold, amount: nanoUsdOf(hold.amount - amount) })
      }),
    renew: async (holdKeys) =>
      work(() => {
        const expiresAt = addMs(clock.now(), 10 * MINUTE_MS)
        for (const key of holdKeys) ledger.holds.set(key, { ...holdOf(key), expiresAt })
        return expiresAt
      }),
    readPurses: async (holdKeys) => work(() => new Map(holdKeys.map((key) => [key, holdOf(key).amount]))),
  }
  const purses = new Purses({ treasury, clock, onError: () => (ledger.errors += 1) })
  /** Like the reconciler of every server. True: some money was returned. */
  const expire = (): boolean => {
    const expired = [...ledger.holds].filter(([, hold]) => hold.amount > 0n && hold.expiresAt <= clock.now())
    for (const [key, hold] of expired) {
      ledger.available = nanoUsdOf(ledger.available + hold.amount)
      ledger.holds.set(key, { ...hold, amount: zeroUsd })
    }
    return expired.length > 0
  }
  return { ledger, treasury, purses, expire, holdOf }
}

const owner: PurseOwner = { accountId: 'acc', apiKeyId: null }

describe('invariants', () => {
  const amount = fc.bigInt({ min: 0n, max: 1_500_000_000n }).map(nanoUsdOf)
  const steps = fc.oneof(
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('reserve' as const), worst: amount }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('finish' as const), which: fc.nat(), share: fc.nat(100) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('cancel' as const), which: fc.nat() }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('settle' as const) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('recall' as const) }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('tend' as const), seconds: fc.nat(70) }) },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant('fault' as const),
        fault: fc.constantFrom<Fault>('none', 'before', 'after'),
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('sleep' as const), minutes: fc.nat(15) }) },
  )

  test('free, reserved and spent money never exceeds the hold, and equals it after a recount', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(steps, { maxLength: 60 }), async (all) => {
        const start = usd('5')
        const { ledger, purses, expire, holdOf } = makeLedger(start)
        const open: OpenReservation[] = []
        const finished: Array<{ of: Purse; cost: NanoUsd }> = []
        let charged = 0n
        let purse: Purse | undefined
        /** Requests were in progress when their purse expired: until they end, it cannot cover their possible cost. */
        let isUncovered = false
        const expireAll = (): void => {
          isUncovered ||= expire() && open.length + finished.length > 0
        }
        const settle = (): void => {
          for (const { of, cost } of finished.splice(0)) {
            const key = of.holdKey ?? ''
            const hold = holdOf(key)
            const missing = cost > hold.amount ? cost - hold.amount : 0n
            ledger.available = nanoUsdOf(ledger.available - missing)
            ledger.holds.set(key, { ...hold, amount: nanoUsdOf(hold.amount + missing - cost) })
            charged += cost
            of.settle(cost)
          }
        }
        for (const step of all) {
          if (step.kind === 'reserve') {
            const got = await purses.reserve(owner, step.worst)
            if (!got.ok) continue
            open.push(got.value)
            purse = got.value.purse
          } else if (step.kind === 'finish' || step.kind === 'cancel') {
            const [reservation] = open.length === 0 ? [] : open.splice(step.which % open.length, 1)
            if (reservation === undefined) continue
            const share = step.kind === 'cancel' ? 0n : BigInt(step.share)
            const cost = nanoUsdOf((reservation.amount * share) / 100n)
            const of = purses.end(reservation, cost)
            await of.giving
            if (cost > 0n) finished.push({ of, cost })
          } else if (step.kind === 'settle') {
            settle()
          } else if (step.kind === 'recall') {
            await purses.recall(owner.accountId)
            if ((purse?.free ?? 0n) !== 0n) throw new Error('money stayed after a recall')
          } else if (step.kind === 'tend') {
            ledger.clock.advance(step.seconds * SECOND_MS)
            expireAll()
            settle()
            await purses.maintain().catch(() => {})
          } else if (step.kind === 'fault') {
            ledger.fault = step.fault
          } else {
            ledger.clock.advance(step.minutes * MINUTE_MS)
            expireAll()
          }
          if (purses.size === 0) purse = undefined
          const held = holdOf('purse:acc:').amount
          const isKnown = purse !== undefined && purse.isAlive(ledger.clock.now()) && !isUncovered
          expect(isKnown && !purse?.needsRecount ? purse?.total : held).toBe(held)
          expect(isKnown ? purse?.total : 0n).toBeLessThanOrEqual(held)
          expect(ledger.available + held + charged).toBe(start)
        }
        // When idle, all unused money is returned to the customer.
        ledger.fault = 'none'
        for (const reservation of open.splice(0)) await purses.end(reservation, zeroUsd).giving
        settle()
        for (let pass = 0; pass < 3; pass += 1) {
          ledger.clock.advance(40 * SECOND_MS)
          await purses.maintain()
        }
        ledger.clock.advance(11 * MINUTE_MS)
        expire()
        expect(purses.size).toBe(0)
        expect(holdOf('purse:acc:').amount).toBe(0n)
        expect(ledger.available + charged).toBe(start)
      }),
      { numRuns: 300 },
    )
  })

  test('many requests at once, with database answers in any order, get exactly what is there', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.array(fc.bigInt({ min: 1n, max: 40n }), { minLength: 1, maxLength: 30 }),
        async (scheduler, asks) => {
          const start = usd('0.3')
          const { ledger, treasury, expire, holdOf } = makeLedger(start)
          const topUp = scheduler.scheduleFunction(treasury.topUp.bind(treasury))
          let atOnce = 0
          const purses = new Purses({
            treasury: {
              ...treasury,
              topUp: async (...args) => {
                atOnce += 1
                expect(atOnce).toBe(1)
                return topUp(...args).finally(() => (atOnce -= 1))
              },
            },
            clock: ledger.clock,
            onError: () => {},
          })
          const answers = asks.map(async (cents) => {
            const worst = nanoUsdOf(cents * 10_000_000n)
            const got = await purses.reserve(owner, worst)
            return got.ok ? got.value : worst
          })
          await scheduler.waitFor(Promise.all(answers))
          const all = await Promise.all(answers)
          const reserved = all.filter((one) => typeof one !== 'bigint')
          const purse = reserved[0]?.purse
          const sum = reserved.reduce((total, one) => total + one.amount, 0n)
          expect(sum).toBeLessThanOrEqual(start)
          expect(purse?.reserved ?? 0n).toBe(sum)
          // Each refusal was correct: the unreserved money would not have covered it.
          expect(all.filter((one) => typeof one === 'bigint' && one <= start - sum)).toEqual([])
          expect(holdOf('purse:acc:').amount + ledger.available).toBe(start)
          expire()
        },
      ),
      { numRuns: 60 },
    )
  })
})

describe('a purse', () => {
  test('that is needed again while it is given back is refilled afterwards', async () => {
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), async (scheduler) => {
        const { ledger, treasury, holdOf } = makeLedger(usd('1'))
        let begun = () => {}
        const isGoing = new Promise<void>((resolve) => (begun = resolve))
        /** The ledger applies a call at one moment and answers at another. */
        const slow =
          <Args extends unknown[], T>(work: (...args: Args) => Promise<T>) =>
          async (...args: Args): Promise<T> => {
            begun()
            await scheduler.schedule(Promise.resolve())
            const answer = await work(...args)
            await scheduler.schedule(Promise.resolve())
            return answer
          }
        const slowTreasury: PurseTreasury = {
          ...treasury,
          topUp: (...args) => (isFilled ? slow(treasury.topUp)(...args) : treasury.topUp(...args)),
          giveBack: slow(treasury.giveBack),
        }
        let isFilled = false
        const purses = new Purses({ treasury: slowTreasury, clock: ledger.clock, onError: () => {} })
        const first = await purses.reserve(owner, usd('0.1'))
        if (first.ok) purses.end(first.value, zeroUsd)
        isFilled = true
        ledger.clock.advance(31 * SECOND_MS)
        const tended = purses.maintain()
        await isGoing
        const again = purses.reserve(owner, usd('0.3'))
        const [, got] = await scheduler.waitFor(Promise.all([tended, again]))
        expect(got.ok && got.value.purse?.total).toBe(holdOf('purse:acc:').amount)
      }),
      { numRuns: 40 },
    )
  })

  test.each(['before', 'after'] as const)('whose give-back failed (%s) is recounted', async (fault) => {
    const { ledger, purses, holdOf } = makeLedger(usd('100'))
    const large = await purses.reserve(owner, usd('50'))
    const small = await purses.reserve(owner, usd('0.01'))
    if (!large.ok || !small.ok) throw new Error('not covered')
    const { purse } = small.value
    purses.end(large.value, zeroUsd)
    ledger.clock.advance(25 * SECOND_MS)
    ledger.fault = fault
    await purses.maintain()
    expect(purse?.needsRecount).toBe(true)
    expect(purse?.total).toBeLessThan(usd('1'))
    ledger.fault = 'none'
    await purses.maintain()
    expect(purse?.total).toBe(holdOf('purse:acc:').amount)
  })

  test('is recounted only if nothing has changed it in the meantime', async () => {
    const { ledger, treasury, holdOf } = makeLedger(usd('100'))
    let between = async (): Promise<unknown> => undefined
    const purses = new Purses({
      treasury: {
        ...treasury,
        readPurses: async (holdKeys) => {
          const held = await treasury.readPurses(holdKeys)
          await between()
          return held
        },
      },
      clock: ledger.clock,
      onError: () => {},
    })
    const small = await purses.reserve(owner, usd('0.01'))
    ledger.fault = 'after'
    await purses.reserve(owner, usd('1'))
    ledger.fault = 'none'
    // Its answer is older than this top-up.
    between = () => purses.reserve(owner, usd('7'))
    await purses.maintain()
    const purse = small.ok ? small.value.purse : undefined
    expect([purse?.needsRecount, purse?.reserved]).toEqual([true, usd('7.01')])
    between = async () => undefined
    await purses.maintain()
    expect(purse?.needsRecount).toBe(false)
    expect(purse?.total).toBe(holdOf('purse:acc:').amount)
  })

  test('decides in memory once filled, and asks for more as more is spent', async () => {
    const { ledger, purses } = makeLedger(usd('100'))
    for (let n = 0; n < 2_000; n += 1) {
      const worst = usd('0.01')
      const got = purses.tryReserve(owner, worst) ?? (await purses.reserve(owner, worst))
      if ('ok' in got && !got.ok) throw new Error(got.message)
      purses.end('ok' in got ? got.value : got, usd('0.005')).settle(usd('0.005'))
    }
    // Ten dollars, five cents at first, then doubling with the rate.
    expect(ledger.topUps).toBeLessThan(12)
  })

  test('refuses at once what the balance does not cover, while others run', async () => {
    const { purses } = makeLedger(usd('1'))
    const first = await purses.reserve(owner, usd('0.9'))
    expect(first.ok).toBe(true)
    const second = await purses.reserve(owner, usd('0.2'))
    expect(second).toEqual(fail('insufficient_balance', { amount: usd('0.2'), purpose: 'request' }))
    expect((await purses.reserve(owner, usd('0.1'))).ok).toBe(true)
  })

  test('says that a budget is used up', async () => {
    const { ledger, purses } = makeLedger(usd('1'))
    ledger.why = 'budget'
    expect(await purses.reserve(owner, usd('2'))).toEqual(fail('budget_exceeded', {}))
  })

  test('is not spent from near its end, since its money may be gone', async () => {
    const { ledger, purses } = makeLedger(usd('1'))
    const got = await purses.reserve(owner, usd('0.01'))
    if (got.ok) purses.end(got.value, zeroUsd)
    expect(purses.tryReserve(owner, usd('0.01'))).toBeDefined()
    ledger.clock.advance(9 * MINUTE_MS)
    expect(purses.tryReserve(owner, usd('0.01'))).toBeUndefined()
    const before = ledger.topUps
    expect((await purses.reserve(owner, usd('0.01'))).ok).toBe(true)
    expect(ledger.topUps).toBe(before + 1)
  })

  test('gives a surplus back while in use', async () => {
    const { ledger, purses, holdOf } = makeLedger(usd('100'))
    const large = await purses.reserve(owner, usd('50'))
    const small = await purses.reserve(owner, usd('0.01'))
    if (large.ok) purses.end(large.value, zeroUsd)
    // Recently reserved amounts may be needed again in a moment.
    await purses.maintain()
    expect(holdOf('purse:acc:').amount).toBeGreaterThan(usd('50'))
    ledger.clock.advance(25 * SECOND_MS)
    await purses.maintain()
    expect(holdOf('purse:acc:').amount).toBeLessThan(usd('1'))
    expect(small.ok).toBe(true)
  })

  test('reports an unreachable database, with Retry-After', async () => {
    const { ledger, purses } = makeLedger(usd('1'))
    ledger.fault = 'before'
    expect(await purses.reserve(owner, usd('0.1'))).toMatchObject({ kind: 'unavailable', retryAfterMs: 2_000 })
    expect(ledger.errors).toBe(1)
    // A free request needs no money.
    expect((await purses.reserve(owner, zeroUsd)).ok).toBe(true)
  })

  test('ends a reservation once', async () => {
    const { purses } = makeLedger(usd('1'))
    const got = await purses.reserve(owner, usd('0.1'))
    if (!got.ok) throw new Error(got.message)
    purses.end(got.value, zeroUsd)
    expect(() => purses.end(got.value, zeroUsd)).toThrow(/already ended/)
    expect(() => purses.end({ amount: usd('1') }, zeroUsd)).toThrow(/not a reservation/)
  })

  test('of a key is separate from its account’s', async () => {
    const { ledger, purses, holdOf } = makeLedger(usd('1'))
    await purses.reserve(owner, usd('0.1'))
    await purses.reserve({ accountId: 'acc', apiKeyId: 'k1' }, usd('0.2'))
    expect(purses.size).toBe(2)
    expect(holdOf('purse:acc:').amount).toBe(usd('0.15'))
    expect(holdOf('purse:acc:k1').amount).toBe(usd('0.25'))
    expect(ledger.available).toBe(usd('0.6'))
  })
})

/** All servers together grant at most the limit, with few database calls, and the limiter itself never fails. */
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startIdentityTest, type IdentityTest } from '../../../test/harness/identity.ts'
import { MINUTE_MS } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { openDatabase } from '../../store/platform/database.ts'
import { deleteRateWindows, takeRateSlice } from '../../store/request/rate-window.ts'
import { makeRateLimiter, type RateAnswer } from './rate-limit.ts'

let fixture: IdentityTest
beforeAll(async () => {
  fixture = await startIdentityTest()
})
afterAll(() => fixture.close())

/** Long, so that a slow machine still waits for the counter: a server that gives up counts alone. */
const sliceTimeoutMs = 60_000
const start = () =>
  makeRateLimiter({
    takeSlice: (request) => takeRateSlice(fixture.database.db, request),
    clock: fixture.clock,
    sliceTimeoutMs,
  })
const granted = (answers: readonly RateAnswer[]) => answers.filter((answer) => answer.allowed).length

describe('the limit across all servers', () => {
  test.each([1, 3, 9, 10, 57, 600])(
    'two servers together grant %i per minute, however many ask at once',
    async (limit) => {
      const [one, other] = [start(), start()]
      const subject = `many:${limit}`
      const ask = () =>
        Promise.all(Array.from({ length: 1_000 }, (_, n) => (n % 2 === 0 ? one : other).take(subject, limit)))
      for (const minute of [1, 2]) {
        const answers = await ask()
        expect(granted(answers), `minute ${minute}`).toBeLessThanOrEqual(limit)
        // The faster server's unspent part of its last slice is lost.
        expect(granted(answers), `minute ${minute}`).toBeGreaterThanOrEqual(Math.floor(limit * 0.9))
        expect(answers.every((answer) => answer.remaining >= 0 && answer.limit === limit)).toBe(true)
        fixture.clock.advance(MINUTE_MS)
      }
    },
  )

  test('costs one database call per slice', async () => {
    let calls = 0
    const count = () => (calls += 1)
    fixture.database.pool.on('acquire', count)
    const limiter = start()
    for (let n = 0; n < 600; n += 1) await limiter.take('slices', 600)
    // Small slices at first, then tenths.
    expect(calls).toBe(14)
    // Once the budget of the minute is spent, no further calls are made.
    for (let n = 0; n < 50; n += 1) await limiter.take('slices', 600)
    expect(calls).toBe(15)
    fixture.database.pool.off('acquire', count)
  })

  test('reports the remaining budget and the start of the next minute', async () => {
    const limiter = start()
    const first = await limiter.take('reported', 100)
    expect(first).toMatchObject({ allowed: true, limit: 100, remaining: 99 })
    expect(first.resetAt % MINUTE_MS).toBe(0)
    expect(first.resetAt - fixture.clock.now()).toBeLessThanOrEqual(MINUTE_MS)
    expect((await start().take('reported', 100)).remaining).toBe(98)
  })

  test('is counted by each server alone without a database', async () => {
    const database = openDatabase({ url: fixture.url, clock: fixture.clock })
    const limiter = makeRateLimiter({
      takeSlice: (request) => takeRateSlice(database.db, request),
      clock: fixture.clock,
      sliceTimeoutMs,
    })
    expect(await limiter.take('open', 20)).toMatchObject({ allowed: true })
    await database.pool.end()
    const answers = await Promise.all(Array.from({ length: 50 }, () => limiter.take('open', 20)))
    expect(granted(answers)).toBe(19)
  })

  test('forgets old minutes', async () => {
    await start().take('old', 10)
    fixture.clock.advance(MINUTE_MS)
    await start().take('new', 10)
    expect(await deleteRateWindows(fixture.database.db, fixture.clock.now())).toBeGreaterThan(0n)
    const left = await fixture.database.db.selectFrom('rate_window').select('subject').execute()
    expect(left.map((row) => row.subject)).not.toContain('old')
  })
})

describe('several units at once', () => {
  const taken = (answers: ReadonlyArray<{ answer: RateAnswer; amount: number }>) =>
    answers.reduce((sum, { answer, amount }) => sum + (answer.allowed ? amount : 0), 0)

  test('two servers together grant at most the limit, whatever the amounts, and refuse only what exceeds it', async () => {
    let runs = 0
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 5_000 }),
        fc.array(fc.integer({ min: 1, max: 2_000 }), { minLength: 1, maxLength: 30 }),
        async (limit, amounts) => {
          const [one, other] = [start(), start()]
          const subject = `tokens:${(runs += 1)}`
          const answers = await Promise.all(
            amounts.map(async (amount, n) => ({
              amount,
              answer: await (n % 2 === 0 ? one : other).take(subject, limit, amount),
            })),
          )
          expect(taken(answers)).toBeLessThanOrEqual(limit)
          expect(answers.filter(({ answer, amount }) => answer.allowed && amount > limit)).toEqual([])
          // A single server grants everything that fits.
          const alone = start()
          const fresh = `alone:${runs}`
          let spent = 0
          for (const amount of amounts) {
            const { allowed, remaining } = await alone.take(fresh, limit, amount)
            expect(allowed).toBe(spent + amount <= limit)
            if (allowed) spent += amount
            expect(remaining).toBe(limit - spent)
          }
        },
      ),
      { numRuns: 15 },
    )
  })

  test('takes a large amount in one call, and small ones after it from memory', async () => {
    const limiter = start()
    let calls = 0
    const count = () => (calls += 1)
    fixture.database.pool.on('acquire', count)
    expect(limiter.tryTake('big', 10_000, 4_000)).toBeUndefined()
    expect(await limiter.take('big', 10_000, 4_000)).toMatchObject({ allowed: true, remaining: 6_000 })
    expect(calls).toBe(1)
    expect(limiter.tryTake('big', 10_000, 1)).toBeUndefined()
    await limiter.take('big', 10_000, 1)
    for (let n = 0; n < 999; n += 1) expect(limiter.tryTake('big', 10_000)).toMatchObject({ allowed: true })
    expect(calls).toBe(2)
    expect(limiter.tryTake('big', 10_000, 10_001)).toMatchObject({ allowed: false })
    fixture.database.pool.off('acquire', count)
  })

  test('tryTake reports a spent minute without a call', async () => {
    const limiter = start()
    expect(await limiter.take('spent', 10, 10)).toMatchObject({ allowed: true, remaining: 0 })
    expect(await limiter.take('spent', 10)).toMatchObject({ allowed: false })
    expect(limiter.tryTake('spent', 10)).toMatchObject({ allowed: false, limit: 10, remaining: 0 })
  })

  test('unused units return within their minute, and never in another', async () => {
    const limiter = start()
    const first = await limiter.take('back', 100, 100)
    expect(await limiter.take('back', 100)).toMatchObject({ allowed: false })
    limiter.giveBack('back', 60, first.resetAt)
    expect(limiter.tryTake('back', 100, 60)).toMatchObject({ allowed: true, remaining: 0 })
    // Never more than was taken, whatever is returned.
    limiter.giveBack('back', 1_000)
    expect(limiter.tryTake('back', 100, 100)).toMatchObject({ allowed: true })
    expect(limiter.tryTake('back', 100, 1)).toMatchObject({ allowed: false })
    fixture.clock.advance(MINUTE_MS)
    const second = await limiter.take('back', 100, 100)
    limiter.giveBack('back', 100, first.resetAt)
    expect(await limiter.take('back', 100)).toMatchObject({ allowed: false })
    limiter.giveBack('back', 1, second.resetAt)
    expect(limiter.tryTake('back', 100)).toMatchObject({ allowed: true })
    limiter.giveBack('never taken', 5)
    expect(limiter.tryTake('never taken', 100)).toBeUndefined()
  })

  test('the largest limit fits its counter', async () => {
    const limiter = start()
    const most = 2_147_483_647
    expect(await limiter.take('most', most, 900_000_000)).toMatchObject({ allowed: true, limit: 1_000_000_000 })
    expect(await start().take('most', most, 900_000_000)).toMatchObject({ allowed: false })
  })
})

describe('the limit of one server', () => {
  test('counts by subject and minute, in bounded memory', () => {
    const limiter = start()
    const ask = () => limiter.takeByAddress('read', '192.0.2.1', 3)
    expect([ask(), ask(), ask(), ask()].map((answer) => answer.allowed)).toEqual([true, true, true, false])
    expect(ask()).toMatchObject({ limit: 3, remaining: 0 })
    expect(limiter.takeByAddress('read', '192.0.2.2', 3)).toMatchObject({ allowed: true, remaining: 2 })
    for (let n = 0; n < limits.rateSubjects; n += 1) limiter.takeByAddress('other', String(n), 1)
    // The oldest subject was evicted.
    expect(ask()).toMatchObject({ allowed: true })
    fixture.clock.advance(MINUTE_MS)
    expect(ask()).toMatchObject({ allowed: true, remaining: 2 })
  })
  test('counts an IPv6 network of one client as one address', () => {
    const limiter = start()
    const ask = (address: string) => limiter.takeByAddress('read', address, 2).allowed
    expect([ask('2001:db8:1:2::1'), ask('2001:db8:1:2:ffff::9'), ask('2001:db8:1:2::3')]).toEqual([true, true, false])
    expect(ask('2001:db8:1:3::1')).toBe(true)
    // An IPv4 client of a server that listens on both.
    expect([ask('::ffff:192.0.2.7'), ask('192.0.2.7'), ask('192.0.2.7'), ask('192.0.2.8')]).toEqual([
      true,
      true,
      false,
      true,
    ])
  })
})

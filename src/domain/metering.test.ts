import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { addMs, HOUR_MS, instantOf, MINUTE_MS, type Instant } from '../base/instant.ts'
import {
  costOfSpan,
  formatUsdExactly,
  nanoUsdOf,
  shareOf,
  spanAffordable,
  usd,
  zeroUsd,
  type NanoUsd,
} from '../base/money.ts'
import {
  accrued,
  costUntil,
  HOLD_COVERS_MS,
  planClosing,
  planSettlement,
  SETTLE_EVERY_MS,
  type Funds,
  type OpenSegment,
  type Settlement,
} from './metering.ts'

const START = instantOf(Date.UTC(2026, 10, 14, 12))

/** A segment, its hold and its account's balance, updated by settlements as in the store. */
class Meter {
  segment: OpenSegment
  funds: Funds
  ended: Settlement | null = null
  charged = zeroUsd
  paidOut = zeroUsd

  constructor(pricePerHour: NanoUsd, funds: Funds, platformFeeBp: number | null = null) {
    const none = { settledUntil: START, settled: zeroUsd, supplierPaid: zeroUsd }
    this.segment = { startedAt: START, pricePerHour, platformFeeBp, ...none }
    this.funds = funds
  }

  settle(now: Instant): Settlement {
    return this.#apply(planSettlement(this.segment, this.funds, now))
  }

  close(end: Instant): Settlement {
    return this.#apply(planClosing(this.segment, this.funds, end))
  }

  deposit(amount: NanoUsd): void {
    this.funds = { ...this.funds, available: nanoUsdOf(this.funds.available + amount) }
  }

  #apply(plan: Settlement): Settlement {
    const { segment, funds } = this
    // Like the ledger's constraints: no balance goes below zero, in the order of the postings.
    assert(plan.topUp >= 0n && plan.topUp <= funds.available)
    assert(plan.charge >= 0n && plan.charge <= funds.held + plan.topUp)
    assert(plan.supplierShare >= 0n && plan.supplierShare <= plan.charge)
    assert(plan.until >= segment.settledUntil)
    this.segment = {
      ...segment,
      settledUntil: plan.until,
      settled: nanoUsdOf(segment.settled + plan.charge),
      supplierPaid: nanoUsdOf(segment.supplierPaid + plan.supplierShare),
    }
    this.funds = {
      held: nanoUsdOf(funds.held + plan.topUp - plan.charge),
      available: nanoUsdOf(funds.available - plan.topUp),
      allowance: funds.allowance === null ? null : nanoUsdOf(funds.allowance - plan.charge),
      committed: funds.committed,
    }
    this.charged = nanoUsdOf(this.charged + plan.charge)
    this.paidOut = nanoUsdOf(this.paidOut + plan.supplierShare)
    if (plan.endsAt !== null) this.ended = plan
    return plan
  }
}

const amount = (max: bigint) => fc.bigInt({ min: 0n, max }).map(nanoUsdOf)
/** From one nano-dollar to a few hundred dollars per hour, including odd amounts. */
const price = fc.oneof(amount(500_000_000_000n), amount(10_000n), fc.constantFrom(usd('0'), usd('2'), usd('23.92')))
const fee = fc.option(fc.integer({ min: 0, max: 10_000 }))
const steps = fc.array(fc.record({ ms: fc.integer({ min: 0, max: 3 * HOUR_MS }), deposit: amount(usd('50')) }), {
  maxLength: 30,
})

describe('for all instants, prices and funds', () => {
  test('parts add up to the whole, no balance goes below zero, and the end is the last paid millisecond', () => {
    fc.assert(
      fc.property(price, fee, amount(usd('30')), amount(usd('100')), steps, (price, fee, held, available, steps) => {
        const meter = new Meter(price, { held, available, allowance: null, committed: false }, fee)
        let money = held + available
        let now = START
        for (const step of steps) {
          now = addMs(now, step.ms)
          meter.deposit(step.deposit)
          money += step.deposit
          const payable = nanoUsdOf(meter.segment.settled + meter.funds.held + meter.funds.available)
          const plan = meter.settle(now)

          expect(meter.charged).toBe(costOfSpan(price, plan.until - START))
          expect(meter.paidOut).toBe(fee === null ? 0n : shareOf(meter.charged, 10_000 - fee))
          expect(meter.charged + meter.funds.held + meter.funds.available).toBe(money)
          const last = addMs(START, spanAffordable(price, payable))
          const ends = last <= now
          expect(plan.until).toBe(ends ? last : now)
          expect(plan.endsAt).toBe(ends ? last : null)
          expect(plan.endReason).toBe(ends ? 'balance_empty' : null)
          expect(costOfSpan(price, plan.until - START + 1) > payable).toBe(ends)
          if (ends) break
          expect(plan.dueAt).toBeGreaterThan(now)
          expect(plan.dueAt).toBeLessThanOrEqual(now + SETTLE_EVERY_MS)
          // Nothing is charged twice.
          expect(planSettlement(meter.segment, meter.funds, now)).toMatchObject({ charge: 0n, supplierShare: 0n })
          expect(accrued(meter.segment, now)).toBe(0n)
        }
      }),
      { numRuns: 2_000 },
    )
  })

  test('a late meter charges the same amounts, later', () => {
    const often = fc.array(fc.integer({ min: 0, max: HOUR_MS }), { minLength: 1, maxLength: 40 })
    fc.assert(
      fc.property(price, fee, amount(usd('30')), amount(usd('60')), often, (price, fee, held, available, often) => {
        const end = addMs(
          START,
          often.reduce((sum, ms) => sum + ms, 0),
        )
        const lateMeter = new Meter(price, { held, available, allowance: null, committed: false }, fee)
        lateMeter.settle(end)
        const promptMeter = new Meter(price, { held, available, allowance: null, committed: false }, fee)
        let now = START
        for (const ms of often) {
          now = addMs(now, ms)
          if (promptMeter.settle(now).endsAt !== null) break
        }
        expect(promptMeter.segment).toEqual(lateMeter.segment)
        expect(promptMeter.ended?.endsAt).toBe(lateMeter.ended?.endsAt)
        expect(promptMeter.ended?.endReason).toBe(lateMeter.ended?.endReason)
      }),
      { numRuns: 2_000 },
    )
  })

  test('never exceeds a limit, and names the limit as the reason', () => {
    fc.assert(
      fc.property(price, amount(usd('20')), steps, (price, allowance, steps) => {
        const meter = new Meter(price, { held: usd('30'), available: usd('1000'), allowance, committed: false })
        let now = START
        for (const step of steps) {
          now = addMs(now, step.ms)
          const plan = meter.settle(now)
          expect(meter.charged <= allowance).toBe(true)
          // The hold is sized for the limit too: money that can never be spent is not set aside.
          expect(plan.topUp === 0n || meter.funds.held + meter.charged <= allowance).toBe(true)
          const last = addMs(START, spanAffordable(price, allowance))
          expect(plan.endsAt).toBe(last <= now ? last : null)
          expect(plan.endReason).toBe(last <= now ? 'spending_limit' : null)
          if (plan.endsAt !== null) break
        }
      }),
      { numRuns: 1_000 },
    )
  })

  test('closing charges the whole segment, or as far as the money lasts', () => {
    fc.assert(
      fc.property(price, fee, amount(usd('30')), amount(usd('60')), steps, (price, fee, held, available, steps) => {
        const meter = new Meter(price, { held, available, allowance: null, committed: false }, fee)
        let now = START
        for (const { ms } of steps.slice(1)) {
          now = addMs(now, ms)
          if (meter.settle(now).endsAt !== null) return
        }
        const end = addMs(now, steps[0]?.ms ?? 0)
        const plan = meter.close(end)
        const last = addMs(START, spanAffordable(price, nanoUsdOf(held + available)))
        expect(plan.endsAt).toBe(Math.min(end, last))
        expect(meter.charged).toBe(costOfSpan(price, plan.until - START))
        expect(plan.endReason).toBe(last <= end ? 'balance_empty' : null)
      }),
      { numRuns: 2_000 },
    )
  })

  test('the hold covers the time to the next settlement, or the balance is empty', () => {
    fc.assert(
      fc.property(price, amount(usd('30')), amount(usd('300')), steps, (price, held, available, steps) => {
        const meter = new Meter(price, { held, available, allowance: null, committed: false })
        let now = START
        for (const { ms } of steps) {
          now = addMs(now, ms)
          const plan = meter.settle(now)
          if (plan.endsAt !== null) break
          // Prices so small that half an hour costs less than a nano-dollar may run one behind.
          const next = costUntil(meter.segment, addMs(now, SETTLE_EVERY_MS)) - meter.segment.settled
          expect(meter.funds.held + 1n >= next || meter.funds.available === 0n).toBe(true)
          expect(plan.topUp === 0n || meter.funds.held <= costOfSpan(price, HOLD_COVERS_MS) + 1n).toBe(true)
        }
      }),
      { numRuns: 1_000 },
    )
  })

  test('charges nothing when the clock goes back', () => {
    const meter = new Meter(usd('6'), { held: usd('6'), available: usd('6'), allowance: null, committed: false })
    meter.settle(addMs(START, 10 * MINUTE_MS))
    expect(meter.settle(addMs(START, 5 * MINUTE_MS))).toMatchObject({ charge: 0n, until: START + 10 * MINUTE_MS })
    expect(meter.settle(addMs(START, -HOUR_MS))).toMatchObject({ charge: 0n, until: START + 10 * MINUTE_MS })
  })
})

/**
 * One line is one settlement of a segment at $6.00/hr ($0.10 per minute) that starts with a hold for one hour.
 * `deposit` arrives just before it; `held` and `available` are the amounts after it.
 */
const scenarios = {
  'a balance runs out between two settlements': `
    at        deposit  charge       topUp  held         available  ends
    00:00:00  4.00     0.00         0.00   6.00         4.00       -
    00:05:00  0.00     0.50         0.00   5.50         4.00       -
    00:30:00  0.00     2.50         0.00   3.00         4.00       -
    00:35:00  0.00     0.50         3.50   6.00         0.50       -
    01:35:00  0.00     6.00         0.50   0.50         0.00       -
    01:39:59  0.00     0.498333333  0.00   0.001666667  0.00       -
    01:45:00  0.00     0.001666667  0.00   0.00         0.00       01:40:00 balance_empty`,
  'a meter that is hours late ends it at the same instant': `
    at        deposit  charge  topUp  held  available  ends
    05:00:00  4.00     10.00   4.00   0.00  0.00       01:40:00 balance_empty`,
  'a payment in time keeps it running': `
    at        deposit  charge  topUp  held  available  ends
    00:59:00  0.00     5.90    0.00   0.10  0.00       -
    01:00:00  20.00    0.10    6.00   6.00  14.00      -
    01:30:00  0.00     3.00    0.00   3.00  14.00      -
    01:31:00  0.00     0.10    3.10   6.00  10.90      -`,
  'a limit of $2.00 ends it after twenty minutes': `
    limit 2.00
    at        deposit  charge  topUp  held  available  ends
    00:10:00  90.00    1.00    0.00   5.00  90.00      -
    00:25:00  0.00     1.00    0.00   4.00  90.00      00:20:00 spending_limit`,
  'a used-up limit ends it immediately': `
    limit 0.00
    at        deposit  charge  topUp  held  available  ends
    00:10:00  90.00    0.00    0.00   6.00  90.00      00:00:00 spending_limit`,
}

describe('scenarios', () => {
  test.each(Object.entries(scenarios))('%s', (_, text) => {
    const lines = text
      .trim()
      .split('\n')
      .map((line) => line.trim())
    const limit = /^limit (\S+)$/.exec(lines[0] ?? '')?.[1]
    const meter = new Meter(usd('6'), {
      held: usd('6'),
      available: zeroUsd,
      allowance: limit === undefined ? null : usd(limit),
      committed: false,
    })
    for (const line of lines.filter((line) => /^\d/.test(line))) {
      const [at = '', deposit = ''] = line.split(/\s+/)
      meter.deposit(usd(deposit))
      const plan = meter.settle(addMs(START, msOf(at)))
      const amounts = [plan.charge, plan.topUp, meter.funds.held, meter.funds.available]
      const ends = plan.endsAt === null ? '-' : `${clockOf(plan.endsAt)} ${plan.endReason}`
      const words = [at, deposit, ...amounts.map((amount) => formatUsdExactly(amount).slice(1)), ends]
      expect(words.join(' ')).toBe(line.replace(/\s+/g, ' '))
    }
  })
})

function msOf(text: string): number {
  const [hours = 0, minutes = 0, seconds = 0] = text.split(':').map((part) => Number.parseInt(part, 10))
  return hours * HOUR_MS + minutes * MINUTE_MS + seconds * 1_000
}

function clockOf(at: Instant): string {
  return new Date(at - START).toISOString().slice(11, 19)
}

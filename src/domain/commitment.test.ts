import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { addMs, DAY_MS, HOUR_MS, instantOf, type Instant } from '../base/instant.ts'
import { costOfSpan, nanoUsdOf, shareOf, usd, zeroUsd, type NanoUsd } from '../base/money.ts'
import { earlyEndRule, planEnding, rateAt, usageOf, type Commitment, type UsedSegment } from './commitment.ts'
import { planClosing, planSettlement, type Funds, type OpenSegment } from './metering.ts'
import { commitmentOf, grantTerm, quoteTerms, type ReserveOption } from './term.ts'

const START = instantOf(Date.UTC(2026, 10, 14, 12))

/** A reserved rental, its hold and its bill, updated by the meter's plans as in the store. */
class Reserved {
  readonly segments: UsedSegment[] = []
  readonly commitment: Commitment
  held: NanoUsd
  charged = zeroUsd
  #open: OpenSegment | undefined

  constructor(listPrice: NanoUsd, options: readonly ReserveOption[], option: ReserveOption) {
    const term = grantTerm({ termType: 'reserved', ...option }, listPrice, options, START)
    assert(term.ok)
    const commitment = commitmentOf(term.value, options)
    assert(commitment !== null)
    this.commitment = commitment
    this.held = commitment.total
  }

  start(at: Instant, pricePerHour = this.commitment.perHour): void {
    const none = { settledUntil: at, settled: zeroUsd, supplierPaid: zeroUsd }
    this.#open = { startedAt: at, pricePerHour, platformFeeBp: null, ...none }
  }

  settle(now: Instant): void {
    if (this.#open === undefined) return
    const plan = planSettlement(this.#open, this.#funds(), now)
    this.#apply(plan)
    assert(plan.endsAt === null && plan.dueAt > now)
  }

  /** The machine was down from `from` to `until`: that time is in the ledger at a price of zero. */
  standStill(from: Instant, until: Instant): void {
    this.close(from)
    this.start(from, zeroUsd)
    this.close(until)
    this.start(until)
  }

  close(end: Instant): void {
    if (this.#open === undefined) return
    const plan = planClosing(this.#open, this.#funds(), end)
    this.#apply(plan)
    this.segments.push({ startedAt: this.#open.startedAt, endedAt: end, pricePerHour: this.#open.pricePerHour })
    this.#open = undefined
  }

  #funds(): Funds {
    // Other funds and limits of the account do not matter.
    return { held: this.held, available: usd('1000'), allowance: zeroUsd, committed: true }
  }

  #apply(plan: ReturnType<typeof planSettlement>): void {
    assert(this.#open !== undefined)
    assert(plan.topUp === 0n && plan.charge >= 0n && plan.charge <= this.held)
    this.held = nanoUsdOf(this.held - plan.charge)
    this.charged = nanoUsdOf(this.charged + plan.charge)
    this.#open = {
      ...this.#open,
      settledUntil: plan.until,
      settled: nanoUsdOf(this.#open.settled + plan.charge),
    }
  }
}

const listPrice = fc.oneof(
  fc.bigInt({ min: 0n, max: 500_000_000_000n }).map(nanoUsdOf),
  fc.bigInt({ min: 0n, max: 10_000n }).map(nanoUsdOf),
  fc.constantFrom(usd('2.49'), usd('23.92')),
)
const option = fc.record({
  termPeriodDays: fc.integer({ min: 1, max: 40 }),
  discountPercentage: fc.integer({ min: 0, max: 10_000 }).map((bp) => bp / 100),
})
const options = fc.array(option, { minLength: 1, maxLength: 5 })
/** The length of each step, and whether the machine is down in it. */
const steps = fc.array(fc.record({ ms: fc.integer({ min: 0, max: 8 * DAY_MS }), still: fc.boolean() }), {
  minLength: 1,
  maxLength: 12,
})

describe('for all prices, terms, outages and instants', () => {
  test('the hold pays everything, the end is rated by the longest completed term, and nothing exceeds the total', () => {
    fc.assert(
      fc.property(
        listPrice,
        options,
        fc.nat(),
        fc.double({ min: 0, max: 1, noNaN: true }),
        steps,
        fc.integer({ min: 0, max: HOUR_MS }),
        fc.boolean(),
        (listPrice, options, which, fraction, steps, bootMs, atFault) => {
          const offered = options[which % options.length]
          assert(offered !== undefined)
          // A customer can request less than the offered discount.
          const discountPercentage = Math.floor(offered.discountPercentage * fraction * 100) / 100
          const rental = new Reserved(listPrice, options, { ...offered, discountPercentage })
          const { commitment } = rental
          const { total, perHour, endsAt } = commitment

          let now = addMs(START, bootMs)
          let used = 0
          rental.start(now)
          for (const { ms, still } of steps) {
            const next = instantOf(Math.min(addMs(now, ms), endsAt))
            if (still) rental.standStill(now, next)
            else {
              rental.settle(next)
              used += next - now
            }
            now = next
            expect(rental.charged + rental.held).toBe(total)
          }
          rental.close(now)

          const usage = usageOf(rental.segments, now)
          expect(usage.charged).toBe(rental.charged)
          expect(usage.ms).toBe(perHour > 0n ? used : 0)
          const ending = planEnding(commitment, usage, now, { atFault })

          expect(ending.cost + ending.returned).toBe(total)
          expect(ending.extra >= 0n && ending.extra <= rental.held).toBe(true)
          expect(ending.cost <= total).toBe(true)
          expect(ending.cost).toBe(rental.charged + ending.extra)
          // From first principles: the price per hour of the longest term completed by now.
          const completed = options.filter(
            ({ termPeriodDays: days }) => days < offered.termPeriodDays && START + days * DAY_MS <= now,
          )
          const longest = Math.max(0, ...completed.map(({ termPeriodDays }) => termPeriodDays))
          const best = completed
            .filter(({ termPeriodDays }) => termPeriodDays === longest)
            .map(({ discountPercentage: percentage }) => shareOf(listPrice, 10_000 - Math.round(percentage * 100)))
          const earned = best.length === 0 ? listPrice : best.reduce((low, price) => (price < low ? price : low))
          const rate = now >= endsAt || atFault || earned < perHour ? perHour : earned
          expect(ending.rate).toBe(rate)
          const rated = costOfSpan(rate, used)
          const due = rate === perHour || rated < rental.charged ? rental.charged : rated < total ? rated : total
          expect(ending.cost).toBe(due)
        },
      ),
      { numRuns: 3_000 },
    )
  })

  test('ending early costs at least the time at the price of the term, and at most the total', () => {
    fc.assert(
      fc.property(listPrice, options, fc.nat(), fc.nat({ max: 40 * DAY_MS }), (listPrice, options, which, ms) => {
        const terms = quoteTerms(options, listPrice)
        const term = terms[which % terms.length]
        assert(term !== undefined)
        const span = Math.min(ms, term.days * DAY_MS)
        const end = addMs(START, span)
        const segment = { startedAt: START, endedAt: end, pricePerHour: term.perHour }
        const commitment = { ...term, startsAt: START, endsAt: addMs(START, term.days * DAY_MS) }
        const { cost } = planEnding(commitment, usageOf([segment], end), end, { atFault: false })
        expect(cost <= term.total && cost >= costOfSpan(term.perHour, span)).toBe(true)
        expect(cost === term.total || span < term.days * DAY_MS).toBe(true)
      }),
      { numRuns: 2_000 },
    )
  })
})

describe('one year at $1.743/hr, 30% below $2.49, with shorter terms of 30 and 90 days at 10% and 18%', () => {
  const options = [
    { termPeriodDays: 30, discountPercentage: 10 },
    { termPeriodDays: 90, discountPercentage: 18 },
    { termPeriodDays: 365, discountPercentage: 30 },
  ]
  const [, , year] = quoteTerms(options, usd('2.49'))
  assert(year !== undefined)
  const commitment: Commitment = { ...year, startsAt: START, endsAt: addMs(START, 365 * DAY_MS) }

  test.each([
    // ends after, at a rate of, costs, returns
    [60_000, '2.49', '0.0415', '15268.6385'],
    [30 * DAY_MS - 1, '2.49', '1792.799999308', '13475.880000692'],
    [30 * DAY_MS, '2.241', '1613.52', '13655.16'],
    [90 * DAY_MS, '2.0418', '4410.288', '10858.392'],
    // At $2.0418/hr the total is reached after 311.6 days; from then on ending costs nothing extra.
    [312 * DAY_MS, '2.0418', '15268.68', '0'],
    [365 * DAY_MS, '1.743', '15268.68', '0'],
  ])('after %s ms', (ms, rate, cost, returned) => {
    const end = addMs(START, ms)
    const used = usageOf([{ startedAt: START, endedAt: null, pricePerHour: year.perHour }], end)
    expect(planEnding(commitment, used, end, { atFault: false })).toMatchObject({
      rate: usd(rate),
      cost: usd(cost),
      returned: usd(returned),
    })
    expect(planEnding(commitment, used, end, { atFault: true }).extra).toBe(0n)
  })

  test('a machine that starts late is charged for less time, and its days count from the order', () => {
    const started = addMs(START, DAY_MS)
    const end = addMs(START, 30 * DAY_MS)
    const used = usageOf([{ startedAt: started, endedAt: null, pricePerHour: year.perHour }], end)
    expect(used.ms).toBe(29 * DAY_MS)
    expect(rateAt(commitment, end)).toBe(usd('2.241'))
  })

  test('the rule names every price and the maximum cost', () => {
    const rule = earlyEndRule(year)
    for (const amount of ['$2.49/hr', '$2.241/hr after 30 days', '$2.0418/hr after 90 days', '$15,268.68']) {
      expect(rule).toContain(amount)
    }
  })
})

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { HOUR_MS } from '../base/instant.ts'
import { nanoUsdOf, usd, zeroUsd } from '../base/money.ts'
import {
  advisePrice,
  MIN_BUSY_MS,
  MIN_REQUESTS,
  utilizationBp,
  type ServingUsage,
  type UnitPrices,
} from './economics.ts'

const hour = BigInt(HOUR_MS)
/** Ten hours of a GPU at $2, busy for four of them with 1,000 tokens per second. */
const day: ServingUsage = {
  requests: 10_000n,
  inputUnits: 10_000_000n,
  cachedUnits: 0n,
  outputUnits: 4_400_000n,
  requestMs: 20n * hour,
  busyMs: 4n * hour,
  paidMs: 10n * hour,
  gpuCost: usd('20'),
}
const prices = { input: usd('0.50'), cached: usd('0.10'), output: usd('2') }

/** The income if replicas are busy for this share of the paid time, rounded down. */
function incomeAt({ inputUnits, cachedUnits, outputUnits, busyMs, paidMs }: ServingUsage, at: UnitPrices, bp: number) {
  const cached = cachedUnits < inputUnits ? cachedUnits : inputUnits
  const millionths = at.input * (inputUnits - cached) + at.cached * cached + at.output * outputUnits
  return (millionths * paidMs * BigInt(bp)) / (busyMs * 10_000n * 1_000_000n)
}

describe('the price advisor', () => {
  test('at the measured utilization, asks for what was paid divided by what was sold', () => {
    const advice = advisePrice(day, prices)
    // $20 for 14.4 million tokens; today's prices bring $13.80.
    expect(advice).toMatchObject({ kind: 'measured', utilizationBp: 4_000, blended: 1_388_888_889n })
    expect(advice.kind === 'measured' && advice.prices?.output).toBe(2_898_550_725n)
    // At $13.80 per four busy hours, six of ten hours carry the cost.
    expect(advice.kind === 'measured' && advice.breakEvenBp).toBe(5_798)
  })

  test('says that too little was measured, rather than guess', () => {
    const idle = { ...day, busyMs: MIN_BUSY_MS - 1n }
    expect(advisePrice(idle, prices)).toEqual({ kind: 'too_little_measured', busyMs: idle.busyMs, requests: 10_000n })
    expect(advisePrice({ ...day, requests: MIN_REQUESTS - 1n }, prices).kind).toBe('too_little_measured')
    expect(advisePrice({ ...day, paidMs: 0n }, prices).kind).toBe('too_little_measured')
    expect(advisePrice({ ...day, inputUnits: 0n, outputUnits: 0n }, prices).kind).toBe('too_little_measured')
  })

  test('a free model has a blended price, and no break-even', () => {
    const free = { input: zeroUsd, cached: zeroUsd, output: zeroUsd }
    expect(advisePrice(day, free, 5_000)).toMatchObject({ prices: null, breakEvenBp: null })
  })

  const price = fc.bigInt({ min: 1n, max: 10_000_000_000_000n }).map(nanoUsdOf)
  const measured = fc
    .record({
      requests: fc.bigInt({ min: MIN_REQUESTS, max: 10n ** 12n }),
      inputUnits: fc.bigInt({ min: 1n, max: 10n ** 15n }),
      cachedUnits: fc.bigInt({ min: 0n, max: 10n ** 15n }),
      outputUnits: fc.bigInt({ min: 1n, max: 10n ** 15n }),
      requestMs: fc.bigInt({ min: 1n, max: 10n ** 12n }),
      busyMs: fc.bigInt({ min: MIN_BUSY_MS, max: 10n ** 10n }),
      idleMs: fc.bigInt({ min: 0n, max: 10n ** 10n }),
      gpuCost: fc.bigInt({ min: 1n, max: 10n ** 16n }).map(nanoUsdOf),
    })
    .map(({ idleMs, ...usage }): ServingUsage => ({ ...usage, paidMs: usage.busyMs + idleMs }))
    .filter((usage) => (utilizationBp(usage) ?? 0) > 0)
  const unitPrices = fc.record({ input: price, cached: price, output: price })
  const share = fc.integer({ min: 1, max: 10_000 })

  test('the advised prices cover the cost, and a price lower by one part in a thousand does not', () => {
    fc.assert(
      fc.property(measured, unitPrices, share, (usage, now, atBp) => {
        const advice = advisePrice(usage, now, atBp)
        if (advice.kind !== 'measured' || advice.prices === null) throw new Error('nothing was advised')
        // Rounding down to a nano-dollar may take one.
        expect(incomeAt(usage, advice.prices, atBp) + 1n).toBeGreaterThanOrEqual(usage.gpuCost)
        const { input, cached, output } = advice.prices
        fc.pre(input > 100_000n && cached > 100_000n && output > 100_000n && usage.gpuCost > 100_000n)
        const lower = (one: bigint) => nanoUsdOf((one * 999n) / 1_000n)
        const cheaper = { input: lower(input), cached: lower(cached), output: lower(output) }
        expect(incomeAt(usage, cheaper, atBp)).toBeLessThan(usage.gpuCost)
      }),
    )
  })

  test('current prices cover the cost from the break-even utilization on, and not before', () => {
    fc.assert(
      fc.property(measured, unitPrices, (usage, now) => {
        const advice = advisePrice(usage, now)
        if (advice.kind !== 'measured' || advice.breakEvenBp === null) throw new Error('nothing was advised')
        // The largest number stands for all that are larger.
        fc.pre(advice.breakEvenBp < Number.MAX_SAFE_INTEGER)
        expect(incomeAt(usage, now, advice.breakEvenBp) + 1n).toBeGreaterThanOrEqual(usage.gpuCost)
        expect(incomeAt(usage, now, advice.breakEvenBp - 1)).toBeLessThan(usage.gpuCost)
      }),
    )
  })

  test('a higher utilization never needs a higher price', () => {
    fc.assert(
      fc.property(measured, unitPrices, share, share, (usage, now, one, other) => {
        const [low, high] = [Math.min(one, other), Math.max(one, other)].map((bp) => advisePrice(usage, now, bp))
        if (low?.kind !== 'measured' || high?.kind !== 'measured') throw new Error('nothing was advised')
        expect(high.blended).toBeLessThanOrEqual(low.blended)
      }),
    )
  })
})

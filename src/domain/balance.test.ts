import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { addMs, DAY_MS, HOUR_MS, instantOf } from '../base/instant.ts'
import { costOfSpan, nanoUsdOf, sumUsd, usd, zeroUsd, type NanoUsd } from '../base/money.ts'
import { balanceOf, type RunningSegment, type Standing } from './balance.ts'

const NOW = instantOf(Date.UTC(2026, 10, 14, 12))

const amount = (max: NanoUsd) => fc.bigInt({ min: 0n, max }).map(nanoUsdOf)
const segment = fc
  .record({
    pricePerHour: amount(usd('50')),
    held: amount(usd('100')),
    ranMs: fc.nat({ max: DAY_MS }),
    settledMs: fc.nat({ max: DAY_MS }),
    lostMs: fc.option(fc.nat({ max: DAY_MS })),
    committed: fc.boolean(),
  })
  .map(({ pricePerHour, held, ranMs, settledMs, lostMs, committed }): RunningSegment => {
    const startedAt = addMs(NOW, -ranMs)
    const settled = Math.min(settledMs, ranMs)
    return {
      startedAt,
      pricePerHour,
      settledUntil: addMs(startedAt, settled),
      settled: costOfSpan(pricePerHour, settled),
      supplierPaid: zeroUsd,
      platformFeeBp: null,
      // A term holds its maximum cost.
      held: committed ? nanoUsdOf(held + costOfSpan(pricePerHour, 2 * DAY_MS)) : held,
      chargedUntil: lostMs === null ? null : addMs(startedAt, Math.min(lostMs, ranMs)),
      committed,
      ofHouse: false,
      isVolume: false,
    }
  })
const standing = fc
  .record({ available: amount(usd('500')), purse: amount(usd('20')), segments: fc.array(segment, { maxLength: 6 }) })
  .map(({ available, purse, segments }): Standing => ({
    available,
    held: nanoUsdOf(purse + sumUsd(segments.map(({ held }) => held))),
    earnings: zeroUsd,
    committed: sumUsd(segments.map(({ held, committed }) => (committed ? held : zeroUsd))),
    creditLine: zeroUsd,
    creditUsed: zeroUsd,
    debt: zeroUsd,
    houseMoney: zeroUsd,
    segments,
  }))

test('balance = available + on hold, no amount is negative, and hourly spend counts only charged segments', () => {
  fc.assert(
    fc.property(standing, (standing) => {
      const is = balanceOf(standing, NOW)
      expect(is.available + is.held).toBe(is.balance)
      expect(is.balance + is.unbilled).toBe(standing.available + standing.held)
      expect(is.available >= 0n && is.held >= 0n && is.runway.funds >= 0n).toBe(true)
      const runUp = standing.segments.map((one) => {
        const until = one.chargedUntil === null ? NOW : Math.max(one.chargedUntil, one.settledUntil)
        return costOfSpan(one.pricePerHour, until - one.startedAt) - one.settled
      })
      const remaining = standing.available + standing.held - runUp.reduce((sum, one) => sum + one, 0n)
      // A meter that is late by more than the balance leaves the other holds untouched.
      expect(is.balance >= remaining && (is.available === 0n || is.balance === remaining)).toBe(true)
      const charged = standing.segments.filter(({ chargedUntil }) => chargedUntil === null)
      expect(is.hourlySpend).toBe(sumUsd(charged.map(({ pricePerHour }) => pricePerHour)))
      const onDemand = charged.filter(({ committed }) => !committed)
      expect(is.runway.hourlySpend).toBe(sumUsd(onDemand.map(({ pricePerHour }) => pricePerHour)))
      // Holds of terms do not count as funds: removing them changes no date.
      const without = { ...standing, held: nanoUsdOf(standing.held - standing.committed), committed: zeroUsd }
      const segments = standing.segments.filter(({ committed }) => !committed)
      expect(balanceOf({ ...without, segments }, NOW).emptyAt).toBe(is.emptyAt)
    }),
    { numRuns: 2_000 },
  )
})

describe('a machine at $2/hr with a balance of $10', () => {
  const running: RunningSegment = {
    startedAt: addMs(NOW, -HOUR_MS),
    pricePerHour: usd('2'),
    settledUntil: addMs(NOW, -HOUR_MS),
    settled: zeroUsd,
    supplierPaid: zeroUsd,
    platformFeeBp: null,
    held: usd('2'),
    chargedUntil: null,
    committed: false,
    ofHouse: false,
    isVolume: false,
  }
  const account: Standing = {
    available: usd('8'),
    held: usd('2'),
    earnings: zeroUsd,
    committed: zeroUsd,
    creditLine: zeroUsd,
    creditUsed: zeroUsd,
    debt: zeroUsd,
    houseMoney: zeroUsd,
    segments: [running],
  }

  test('uses one hour of its hold, and lasts for four more', () => {
    expect(balanceOf(account, NOW)).toMatchObject({ balance: usd('8'), available: usd('8'), held: zeroUsd })
    expect(balanceOf(account, NOW)).toMatchObject({ hourlySpend: usd('2'), emptyAt: addMs(NOW, 4 * HOUR_MS) })
  })

  test('costs nothing while unreachable, and is not in the hourly spend', () => {
    const lost = { ...account, segments: [{ ...running, chargedUntil: addMs(NOW, -HOUR_MS / 2) }] }
    expect(balanceOf(lost, NOW)).toMatchObject({ balance: usd('9'), hourlySpend: zeroUsd, emptyAt: null })
  })

  test('takes what its hold lacks from the available balance when the meter is late', () => {
    const overdue = {
      ...account,
      segments: [{ ...running, startedAt: addMs(NOW, -3 * HOUR_MS), settledUntil: addMs(NOW, -3 * HOUR_MS) }],
    }
    expect(balanceOf(overdue, NOW)).toMatchObject({ balance: usd('4'), available: usd('4'), held: zeroUsd })
  })
  test('of the house lasts for as long as the house pays, and its money pays for nothing else', () => {
    const own = { ...running, held: zeroUsd }
    const house = { ...running, ofHouse: true }
    // Of $5 of the house, its replica has used $2: of the $8 that are left, $3 are not for the other machine.
    const both = { ...account, available: usd('10'), houseMoney: usd('5'), segments: [house, own] }
    expect(balanceOf({ ...both, segments: [house] }, NOW)).toMatchObject({ hourlySpend: usd('2'), emptyAt: null })
    expect(balanceOf(both, NOW)).toMatchObject({
      balance: usd('8'),
      hourlySpend: usd('4'),
      runway: { funds: usd('5'), hourlySpend: usd('2') },
      emptyAt: addMs(NOW, 2.5 * HOUR_MS),
    })
  })
})

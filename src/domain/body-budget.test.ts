import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { BodyBudget, BodyBuffer, FREE_BODY_BYTES, type BodyRoom } from './body-budget.ts'

const totalBytes = 10 * FREE_BODY_BYTES
const accountBytes = 4 * FREE_BODY_BYTES

describe('memory for bodies', () => {
  test('never exceeds the total or an account’s share, and is fully released', () => {
    const step = fc.record({
      room: fc.nat(5),
      bytes: fc.integer({ min: 1, max: 3 * FREE_BODY_BYTES }),
      isRelease: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const budget = new BodyBudget({ totalBytes, accountBytes })
        const accountOf = (n: number): string => `acc_${n % 3}`
        const open = (n: number): { room: BodyRoom; bytes: number } => ({ room: budget.open(accountOf(n)), bytes: 0 })
        const rooms = Array.from({ length: 6 }, (_, n) => open(n))
        const held = (account?: string): number =>
          rooms
            .filter((one, n) => one.bytes > FREE_BODY_BYTES && (account ?? accountOf(n)) === accountOf(n))
            .reduce((sum, one) => sum + one.bytes, 0)
        for (const { room: n, bytes, isRelease } of steps) {
          const one = rooms[n]
          if (one === undefined) throw new Error('no room')
          if (isRelease) {
            one.room.release()
            one.room.release()
            rooms[n] = open(n)
          } else if (one.room.grow(bytes) === undefined) one.bytes += bytes
          expect(budget.usedBytes).toBe(held())
          expect(held()).toBeLessThanOrEqual(totalBytes)
          for (const account of ['acc_0', 'acc_1', 'acc_2']) expect(held(account)).toBeLessThanOrEqual(accountBytes)
        }
        for (const { room } of rooms) room.release()
        expect(budget.usedBytes).toBe(0)
      }),
    )
  })

  test('the first bytes of a request are free, and a rejection gives the reason and the retry time', () => {
    const budget = new BodyBudget({ totalBytes, accountBytes })
    expect(budget.open('acc_1').grow(accountBytes)).toBeUndefined()
    const next = budget.open('acc_1')
    expect(next.grow(FREE_BODY_BYTES)).toBeUndefined()
    expect(next.grow(1)).toMatchObject({ kind: 'unavailable', reason: 'server_busy', retryAfterMs: 1_000 })
    expect(budget.open('acc_2').grow(accountBytes)).toBeUndefined()
    expect(budget.open('acc_3').grow(accountBytes)).toMatchObject({ reason: 'server_busy' })
    expect(budget.usedBytes).toBe(2 * accountBytes)
  })
})

test('joins the added pieces, whatever length was announced', () => {
  const pieces = fc.array(fc.integer({ min: 0, max: 90_000 }), { maxLength: 8 })
  fc.assert(
    fc.property(pieces, fc.boolean(), (sizes, isAnnounced) => {
      const parts = sizes.map((size, n) => Buffer.alloc(size, n + 1))
      const whole = Buffer.concat(parts)
      const buffer = new BodyBuffer(isAnnounced ? whole.length : undefined)
      for (const part of parts) buffer.add(part)
      expect(buffer.bytes).toBe(whole.length)
      expect(buffer.whole().equals(whole)).toBe(true)
    }),
  )
})

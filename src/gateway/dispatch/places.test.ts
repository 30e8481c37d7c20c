/** Concurrent requests across a gateway and its workers: never more than the limit, and never refused below it. */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { BorrowedPlaces, GatewayPlaces, type Places } from './places.ts'

const ACCOUNT = 'a'

function gatewayWith(workers: number, live = 1) {
  const gateway = new GatewayPlaces(() => live)
  const borrowed = Array.from({ length: workers }, () => {
    const places: BorrowedPlaces = new BorrowedPlaces({
      lend: (accountId, streams) => borrower.lend(accountId, streams),
      takeBack: (accountId, count) => borrower.takeBack(accountId, count),
    })
    const borrower = gateway.borrower(async (accountId) => places.giveUp(accountId))
    return { places, borrower }
  })
  return { gateway, borrowed }
}

describe('places of an account', () => {
  test('whoever asks gets a place exactly while fewer than the limit are in use', async () => {
    const step = fc.record({ member: fc.nat(2), isEnter: fc.boolean() })
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 12 }), fc.array(step, { maxLength: 60 }), async (limit, steps) => {
        const { gateway, borrowed } = gatewayWith(2)
        const members: Places[] = [gateway, ...borrowed.map(({ places }) => places)]
        const used = members.map(() => 0)
        const wrong: string[] = []
        for (const { member, isEnter } of steps) {
          const inUse = used.reduce((sum, count) => sum + count, 0)
          if (isEnter) {
            const entered = (await members[member]?.enter(ACCOUNT, limit)) ?? false
            if (entered !== inUse < limit) wrong.push(`${entered} with ${inUse} of ${limit}`)
            if (entered) used[member] = (used[member] ?? 0) + 1
          } else if ((used[member] ?? 0) > 0) {
            members[member]?.leave(ACCOUNT)
            used[member] = (used[member] ?? 0) - 1
          }
        }
        expect(wrong).toEqual([])
      }),
      { numRuns: 100 },
    )
  })

  test('servers share the limit, and each rounds up', async () => {
    const { gateway } = gatewayWith(0, 2)
    expect(await Promise.all([1, 2, 3].map(() => gateway.enter(ACCOUNT, 3)))).toEqual([true, true, false])
  })

  test('the places of a worker that exits are free again', async () => {
    const { gateway, borrowed } = gatewayWith(2)
    const [one, other] = borrowed
    for (let n = 0; n < 4; n += 1) expect(await one?.places.enter(ACCOUNT, 4)).toBe(true)
    expect(await other?.places.enter(ACCOUNT, 4)).toBe(false)
    one?.borrower.close()
    expect(await other?.places.enter(ACCOUNT, 4)).toBe(true)
    expect(gateway.tryEnter(ACCOUNT, 4)).toBe(true)
  })

  test('a worker returns places that nobody has used for a while', async () => {
    const { gateway, borrowed } = gatewayWith(1)
    await borrowed[0]?.places.enter(ACCOUNT, 8)
    borrowed[0]?.places.leave(ACCOUNT)
    borrowed[0]?.places.sweep(performance.now() + 60_000)
    for (let n = 0; n < 8; n += 1) expect(gateway.tryEnter(ACCOUNT, 8)).toBe(true)
  })
})

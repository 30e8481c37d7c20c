import { expect, test } from 'vitest'
import { nanoUsdOf } from '../base/money.ts'
import { CostIndex } from './meter-costs.ts'

test('knows every cost that is not settled, and the latest of the others', () => {
  const index = new CostIndex()
  const cost = (n: number) => ({ accountId: 'acc', cost: nanoUsdOf(BigInt(n)) })
  const knows = (n: number): boolean => index.get(`req_${n}`)?.cost === nanoUsdOf(BigInt(n))
  let ended = 0
  const end = (count: number): void => {
    for (let n = 0; n < count; n += 1, ended += 1) index.add(`req_${ended}`, cost(ended))
  }
  end(30_000)
  expect(Array.from({ length: ended }, (_, n) => n).every(knows)).toBe(true)
  index.settle(29_999)
  expect({ first: knows(0), latest: knows(29_998), unsettled: knows(29_999) }).toEqual({
    first: false,
    latest: true,
    unsettled: true,
  })
  end(60_000)
  expect(knows(29_999)).toBe(true)
  index.settle(1)
  end(1)
  index.settle(60_001)
  expect({ old: knows(29_999), latest: knows(90_000), unknown: index.get('req_x') }).toEqual({
    old: false,
    latest: true,
    unknown: undefined,
  })
})

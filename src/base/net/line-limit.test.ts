import { expect, test } from 'vitest'
import { makeLineLimit } from './line-limit.ts'

test('limits lines per minute and key, and the next line gives the number left out', () => {
  let nowMs = 0
  const limit = makeLineLimit({ perMinute: 2, nowMs: () => nowMs })
  expect([limit.take('a'), limit.take('a'), limit.take('a'), limit.take('a')]).toEqual([{}, {}, undefined, undefined])
  expect(limit.take('b')).toEqual({})
  nowMs = 60_000
  expect(limit.take('a')).toEqual({ leftOut: 2 })
  expect(limit.take('a')).toEqual({})
  expect(limit.take('a')).toBeUndefined()
})

test('tracks ten thousand keys; all others share one limit', () => {
  let nowMs = 0
  const limit = makeLineLimit({ perMinute: 1, nowMs: () => nowMs })
  for (let n = 0; n < 10_000; n += 1) expect(limit.take(`name ${n}`)).toEqual({})
  expect([limit.take('one more'), limit.take('yet another')]).toEqual([{}, undefined])
  nowMs = 600_000
  expect([limit.take('a later one'), limit.take('the next')]).toEqual([{}, {}])
})

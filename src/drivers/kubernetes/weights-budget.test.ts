import { expect, test } from 'vitest'
import { addMs, DAY_MS, HOUR_MS, instantOf } from '../../base/instant.ts'
import { planCache, type CachedWeights } from './weights-budget.ts'

const now = instantOf(Date.UTC(2026, 10, 17))
const rule = { gbPerNode: 100, days: 7 }

function cached(name: string, gb: number, agoMs: number, change: Partial<CachedWeights> = {}): CachedWeights {
  const usedAt = addMs(now, -agoMs)
  return { namespace: 'ns', name, node: 'one', bytes: gb * 1e9, usedAt, isInUse: false, ...change }
}

const names = (of: readonly CachedWeights[]): string[] => of.map(({ name }) => name)

test('weights stay within budget and age, and go when they are too old, unless a pod has them', () => {
  const all = [
    cached('old', 1, 8 * DAY_MS),
    cached('old-in-use', 1, 8 * DAY_MS, { isInUse: true }),
    cached('young', 90, 6 * DAY_MS),
  ]
  expect(names(planCache(all, rule, now).remove)).toEqual(['old'])
})

test('above the budget of a node, the least recently used go first, never those in use or of another node', () => {
  const all = [
    cached('first', 40, 3 * DAY_MS),
    cached('in-use', 60, 4 * DAY_MS, { isInUse: true }),
    cached('second', 40, 2 * DAY_MS),
    cached('elsewhere', 90, 5 * DAY_MS, { node: 'two' }),
    cached('starting', 40, 0),
  ]
  expect(names(planCache(all, rule, now).remove)).toEqual(['first', 'second'])
  const less = all.filter(({ name }) => name !== 'starting')
  expect(names(planCache(less, rule, now).remove)).toEqual(['first'])
})

test('new weights make room for themselves, or nothing is removed for them', () => {
  const all = [cached('unused', 40, HOUR_MS), cached('in-use', 50, HOUR_MS, { isInUse: true })]
  const ask = (gb: number, node = 'one') => planCache(all, rule, now, { node, bytes: gb * 1e9 })
  expect(ask(10)).toEqual({ remove: [], fits: true })
  expect([names(ask(50).remove), ask(50).fits]).toEqual([['unused'], true])
  expect(ask(51)).toEqual({ remove: [], fits: false })
  expect(ask(100, 'two')).toEqual({ remove: [], fits: true })
  expect(ask(101, 'two').fits).toBe(false)
})

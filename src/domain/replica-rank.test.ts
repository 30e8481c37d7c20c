import { expect, test } from 'vitest'
import { addMs, instantOf, MINUTE_MS } from '../base/instant.ts'
import { usd } from '../base/money.ts'
import { rankForReplica, type PastStarts } from './replica-rank.ts'

const now = instantOf(Date.UTC(2026, 10, 18))
const ago = (minutes: number) => addMs(now, -minutes * MINUTE_MS)
const machines = [
  { id: 'cheap', price_nano_per_gpu_hour: usd('0.30') },
  { id: 'a', price_nano_per_gpu_hour: usd('0.40') },
  { id: 'b', price_nano_per_gpu_hour: usd('0.40') },
  { id: 'c', price_nano_per_gpu_hour: usd('0.40') },
]

function rank(past: readonly PastStarts[], occupied: readonly string[] = []): string[] {
  return rankForReplica(machines, { occupied, past, now }).map(({ id }) => id)
}

test('without a past, the cheapest first, and otherwise in the given order', () => {
  expect(rank([])).toEqual(['cheap', 'a', 'b', 'c'])
})

test('at equal price, one with fewer replicas, then the one that served last', () => {
  const past = [
    { machineId: 'b', servedAt: ago(500), failedAt: null },
    { machineId: 'c', servedAt: ago(10), failedAt: null },
  ]
  expect(rank(past)).toEqual(['cheap', 'c', 'b', 'a'])
  expect(rank(past, ['c', 'c', 'b', 'cheap'])).toEqual(['cheap', 'a', 'b', 'c'])
})

test('one that failed counts as 50% more expensive for half an hour, unless it has served since', () => {
  const failed = (machineId: string, failedAt: number, servedAt: number | null = null): PastStarts => ({
    machineId,
    servedAt: servedAt === null ? null : ago(servedAt),
    failedAt: ago(failedAt),
  })
  // 0.30 becomes 0.45, 0.40 becomes 0.60.
  expect(rank([failed('cheap', 29)])).toEqual(['a', 'b', 'c', 'cheap'])
  expect(rank([failed('cheap', 29, 60)])).toEqual(['a', 'b', 'c', 'cheap'])
  expect(rank([failed('cheap', 29, 5)])[0]).toBe('cheap')
  expect(rank([failed('cheap', 31)])[0]).toBe('cheap')
  expect(rank(['a', 'b', 'c'].map((id) => failed(id, 1)))).toEqual(['cheap', 'a', 'b', 'c'])
  expect(rank([failed('a', 1), failed('cheap', 1)])).toEqual(['b', 'c', 'cheap', 'a'])
})

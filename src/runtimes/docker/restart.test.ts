import { expect, test } from 'vitest'
import { parseInstant, type Instant } from '../../base/instant.ts'
import { nextRestart, type Restarts } from './restart.ts'

const exit = (code: number, ranMinutes = 0, finishedAt = '2026-01-01T01:00:00.123456789Z') => ({
  code,
  startedAt: new Date(Date.parse(finishedAt) - ranMinutes * 60_000).toISOString(),
  finishedAt,
})
const finished = parseInstant('2026-01-01T01:00:00.123456789Z') as Instant
const before = (count: number): Restarts => ({ count, finishedAt: '2026-01-01T00:59:00Z' })

test.each([
  ['never', 1, undefined],
  ['on-failure', 0, undefined],
  ['on-failure', 1, 1],
  ['always', 0, 1],
  ['always', 137, 1],
] as const)('policy %s after code %d: restart %s', (policy, code, count) => {
  expect(nextRestart({ policy, maxRetries: 3 }, undefined, exit(code), finished)?.count).toBe(count)
})

test('restarts in a row wait longer each time, and end after the last one', () => {
  const rule = { policy: 'on-failure', maxRetries: 3 } as const
  const waits = [1, 2].map((count) => nextRestart(rule, before(count), exit(1), finished))
  expect(waits).toEqual([
    { count: 2, waitMs: 2_000 },
    { count: 3, waitMs: 5_000 },
  ])
  expect(nextRestart(rule, before(3), exit(1), finished)).toBeUndefined()
})

test('an exit is counted once, whenever the agent looks', () => {
  const rule = { policy: 'always', maxRetries: 1 } as const
  const counted = { count: 1, finishedAt: exit(1).finishedAt }
  expect(nextRestart(rule, counted, exit(1), (finished + 60_000) as Instant)).toEqual({ count: 1, waitMs: 0 })
})

test('a container that ran for long starts a new row', () => {
  const rule = { policy: 'on-failure', maxRetries: 1 } as const
  expect(nextRestart(rule, before(1), exit(1, 30), finished)?.count).toBe(1)
})

test('a clock that differs from the daemon does not prolong the wait', () => {
  const rule = { policy: 'always', maxRetries: 5 } as const
  expect(nextRestart(rule, undefined, exit(1), (finished - 3_600_000) as Instant)?.waitMs).toBe(1_000)
})

import { expect, it } from 'vitest'
import { makeSharedRead } from './shared-read.ts'

const limits = { maxAgeMs: 1_000, refreshAfterMs: 400 }

/** Reads that the test completes. */
function lab() {
  let nowMs = 0
  const pending: Array<{ resolve: (value: string) => void; reject: (error: Error) => void }> = []
  let reads = 0
  const shared = makeSharedRead<string>(
    () => {
      reads += 1
      return new Promise((resolve, reject) => pending.push({ resolve, reject }))
    },
    limits,
    () => nowMs,
  )
  return {
    shared,
    reads: () => reads,
    pass: (ms: number) => void (nowMs += ms),
    finish: async (value: string) => {
      pending.shift()?.resolve(value)
      await new Promise(setImmediate)
    },
    fail: async () => {
      pending.shift()?.reject(new Error('database away'))
      await new Promise(setImmediate)
    },
  }
}

it('shares one read among concurrent callers', async () => {
  const { shared, reads, finish } = lab()
  const answers = Promise.all(Array.from({ length: 8 }, () => shared.get()))
  await finish('a')
  expect(await answers).toEqual(Array.from({ length: 8 }, () => 'a'))
  expect(reads()).toBe(1)
})

it('refreshes early without blocking callers, and never serves a value older than the maximum', async () => {
  const { shared, reads, pass, finish } = lab()
  const first = shared.get()
  await finish('a')
  expect(await first).toBe('a')
  pass(400)
  expect(await shared.get()).toBe('a')
  expect(reads()).toBe(1)
  pass(1)
  expect(await shared.get()).toBe('a')
  expect(reads()).toBe(2)
  pass(599)
  expect(await shared.get()).toBe('a')
  expect(reads()).toBe(2)
  // The refresh still runs; the old value has reached its maximum age.
  pass(1)
  const value = shared.get()
  await finish('b')
  expect(await value).toBe('b')
  expect(reads()).toBe(2)
})

it('after a change waits for at most one new read', async () => {
  const { shared, reads, finish } = lab()
  const before = shared.get()
  shared.changed()
  const after = shared.get()
  shared.changed()
  const afterBoth = shared.get()
  await finish('old')
  expect(await before).toBe('old')
  expect(reads()).toBe(2)
  await finish('new')
  expect([await after, await afterBoth]).toEqual(['new', 'new'])
  expect(reads()).toBe(2)
  expect(await shared.get()).toBe('new')
})

it('passes a failure to the waiting callers, and reads again for the next', async () => {
  const { shared, pass, finish, fail } = lab()
  const failed = shared.get().catch((error: unknown) => error)
  await fail()
  expect(await failed).toEqual(new Error('database away'))
  const first = shared.get()
  await finish('a')
  expect(await first).toBe('a')
  // A failed background refresh has no effect until the value is too old.
  pass(500)
  expect(await shared.get()).toBe('a')
  await fail()
  expect(await shared.get()).toBe('a')
})

/** Assigning sequences to requests. */
import { expect, test } from 'vitest'
import { Scheduler, type Place } from './scheduler.ts'

interface Sequence {
  readonly name: string
  contextTokens: number[]
}

const going = new AbortController().signal

function sequence(name: string, contextTokens: number[] = []): Sequence {
  return { name, contextTokens }
}

function range(length: number, from = 0): number[] {
  return Array.from({ length }, (_, at) => from + at)
}

async function enter(scheduler: Scheduler<Sequence>, prompt: number[] = [], signal = going): Promise<Place<Sequence>> {
  const entered = scheduler.enter(prompt, signal)
  if (!entered.ok) throw new Error(entered.message)
  const place = await entered.value
  if (place === undefined) throw new Error('was cancelled')
  return place
}

test('assigns the idle sequence that shares most of the prompt', async () => {
  const scheduler = new Scheduler([sequence('a'), sequence('b', range(20)), sequence('c', range(30))], 0)
  expect((await enter(scheduler, range(40))).sequence.name).toBe('c')
  expect((await enter(scheduler, range(40))).sequence.name).toBe('b')
})

test('does not discard an idle sequence for a few shared tokens', async () => {
  const scheduler = new Scheduler([sequence('long', range(1_000)), sequence('empty')], 0)
  const first = await enter(scheduler)
  first.leave()
  expect(first.sequence.name).toBe('long')
  expect((await enter(scheduler, [0, 1, 2, ...range(100, 5_000)])).sequence.name).toBe('empty')
})

test('does not discard a conversation for a shared system prompt', async () => {
  const opening = range(200)
  const conversation = [...opening, ...range(800, 10_000)]
  const scheduler = new Scheduler([sequence('mine', conversation), sequence('free')], 0)
  const used = await enter(scheduler, conversation)
  used.leave()
  expect((await enter(scheduler, [...opening, ...range(50, 20_000)])).sequence.name).toBe('free')
  expect((await enter(scheduler, [...conversation, ...range(100, 30_000)])).sequence.name).toBe('mine')
})

test('among equals uses the sequence that was idle longest', async () => {
  const scheduler = new Scheduler([sequence('a'), sequence('b')], 0)
  const [a, b] = [await enter(scheduler), await enter(scheduler)]
  b.leave()
  a.leave()
  expect((await enter(scheduler)).sequence.name).toBe('a')
})

test('serves waiting requests in order', async () => {
  const scheduler = new Scheduler([sequence('a')], 3)
  const first = await enter(scheduler)
  const order: number[] = []
  const others = [1, 2, 3].map(async (number) => {
    const place = await enter(scheduler)
    order.push(number)
    place.leave()
  })
  expect(scheduler.deferred).toBe(3)
  first.leave()
  await Promise.all(others)
  expect(order).toEqual([1, 2, 3])
  expect([scheduler.processing, scheduler.deferred]).toEqual([0, 0])
})

test('removes a cancelled request from the queue', async () => {
  const scheduler = new Scheduler([sequence('a')], 2)
  const first = await enter(scheduler)
  const disconnect = new AbortController()
  const cancelled = scheduler.enter([], disconnect.signal)
  const next = enter(scheduler)
  disconnect.abort()
  expect(cancelled.ok && (await cancelled.value)).toBeUndefined()
  expect(scheduler.deferred).toBe(1)
  first.leave()
  expect((await next).sequence.name).toBe('a')
})

test('gives no sequence to a request cancelled before it starts', async () => {
  const scheduler = new Scheduler([sequence('a')], 2)
  const entered = scheduler.enter([], AbortSignal.abort())
  expect(entered.ok && (await entered.value)).toBeUndefined()
  expect(scheduler.processing).toBe(0)
})

test('rejects requests beyond the queue limit with a retry time', async () => {
  const scheduler = new Scheduler([sequence('a')], 1)
  await enter(scheduler)
  scheduler.enter([], going)
  expect(scheduler.enter([], going)).toMatchObject({
    ok: false,
    kind: 'unavailable',
    reason: 'queue_full',
    // Two requests ahead, each estimated at five seconds.
    retryAfterMs: 10_000,
  })
})

test('releasing twice frees one place', async () => {
  const scheduler = new Scheduler([sequence('a'), sequence('b')], 0)
  const [a] = [await enter(scheduler), await enter(scheduler)]
  a.leave()
  a.leave()
  expect(scheduler.processing).toBe(1)
})

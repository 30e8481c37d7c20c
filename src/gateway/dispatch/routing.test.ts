/** Calls go to the least busy deployment, or to the one that has their prompt cached, within limits. */
import { afterEach, describe, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import {
  AnswerCollector,
  callOn,
  deploymentOn,
  modelOn,
  type SimulatedCall,
  type SimulatedModel,
} from '../../../test/sim/model-server-caller.ts'
import { startModelServer, type ModelServer } from '../../../test/sim/model-server.ts'
import { makeDispatcher, type RunningDispatcher } from './dispatch.ts'
import { RoutingMemory } from './routing-memory.ts'
import { Target } from './routing-target.ts'
import type { UpstreamCall, UpstreamHandle } from '../upstream/upstream-call.ts'
import { Pools } from '../upstream/pool.ts'
import { Ticker } from '../upstream/ticker.ts'

const closers: Array<() => Promise<void>> = []

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

interface Fleet {
  readonly engines: readonly ModelServer[]
  readonly model: SimulatedModel
  readonly dispatcher: RunningDispatcher
}

async function startFleet(size: number, concurrency = 32): Promise<Fleet> {
  const engines = await Promise.all(Array.from({ length: size }, () => startModelServer()))
  const model = modelOn(engines.map((engine, n) => deploymentOn(engine, { id: `e${n}`, concurrency })))
  const dispatcher = makeDispatcher({ probe: { tickMs: 3_600_000 } })
  dispatcher.setCatalog(new Map([[model.name, model]]))
  closers.push(...engines.map((engine) => () => engine.close()), () => dispatcher.close())
  return { engines, model, dispatcher }
}

function send(
  { dispatcher, model }: Fleet,
  more: Partial<SimulatedCall>,
  messages: readonly string[] = [],
): { sink: AnswerCollector; handle: UpstreamHandle } {
  const sink = new AnswerCollector()
  const handle = dispatcher.send(callOn(model, more, { model: 'sim', messages }), sink)
  return { sink, handle }
}

const idOf = async (fleet: Fleet, more: Partial<SimulatedCall>): Promise<string | undefined> =>
  (await send(fleet, more).sink.done).answer?.deployment.id

test('sends calls to the least busy deployment', async () => {
  const fleet = await startFleet(3)
  for (const engine of fleet.engines) engine.behaviour.fault = { kind: 'hang' }
  const calls = Array.from({ length: 9 }, () => send(fleet, {}))
  await waitFor('all are there', () => fleet.engines.every((engine) => engine.inFlight === 3))
  // Two calls end on one engine, which therefore gets the next two.
  const left = calls.filter((_, n) => n % 3 === 1).slice(0, 2)
  for (const { handle } of left) handle.cancel()
  const next = [send(fleet, {}), send(fleet, {})]
  await waitFor('they are there', () => fleet.engines.reduce((sum, { received }) => sum + received, 0) === 11)
  await waitFor('the others have left', () => fleet.engines.reduce((sum, { inFlight }) => sum + inFlight, 0) === 9)
  expect(fleet.engines.map(({ inFlight }) => inFlight)).toEqual([3, 3, 3])
  for (const { handle } of [...calls, ...next]) handle.cancel()
})

describe('affinity', () => {
  test('the longest known prefix decides', async () => {
    const fleet = await startFleet(4)
    const first = await idOf(fleet, { prefixes: [1, 2, 3] })
    const second = await idOf(fleet, { prefixes: [10, 20, 30] })
    expect(second).not.toBe(first)
    for (let n = 0; n < 5; n += 1) {
      expect(await idOf(fleet, { prefixes: [1, 2, 3, 4] })).toBe(first)
      expect(await idOf(fleet, { prefixes: [1, 2, 30] })).toBe(second)
      expect(await idOf(fleet, { prefixes: [10, 20, 30, 40] })).toBe(second)
      // The last line assigned the short prefixes to the second engine.
      expect(await idOf(fleet, { prefixes: [1, 2, 3] })).toBe(first)
    }
  })

  test('a session stays where it is, apart from other accounts’ sessions of that name', async () => {
    const fleet = await startFleet(3)
    const first = await idOf(fleet, { session: 's' })
    const other = await idOf(fleet, { session: 's', accountId: 'account-2' })
    expect(other).not.toBe(first)
    for (let n = 0; n < 5; n += 1) {
      expect(await idOf(fleet, { session: 's', prefixes: [n] })).toBe(first)
      expect(await idOf(fleet, { session: 's', accountId: 'account-2' })).toBe(other)
    }
  })

  test('yields when the engine is clearly busier than another, not before', async () => {
    const fleet = await startFleet(2)
    for (const engine of fleet.engines) engine.behaviour.fault = { kind: 'hang' }
    const calls = Array.from({ length: 30 }, () => send(fleet, { prefixes: [1, 2] }))
    await waitFor('all are there', () => fleet.engines.reduce((sum, { inFlight }) => sum + inFlight, 0) === 30)
    const counts = fleet.engines.map(({ inFlight }) => inFlight).toSorted((a, b) => a - b)
    const [fewer = 0, more = 0] = counts
    expect(more - fewer).toBeGreaterThan(1)
    expect(more - fewer).toBeLessThanOrEqual(9)
    for (const { handle } of calls) handle.cancel()
  })

  test('yields when the engine is full, gone or unhealthy', async () => {
    const fleet = await startFleet(2, 1)
    const home = await idOf(fleet, { prefixes: [7] })
    const engine = fleet.engines[home === 'e0' ? 0 : 1]
    if (engine === undefined) throw new Error('no such engine')
    engine.behaviour.fault = { kind: 'hang' }
    const busy = send(fleet, { prefixes: [7] })
    await waitFor('it is full', () => engine.inFlight === 1)
    expect(await idOf(fleet, { prefixes: [7] })).not.toBe(home)
    busy.handle.cancel()
  })

  test('finds far more of the prompts in caches than taking turns does', async () => {
    /** Seven interleaved conversations of six turns each; a turn repeats the whole conversation so far. */
    const talk = async (isAffine: boolean): Promise<{ share: number; hits: number; misses: number }> => {
      const fleet = await startFleet(4)
      const said = Array.from({ length: 7 }, (_, n) => ['system prompt', `conversation ${n} begins with this question`])
      for (let turn = 0; turn < 6; turn += 1) {
        await Promise.all(
          said.map(async (messages, n) => {
            const prefixes = messages.map((_, length) => hashOf(messages.slice(0, length + 1)))
            await send(fleet, { prefixes: isAffine ? prefixes : [], accountId: `a${n}` }, messages).sink.done
            messages.push(`answer ${turn}`, `and the next question ${turn} of ${n}`)
          }),
        )
      }
      const [cached, all] = [sum(fleet, 'cachedTokens'), sum(fleet, 'promptTokens')]
      const stats = fleet.dispatcher.stats().deployments
      const hits = stats.reduce((total, { affinityHits }) => total + affinityHits, 0)
      const misses = stats.reduce((total, { affinityMisses }) => total + affinityMisses, 0)
      return { share: cached / all, hits, misses }
    }
    const [affine, inTurn] = [await talk(true), await talk(false)]
    expect(affine.hits + affine.misses).toBe(42)
    expect(affine.hits).toBeGreaterThanOrEqual(35)
    expect([inTurn.hits, inTurn.misses]).toEqual([0, 0])
    expect(affine.share).toBeGreaterThan(0.7)
    expect(affine.share).toBeGreaterThan(inTurn.share * 1.5)
  })

  test('a prefix that all prompts share does not gather them on one engine', async () => {
    const fleet = await startFleet(4)
    for (let n = 1; n <= 60; n += 1) await send(fleet, { prefixes: [500, 1_000 + n], accountId: `a${n}` }).sink.done
    const before = fleet.engines.map(({ received }) => received)
    // By now it counts as common.
    for (let n = 1; n <= 20; n += 1) await send(fleet, { prefixes: [500, 2_000 + n] }).sink.done
    expect(fleet.engines.map(({ received }, n) => received - (before[n] ?? 0)).every((more) => more >= 1)).toBe(true)
    // A returning session is still known.
    const home = await idOf(fleet, { prefixes: [500, 9_000] })
    for (let n = 0; n < 5; n += 1) expect(await idOf(fleet, { prefixes: [500, 9_000, 9_001] })).toBe(home)
  })
})

const sum = ({ engines }: Fleet, what: 'cachedTokens' | 'promptTokens'): number =>
  engines.reduce((total, engine) => total + engine[what], 0)

function hashOf(messages: readonly string[]): number {
  return Buffer.from(messages.join('\n')).reduce((hash, byte) => (hash * 31 + byte) | 0, 7)
}

test('the memory is bounded, and forgets the oldest first', async () => {
  const pools = new Pools(new Ticker(), { lookup: undefined, ca: undefined })
  const deployment = deploymentOn({ host: '127.0.0.1', port: 1 })
  const target = new Target({ name: 'sim', kind: 'chat' }, deployment, pools.of(deployment.address), () => 0)
  const memory = new RoutingMemory()
  const call = (prefixes: readonly number[], session?: string): UpstreamCall =>
    callOn(modelOn([deployment]), { prefixes, session })
  const knows = (one: UpstreamCall): boolean => memory.find(one, () => true) !== undefined
  for (let n = 0; n < 200_000; n += 1) {
    memory.keep(call([n], `s${n}`), target)
    // In constant use.
    if (n % 1_000 === 0) memory.keep(call([-1], 'always'), target)
  }
  expect(memory.size).toBeLessThanOrEqual(65_536 + 16_384)
  expect(knows(call([199_999]))).toBe(true)
  expect(knows(call([0]))).toBe(false)
  expect(knows(call([], 's0'))).toBe(false)
  expect([knows(call([-1])), knows(call([], 'always'))]).toEqual([true, true])
  // Only the 64 longest prefixes of a call count.
  memory.keep(call(Array.from({ length: 1_000 }, (_, n) => 1_000_000 + n)), target)
  expect([knows(call([1_000_000])), knows(call([1_000_999]))]).toEqual([false, true])
})

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

  test('holds until the engine has two seconds of prompts to compute (gpus promise 14)', async () => {
    const fleet = await startFleet(2)
    for (const engine of fleet.engines) engine.behaviour.fault = { kind: 'hang' }
    // 8,000 tokens per second until a rate is measured: the call after 16,000 tokens goes elsewhere.
    const long = { prefixes: [1, 2], prefixTokens: [50, 100], promptTokens: 2_100 }
    const calls = Array.from({ length: 10 }, () => send(fleet, long))
    await waitFor('all are there', () => fleet.engines.reduce((sum, { inFlight }) => sum + inFlight, 0) === 10)
    const counts = fleet.engines.map(({ inFlight }) => inFlight).toSorted((a, b) => b - a)
    expect(counts).toEqual([8, 2])
    for (const { handle } of calls) handle.cancel()
  })

  test('a hot prefix spreads over all engines under load (gpus promise 16)', async () => {
    const fleet = await startFleet(4)
    for (const engine of fleet.engines) engine.behaviour.fault = { kind: 'hang' }
    const hot = { prefixes: [1, 2], prefixTokens: [3_000, 6_000], promptTokens: 9_000 }
    const calls = Array.from({ length: 40 }, () => send(fleet, hot))
    await waitFor('all are there', () => fleet.engines.reduce((sum, { inFlight }) => sum + inFlight, 0) === 40)
    for (const { inFlight } of fleet.engines) expect(inFlight).toBeGreaterThanOrEqual(8)
    for (const { handle } of calls) handle.cancel()
  })

  test('prompts that are computed or cut off count no more', async () => {
    const fleet = await startFleet(2)
    const long = { prefixes: [1], prefixTokens: [100], promptTokens: 20_000 }
    const home = await idOf(fleet, long)
    for (let n = 0; n < 5; n += 1) expect(await idOf(fleet, long)).toBe(home)
    for (const engine of fleet.engines) engine.behaviour.fault = { kind: 'hang' }
    const calls = [send(fleet, long), send(fleet, long)]
    await waitFor('they are there', () => fleet.engines.every(({ inFlight }) => inFlight === 1))
    for (const { handle } of calls) handle.cancel()
    for (const engine of fleet.engines) engine.behaviour.fault = undefined
    await waitFor('they have left', () => fleet.engines.every(({ inFlight }) => inFlight === 0))
    const next = await idOf(fleet, long)
    for (let n = 0; n < 5; n += 1) expect(await idOf(fleet, long)).toBe(next)
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
      const conversations = Array.from({ length: 7 }, (_, n) => [
        'system prompt',
        `conversation ${n} begins with this question`,
      ])
      for (let turn = 0; turn < 6; turn += 1) {
        await Promise.all(
          conversations.map(async (messages, n) => {
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

/** An engine's prefix cache, which drops what was used longest ago. */
class PrefixCache {
  readonly #prefixes = new Set<number>()

  /** Whether it had the prefix. */
  use(prefix: number, most: number): boolean {
    const wasKnown = this.#prefixes.delete(prefix)
    this.#prefixes.add(prefix)
    for (const oldest of this.#prefixes) {
      if (this.#prefixes.size <= most) break
      this.#prefixes.delete(oldest)
    }
    return wasKnown
  }
}

test('of shared prefixes of 6,000 tokens on two engines, most tokens are cached (gpus promise 15)', async () => {
  const fleet = await startFleet(2)
  const caches = new Map([
    ['e0', new PrefixCache()],
    ['e1', new PrefixCache()],
  ])
  let [cached, all] = [0, 0]
  // Twenty documents, of which each engine can hold twelve, and four questions at a time.
  for (let round = 0; round < 150; round += 1) {
    await Promise.all(
      Array.from({ length: 4 }, async (_, n) => {
        const document = 100 + ((round * 7 + n * 5 + ((round * n) % 3)) % 20)
        const question = 10_000 + round * 4 + n
        const tokens = { prefixTokens: [3_000, 6_000, 6_500], promptTokens: 6_500 }
        const id = await idOf(fleet, { prefixes: [document, document + 1_000, question], ...tokens })
        all += 6_500
        if (caches.get(id ?? '')?.use(document, 12) === true) cached += 6_000
      }),
    )
  }
  expect(cached / all).toBeGreaterThanOrEqual(0.6)
})

test('a call for an adapter prefers an engine that has it loaded (gpus promise 17)', async () => {
  const [plain, loaded] = [await startModelServer(), await startModelServer()]
  closers.push(
    () => plain.close(),
    () => loaded.close(),
  )
  loaded.behaviour.metrics = `vllm:num_requests_running 2
vllm:num_requests_waiting 0
vllm:lora_requests_info{max_lora="4",running_lora_adapters="tuned",waiting_lora_adapters=""} 1.0
`
  const deployments = [plain, loaded].map((engine, n) => deploymentOn(engine, { id: `e${n}`, upstreamModel: 'tuned' }))
  const model = { ...modelOn(deployments, 'owner/tuned'), adapterOf: 'sim' }
  const dispatcher = makeDispatcher({ probe: { tickMs: 5, metricsMs: 10, idleMs: 3_600_000 } })
  closers.push(() => dispatcher.close())
  dispatcher.setCatalog(new Map([[model.name, model]]))
  await waitFor('both are known', () => dispatcher.stats().deployments.every(({ load }) => load !== undefined))
  const fleet = { engines: [plain, loaded], model, dispatcher }
  for (let n = 0; n < 5; n += 1) expect(await idOf(fleet, {})).toBe('e1')
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

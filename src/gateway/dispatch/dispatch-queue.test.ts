/** Waiting for a slot: order, time limits, errors, and the effect of catalog changes meanwhile. */
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
import { makeDispatcher, type DispatcherOptions, type RunningDispatcher } from './dispatch.ts'
import type { UpstreamHandle } from '../upstream/upstream-call.ts'

const closers: Array<() => Promise<void>> = []

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

async function startEngine(): Promise<ModelServer> {
  const server = await startModelServer()
  closers.push(() => server.close())
  return server
}

function startDispatcher(model: SimulatedModel, options: DispatcherOptions = {}): RunningDispatcher {
  const dispatcher = makeDispatcher({ probe: { tickMs: 3_600_000 }, random: () => 0.5, ...options })
  closers.push(() => dispatcher.close())
  setModel(dispatcher, model)
  return dispatcher
}

const setModel = (dispatcher: RunningDispatcher, model: SimulatedModel): void =>
  dispatcher.setCatalog(new Map([[model.name, model]]))

interface Sent {
  readonly sink: AnswerCollector
  readonly handle: UpstreamHandle
}

function send(
  dispatcher: RunningDispatcher,
  model: SimulatedModel,
  accountId: string,
  more: Partial<SimulatedCall> = {},
): Sent {
  const sink = new AnswerCollector()
  const handle = dispatcher.send(callOn(model, { accountId, ...more }, { model: accountId, messages: [] }), sink)
  return { sink, handle }
}

/** Accounts of the calls that the engine received, in order. */
const servedBy = (engine: ModelServer): string[] =>
  engine.requests.map(({ body }) => (JSON.parse(body.toString()) as { model: string }).model)

describe('fairness', () => {
  test('a flood of 500 calls delays another account’s call by one turn at most', async () => {
    const engine = await startEngine()
    engine.behaviour.latencyMs = 1
    const model = modelOn([deploymentOn(engine, { concurrency: 2 })])
    const dispatcher = startDispatcher(model)
    const flood = Array.from({ length: 500 }, () => send(dispatcher, model, 'flood'))
    const others = [send(dispatcher, model, 'small'), send(dispatcher, model, 'late')]
    expect(dispatcher.stats().models).toMatchObject([{ queued: 500 }])
    await Promise.all([...flood, ...others].map(({ sink }) => sink.done))
    const order = servedBy(engine)
    expect(order).toHaveLength(502)
    // Two were in progress, and one call of the flood had its turn before; the two connections can overtake each other by one.
    expect(order.indexOf('small')).toBeLessThanOrEqual(4)
    expect(order.indexOf('late')).toBeLessThanOrEqual(5)
    expect(engine.peakInFlight).toBe(2)
    expect(flood.every(({ sink }) => sink.status === 200)).toBe(true)
  })

  test('accounts share equally, however many calls each has waiting', async () => {
    const engine = await startEngine()
    const model = modelOn([deploymentOn(engine, { concurrency: 1 })])
    const dispatcher = startDispatcher(model)
    const calls = [
      ...Array.from({ length: 60 }, () => send(dispatcher, model, 'a')),
      ...Array.from({ length: 20 }, () => send(dispatcher, model, 'b')),
      ...Array.from({ length: 10 }, () => send(dispatcher, model, 'c')),
    ]
    await Promise.all(calls.map(({ sink }) => sink.done))
    const first = servedBy(engine).slice(1, 31)
    expect(['a', 'b', 'c'].map((who) => first.filter((one) => one === who).length)).toEqual([10, 10, 10])
  })

  test('an account with a long call gets no second slot while others have none', async () => {
    const engine = await startEngine()
    engine.behaviour.fault = { kind: 'hang' }
    const model = modelOn([deploymentOn(engine, { concurrency: 2 })])
    const dispatcher = startDispatcher(model)
    send(dispatcher, model, 'a')
    const busy = send(dispatcher, model, 'b')
    await waitFor('both places are taken', () => engine.inFlight === 2)
    engine.behaviour.fault = undefined
    const waiting = ['a', 'a', 'b', 'b', 'c'].map((account) => send(dispatcher, model, account))
    busy.handle.cancel()
    await Promise.all(waiting.map(({ sink }) => sink.done))
    expect(servedBy(engine).slice(2)).toEqual(['b', 'c', 'b', 'a', 'a'])
  })
})

test('a base model and its adapter share the slots of a replica, and take turns', async () => {
  const engine = await startEngine()
  engine.behaviour.latencyMs = 2
  const deployments = [deploymentOn(engine, { id: 'replica', concurrency: 2 })]
  const base = modelOn(deployments, 'base')
  const adapter = { ...modelOn(deployments, 'adapter'), adapterOf: 'base' }
  const dispatcher = startDispatcher(base)
  dispatcher.setCatalog(new Map([base, adapter].map((one) => [one.name, one])))
  const flood = Array.from({ length: 40 }, () => send(dispatcher, base, 'base'))
  const few = Array.from({ length: 4 }, () => send(dispatcher, adapter, 'adapter'))
  await Promise.all([...flood, ...few].map(({ sink }) => sink.done))
  expect(engine.peakInFlight).toBe(2)
  // Two were sent before the first of the adapter came.
  expect(servedBy(engine).lastIndexOf('adapter')).toBeLessThanOrEqual(2 + 2 * few.length)
})

describe('a full queue', () => {
  test('refuses calls at once, in total and per account, with Retry-After', async () => {
    const engine = await startEngine()
    engine.behaviour.fault = { kind: 'hang' }
    const model = modelOn([deploymentOn(engine, { concurrency: 1 })])
    const dispatcher = startDispatcher(model, { queue: { calls: 5, callsPerAccount: 3 } })
    const busy = send(dispatcher, model, 'a')
    await waitFor('the engine works', () => engine.inFlight === 1)
    const own = Array.from({ length: 4 }, () => send(dispatcher, model, 'a'))
    const other = Array.from({ length: 3 }, () => send(dispatcher, model, 'b'))
    await waitFor('the refusals', () => own[3]?.sink.isOver === true && other[2]?.sink.isOver === true)
    expect([...own, ...other].map(({ sink }) => sink.failure?.kind)).toEqual([
      undefined,
      undefined,
      undefined,
      'queue_full',
      undefined,
      undefined,
      'queue_full',
    ])
    expect(own[3]?.sink.failure?.retryAfterMs).toBeGreaterThan(0)
    expect(dispatcher.stats().models).toMatchObject([{ queued: 5, waited: 5, rejected: 2 }])
    for (const { handle } of [busy, ...own, ...other]) handle.cancel()
    expect(dispatcher.stats().models).toMatchObject([{ queued: 0 }])
    await waitFor('the engine is free', () => engine.inFlight === 0)
    expect(engine.received).toBe(1)
  })

  test('Retry-After grows with the queue and the length of calls', async () => {
    const engine = await startEngine()
    engine.behaviour.latencyMs = 200
    const model = modelOn([deploymentOn(engine, { concurrency: 1 })])
    const dispatcher = startDispatcher(model, { queue: { calls: 10 } })
    await send(dispatcher, model, 'a').sink.done
    engine.behaviour.fault = { kind: 'hang' }
    const all = Array.from({ length: 12 }, () => send(dispatcher, model, 'a'))
    const { failure } = (await all[11]?.sink.done) ?? {}
    // Eleven calls of 200 ms or more, one after the other.
    expect(failure?.retryAfterMs).toBeGreaterThanOrEqual(11 * 200)
    for (const { handle } of all) handle.cancel()
  })
})

test('a call that waited too long fails and never reaches the engine', async () => {
  const engine = await startEngine()
  engine.behaviour.fault = { kind: 'hang' }
  const model = modelOn([deploymentOn(engine, { concurrency: 1 })])
  const dispatcher = startDispatcher(model, { queue: { waitMs: 50 } })
  const busy = send(dispatcher, model, 'a')
  await waitFor('the engine works', () => engine.inFlight === 1)
  const waiting = send(dispatcher, model, 'a')
  expect((await waiting.sink.done).failure).toMatchObject({ kind: 'overloaded', detail: 'waited too long for a slot' })
  busy.handle.cancel()
  expect(engine.received).toBe(1)
  expect(dispatcher.stats().models).toMatchObject([{ queued: 0, expired: 1 }])
})

test('a client that goes away leaves the queue at once', async () => {
  const engine = await startEngine()
  engine.behaviour.fault = { kind: 'hang' }
  const model = modelOn([deploymentOn(engine, { concurrency: 1 })])
  const dispatcher = startDispatcher(model)
  const [busy, gone, next] = ['busy', 'gone', 'next'].map((who) => send(dispatcher, model, who))
  await waitFor('the engine works', () => engine.inFlight === 1)
  gone?.handle.cancel()
  expect(dispatcher.stats().models).toMatchObject([{ queued: 1 }])
  engine.behaviour.fault = undefined
  busy?.handle.cancel()
  expect((await next?.sink.done)?.status).toBe(200)
  expect(servedBy(engine)).toEqual(['busy', 'next'])
  expect([busy?.sink.isOver, gone?.sink.isOver]).toEqual([false, false])
})

test('a call that only some deployments can take lets others pass', async () => {
  const [a, b] = [await startEngine(), await startEngine()]
  a.behaviour.fault = b.behaviour.fault = { kind: 'hang' }
  const model = modelOn([deploymentOn(a, { id: 'a', concurrency: 1 }), deploymentOn(b, { id: 'b', concurrency: 1 })])
  const dispatcher = startDispatcher(model)
  const onlyA = { accepts: ({ id }: { id: string }) => id === 'a' }
  const first = send(dispatcher, model, 'x', onlyA)
  const second = send(dispatcher, model, 'x', { accepts: ({ id }) => id === 'b' })
  await waitFor('both work', () => a.inFlight + b.inFlight === 2)
  const picky = send(dispatcher, model, 'x', onlyA)
  const easy = send(dispatcher, model, 'x')
  second.handle.cancel()
  await waitFor('the easy one is served', () => b.received === 2)
  expect(a.received).toBe(1)
  first.handle.cancel()
  await waitFor('the picky one is served', () => a.received === 2)
  for (const { handle } of [picky, easy]) handle.cancel()
})

test('a retried call waits before the others of its account', async () => {
  const [a, b] = [await startEngine(), await startEngine()]
  b.behaviour.fault = { kind: 'hang' }
  const model = modelOn([
    deploymentOn(a, { id: 'a', concurrency: 1 }),
    deploymentOn(b, { id: 'b', concurrency: 1, firstByteMs: 60_000 }),
  ])
  const dispatcher = startDispatcher(model)
  const busy = send(dispatcher, model, 'x', { accepts: ({ id }) => id === 'b' })
  await waitFor('b works', () => b.inFlight === 1)
  a.behaviour.faultsOnce = [{ kind: 'status', status: 500 }]
  const failed = send(dispatcher, model, 'failed')
  await waitFor('it waits', () => dispatcher.stats().models[0]?.queued === 1)
  b.behaviour.fault = undefined
  busy.handle.cancel()
  expect((await failed.sink.done).answer?.deployment.id).toBe('b')
})

describe('a change of the catalog', () => {
  test('gives waiting calls the slots of a new deployment at once', async () => {
    const [a, b] = [await startEngine(), await startEngine()]
    a.behaviour.fault = { kind: 'hang' }
    const one = deploymentOn(a, { id: 'a', concurrency: 1 })
    const model = modelOn([one])
    const dispatcher = startDispatcher(model)
    const busy = send(dispatcher, model, 'x')
    const waiting = Array.from({ length: 3 }, () => send(dispatcher, model, 'x'))
    setModel(dispatcher, modelOn([one, deploymentOn(b, { id: 'b', concurrency: 1 })]))
    for (const { sink } of waiting) expect((await sink.done).answer?.deployment.id).toBe('b')
    busy.handle.cancel()
  })

  test('sends nothing new to a drained or removed deployment, and lets it finish', async () => {
    const [a, b] = [await startEngine(), await startEngine()]
    a.behaviour.latencyMs = 100
    const [one, two] = [deploymentOn(a, { id: 'a' }), deploymentOn(b, { id: 'b' })]
    for (const changed of [[{ ...one, drained: true }, two], [{ ...one, weight: 0 }, two], [two]]) {
      const model = modelOn([one, two])
      const dispatcher = startDispatcher(model)
      const before = a.received
      const started = send(dispatcher, model, 'x', { accepts: ({ id }) => id === 'a' })
      await waitFor('it works', () => a.received === before + 1)
      const next = modelOn(changed)
      setModel(dispatcher, next)
      for (let n = 0; n < 5; n += 1) {
        expect((await send(dispatcher, next, 'x').sink.done).answer?.deployment.id).toBe('b')
      }
      expect((await started.sink.done).hasEnded).toBe(true)
      expect(started.sink.answer?.deployment.id).toBe('a')
      const left = dispatcher.stats().deployments.map(({ id }) => id)
      expect(left).toEqual(changed.length === 1 ? ['b'] : ['a', 'b'])
      // Added again, it works as before.
      setModel(dispatcher, model)
      const again = send(dispatcher, model, 'x', { accepts: ({ id }) => id === 'a' })
      expect((await again.sink.done).status).toBe(200)
    }
  })

  test('keeps the state of a deployment, and follows it to another address', async () => {
    const [a, b] = [await startEngine(), await startEngine()]
    const model = modelOn([deploymentOn(a, { id: 'x' })])
    const dispatcher = startDispatcher(model)
    await send(dispatcher, model, 'x').sink.done
    setModel(dispatcher, modelOn([deploymentOn(b, { id: 'x', upstreamModel: 'other' })]))
    await send(dispatcher, model, 'x').sink.done
    expect([a.received, b.received]).toEqual([1, 1])
    expect(dispatcher.stats().deployments).toMatchObject([{ id: 'x', requests: 2, connections: 1 }])
    await waitFor('the old connection is gone', () => a.connections === 0)
  })

  test('fails waiting calls when the model is removed', async () => {
    const engine = await startEngine()
    engine.behaviour.fault = { kind: 'hang' }
    const model = modelOn([deploymentOn(engine, { concurrency: 1 })])
    const dispatcher = startDispatcher(model)
    const busy = send(dispatcher, model, 'x')
    const waiting = send(dispatcher, model, 'x')
    dispatcher.setCatalog(new Map())
    expect((await waiting.sink.done).failure?.kind).toBe('no_deployment')
    expect(busy.sink.isOver).toBe(false)
    busy.handle.cancel()
    expect(dispatcher.stats()).toEqual({ deployments: [], models: [] })
  })

  test('moves traffic with the weights', async () => {
    const [a, b] = [await startEngine(), await startEngine()]
    const weigh = (...weights: readonly [number, number]): SimulatedModel =>
      modelOn([deploymentOn(a, { id: 'a', weight: weights[0] }), deploymentOn(b, { id: 'b', weight: weights[1] })])
    const dispatcher = startDispatcher(weigh(1, 1))
    const counts: number[][] = []
    for (const model of [weigh(1, 1), weigh(3, 1), weigh(1, 4)]) {
      setModel(dispatcher, model)
      const before = [a.received, b.received]
      for (let n = 0; n < 40; n += 1) await send(dispatcher, model, 'x').sink.done
      counts.push([a.received - (before[0] ?? 0), b.received - (before[1] ?? 0)])
    }
    expect(counts).toEqual([
      [20, 20],
      [30, 10],
      [8, 32],
    ])
  })

  test('does not send everything to a new deployment', async () => {
    const [a, b] = [await startEngine(), await startEngine()]
    const one = deploymentOn(a, { id: 'a' })
    const model = modelOn([one])
    const dispatcher = startDispatcher(model)
    for (let n = 0; n < 50; n += 1) await send(dispatcher, model, 'x').sink.done
    setModel(dispatcher, modelOn([one, deploymentOn(b, { id: 'b' })]))
    for (let n = 0; n < 20; n += 1) await send(dispatcher, model, 'x').sink.done
    expect([a.received, b.received]).toEqual([60, 10])
  })
})

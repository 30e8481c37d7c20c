/** Calls through the dispatcher against simulated engines on real sockets: answers, retries, time limits, cancels. */
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { waitFor } from '../../test/harness/wait.ts'
import {
  AnswerCollector,
  deploymentOn,
  modelOn,
  type SimulatedDeployment,
  type SimulatedModel,
} from '../sim/model-server-caller.ts'
import type { Fault } from '../sim/model-server-fault.ts'
import { startModelServer, type ModelServer, type ModelServerOptions } from '../sim/model-server.ts'
import type { Catalog } from './catalog.ts'
import { makeDispatcher, type DispatcherOptions, type RunningDispatcher } from './dispatch.ts'
import type { TargetStats } from './routing-target.ts'
import type { UpstreamCall, UpstreamHandle } from './upstream-call.ts'

const closers: Array<() => Promise<void>> = []

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

async function startEngine(options: ModelServerOptions = {}): Promise<ModelServer> {
  const server = await startModelServer(options)
  closers.push(() => server.close())
  return server
}

/** Probes stay out of the way unless a test is about them. */
function startDispatcher(model: SimulatedModel, options: DispatcherOptions = {}): RunningDispatcher {
  const dispatcher = makeDispatcher({ probe: { lookMs: 3_600_000 }, random: () => 0.5, ...options })
  closers.push(() => dispatcher.close())
  dispatcher.setCatalog(catalogOf(model))
  return dispatcher
}

const catalogOf = (...models: readonly SimulatedModel[]): Catalog => new Map(models.map((one) => [one.name, one]))

const question = { model: 'sim', messages: [{ role: 'user', content: 'hello' }] }

function callOf(model: SimulatedModel, body: unknown = question, more: Partial<UpstreamCall> = {}): UpstreamCall {
  return {
    model,
    accountId: 'account-1',
    request: () => ({
      path: '/v1/chat/completions',
      extraHeaders: 'X-Request-Id: r1\r\n',
      contentType: 'application/json',
      body: [Buffer.from(JSON.stringify(body))],
    }),
    prefixes: [],
    session: undefined,
    ...more,
  }
}

interface Sent {
  readonly sink: AnswerCollector
  readonly handle: UpstreamHandle
}

function send(dispatcher: RunningDispatcher, call: UpstreamCall, onData?: (bytes: Buffer) => void): Sent {
  const sink = new AnswerCollector(onData)
  const handle = dispatcher.send(call, sink)
  expect([sink.answer, sink.isOver], 'nothing is told before the handle is there').toEqual([undefined, false])
  return { sink, handle }
}

const ask = (dispatcher: RunningDispatcher, call: UpstreamCall): Promise<AnswerCollector> =>
  send(dispatcher, call).sink.done

function statsOf(dispatcher: RunningDispatcher, id: string): TargetStats {
  const found = dispatcher.stats().deployments.find((one) => one.id === id)
  if (found === undefined) throw new Error(`no deployment ${id}`)
  return found
}

interface Pair {
  readonly a: ModelServer
  readonly b: ModelServer
  readonly model: SimulatedModel
  readonly dispatcher: RunningDispatcher
}

/** `a` is asked first, for its weight. */
async function startPair(more: Partial<SimulatedDeployment> = {}, options: DispatcherOptions = {}): Promise<Pair> {
  const [a, b] = [await startEngine(), await startEngine()]
  const model = modelOn([deploymentOn(a, { id: 'a', ...more }), deploymentOn(b, { id: 'b', ...more })])
  return { a, b, model, dispatcher: startDispatcher(model, options) }
}

describe('an answer', () => {
  test('is handed over as the engine gave it, and the engine gets the request as it was meant', async () => {
    const engine = await startEngine()
    const deployment = deploymentOn(engine, { basePath: '/openai', authorization: 'Bearer secret', hostHeader: 'h:1' })
    const model = modelOn([deployment])
    const answer = await ask(startDispatcher(model), callOf(model))
    expect(answer.status).toBe(200)
    expect(answer.answer?.deployment.id).toBe(deployment.id)
    expect(answer.answer?.headers.get('content-type')).toBe('application/json')
    expect(JSON.parse(answer.text)).toMatchObject({ model: 'sim', usage: { completion_tokens: 5 } })
    expect(engine.requests[0]).toMatchObject({ method: 'POST', path: '/openai/v1/chat/completions', isAnswered: true })
    expect(engine.requests[0]?.headers).toMatchObject({
      host: 'h:1',
      authorization: 'Bearer secret',
      'content-type': 'application/json',
      'content-length': String(JSON.stringify(question).length),
      'x-request-id': 'r1',
    })
    expect(engine.requests[0]?.body.toString()).toBe(JSON.stringify(question))
  })

  test('is streamed, with many events in few reads where they come together', async () => {
    const engine = await startEngine({ behaviour: { words: 500 } })
    const model = modelOn([deploymentOn(engine)])
    const answer = await ask(startDispatcher(model), callOf(model, { ...question, stream: true }))
    expect(answer.text.match(/word\d+/g)).toHaveLength(500)
    expect(answer.text.endsWith('data: [DONE]\n\n')).toBe(true)
    expect(answer.reads).toBeLessThan(100)
  })

  test('comes over a unix socket', async () => {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-dispatch-'))
    closers.push(() => rm(folder, { recursive: true }))
    const socketPath = path.join(folder, 'engine.sock')
    const engine = await startEngine({ socketPath })
    const model = modelOn([deploymentOn(engine, { address: { kind: 'unix', path: socketPath } })])
    expect((await ask(startDispatcher(model), callOf(model))).status).toBe(200)
  })

  test.each([
    [{ kind: 'split_character' }, '€'],
    [{ kind: 'long_line', bytes: 10_000_000 }, 'x'.repeat(10_000_000)],
    [{ kind: 'trickle', everyMs: 1 }, 'word4'],
  ] satisfies Array<[Fault, string]>)('is complete though the engine is odd: %o', async (fault, has) => {
    const engine = await startEngine({ behaviour: { fault } })
    const model = modelOn([deploymentOn(engine)])
    const answer = await ask(startDispatcher(model), callOf(model))
    expect(answer.hasEnded).toBe(true)
    expect(answer.text.includes(has)).toBe(true)
  })

  test.each([400, 401, 404, 413, 422, 302])('with status %i is the client’s affair', async (status) => {
    const { a, b, model, dispatcher } = await startPair()
    a.behaviour.fault = b.behaviour.fault = { kind: 'status', status, body: 'as it is' }
    for (let n = 0; n < 12; n += 1) {
      const answer = await ask(dispatcher, callOf(model))
      expect([answer.status, answer.text]).toEqual([status, 'as it is'])
    }
    expect(a.received + b.received).toBe(12)
    for (const id of ['a', 'b']) {
      expect(statsOf(dispatcher, id)).toMatchObject({ breaker: 'closed', faults: { status: 0, broken: 0 } })
    }
  })
})

describe('before the first byte, a call is sent again', () => {
  test.each([
    { kind: 'status', status: 500 },
    { kind: 'status', status: 503 },
    { kind: 'status', status: 429 },
    { kind: 'status', status: 408 },
    { kind: 'reset' },
    { kind: 'finish' },
    { kind: 'garbage' },
    { kind: 'hang' },
  ] satisfies Fault[])('to another engine after %o', async (fault) => {
    const { a, b, model, dispatcher } = await startPair({ firstByteMs: 60 })
    a.behaviour.fault = fault
    for (let n = 0; n < 2; n += 1) {
      const answer = await ask(dispatcher, callOf(model))
      expect([answer.status, answer.answer?.deployment.id]).toEqual([200, 'b'])
    }
    expect(a.received).toBeGreaterThanOrEqual(1)
    expect(b.received).toBe(2)
  })

  test('to another engine when one is not there', async () => {
    const { a, model, dispatcher } = await startPair()
    await a.close()
    const answer = await ask(dispatcher, callOf(model))
    expect(answer.answer?.deployment.id).toBe('b')
    expect(statsOf(dispatcher, 'a').faults.connect).toBe(1)
  })

  test('with the body and path that the other engine needs', async () => {
    const { a, b, model, dispatcher } = await startPair()
    a.behaviour.fault = { kind: 'status', status: 500 }
    const asked: string[] = []
    const request: UpstreamCall['request'] = ({ id }) => {
      asked.push(id)
      return { path: `/for-${id}/completions`, extraHeaders: '', contentType: 'x/y', body: [Buffer.from(`"${id}"`)] }
    }
    await ask(dispatcher, callOf(model, question, { request }))
    expect(asked).toEqual(['a', 'b'])
    expect(b.requests[0]).toMatchObject({ path: '/for-b/completions', body: Buffer.from('"b"') })
  })

  test('to the same engine where there is no other, once', async () => {
    const engine = await startEngine({ behaviour: { faultsOnce: [{ kind: 'status', status: 500 }] } })
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    expect((await ask(dispatcher, callOf(model))).status).toBe(200)
    engine.behaviour.fault = { kind: 'status', status: 500, body: 'out of memory' }
    const answer = await ask(dispatcher, callOf(model))
    expect(answer.failure).toMatchObject({ kind: 'status', detail: 'status 500: out of memory' })
    expect(engine.received).toBe(4)
  })

  test('three times at most', async () => {
    const engines = await Promise.all(Array.from({ length: 5 }, () => startEngine()))
    for (const engine of engines) engine.behaviour.fault = { kind: 'status', status: 502 }
    const model = modelOn(engines.map((engine) => deploymentOn(engine)))
    const answer = await ask(startDispatcher(model), callOf(model))
    expect(answer.failure?.kind).toBe('status')
    expect(engines.reduce((sum, { received }) => sum + received, 0)).toBe(3)
  })

  test('but not to the one that let it wait too long', async () => {
    const engine = await startEngine({ behaviour: { fault: { kind: 'hang' } } })
    const model = modelOn([deploymentOn(engine, { firstByteMs: 50 })])
    const answer = await ask(startDispatcher(model), callOf(model))
    expect(answer.failure?.kind).toBe('timeout')
    expect(engine.received).toBe(1)
    await waitFor('the engine sees it', () => engine.requests[0]?.abortedAt)
  })

  test('and a used connection that turns out dead costs nothing', async () => {
    const engine = await startEngine({ behaviour: { faultsOnce: [] } })
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    for (let n = 0; n < 20; n += 1) {
      expect((await ask(dispatcher, callOf(model))).status).toBe(200)
      engine.behaviour.faultsOnce = [{ kind: n % 2 === 0 ? 'reset' : 'finish' }]
      expect((await ask(dispatcher, callOf(model))).status).toBe(200)
    }
    const { faults, requests, breaker } = statsOf(dispatcher, `sim-${engine.port}`)
    expect({ faults, requests, breaker }).toEqual({
      faults: { connect: 0, timeout: 0, status: 0, broken: 0 },
      requests: 40,
      breaker: 'closed',
    })
  })
})

describe('what went wrong is told', () => {
  test.each([
    [{ kind: 'status', status: 500 }, 'status'],
    [{ kind: 'garbage' }, 'broken'],
    [{ kind: 'reset' }, 'broken'],
    [{ kind: 'hang' }, 'timeout'],
    [{ kind: 'status', status: 408 }, 'timeout'],
    [{ kind: 'status', status: 429 }, 'overloaded'],
  ] satisfies Array<[Fault, string]>)('%o on every engine is %s', async (fault, kind) => {
    const { a, b, model, dispatcher } = await startPair({ firstByteMs: 50 })
    a.behaviour.fault = b.behaviour.fault = fault
    expect((await ask(dispatcher, callOf(model))).failure?.kind).toBe(kind)
  })

  test('nobody there is unreachable, with a time to come back', async () => {
    const { a, b, model, dispatcher } = await startPair()
    await Promise.all([a.close(), b.close()])
    const { failure } = await ask(dispatcher, callOf(model))
    expect(failure?.kind).toBe('unreachable')
    expect(failure?.retryAfterMs).toBeGreaterThan(0)
  })

  test('a model that nobody serves, or whose deployments are all drained, has no deployment', async () => {
    const { a, model, dispatcher } = await startPair()
    expect((await ask(dispatcher, callOf(modelOn([], 'unknown')))).failure?.kind).toBe('no_deployment')
    dispatcher.setCatalog(catalogOf(modelOn([deploymentOn(a, { drained: true }), deploymentOn(a, { weight: 0 })])))
    expect((await ask(dispatcher, callOf(model))).failure?.kind).toBe('no_deployment')
    expect((await ask(dispatcher, callOf(model, question, { accepts: () => false }))).failure?.kind).toBe(
      'no_deployment',
    )
  })

  test('of an error’s body no more than a little is read, nor waited for', async () => {
    const { a, b, model, dispatcher } = await startPair()
    a.behaviour.fault = b.behaviour.fault = { kind: 'status', status: 500, body: 'e'.repeat(1_000_000) }
    const { failure } = await ask(dispatcher, callOf(model))
    expect(failure?.detail.length).toBeLessThan(5_000)
    expect(failure?.detail).toMatch(/^status 500: e+$/)
  })

  test('an engine that names a time in its 429 is left alone until then, and the others are used', async () => {
    const { a, b, model, dispatcher } = await startPair()
    a.behaviour.fault = { kind: 'status', status: 429, headers: { 'retry-after': '30' } }
    for (let n = 0; n < 5; n += 1) expect((await ask(dispatcher, callOf(model))).status).toBe(200)
    expect(a.received).toBe(1)
    b.behaviour.fault = {
      kind: 'status',
      status: 429,
      headers: { date: 'Wed, 01 Jan 2025 00:00:00 GMT', 'retry-after': 'Wed, 01 Jan 2025 00:00:20 GMT' },
    }
    const { failure } = await ask(dispatcher, callOf(model))
    expect(failure?.kind).toBe('overloaded')
    expect(failure?.retryAfterMs).toBeGreaterThan(15_000)
    expect(failure?.retryAfterMs).toBeLessThanOrEqual(20_000)
    expect((await ask(dispatcher, callOf(model))).failure?.kind).toBe('overloaded')
    expect([a.received, b.received]).toEqual([1, 6])
    expect(statsOf(dispatcher, 'a')).toMatchObject({ breaker: 'closed', refusals: 1, faults: { status: 0 } })
  })
})

describe('after the head there is no second engine', () => {
  test.each([
    [{ kind: 'reset', afterEvents: 3 }, 'broken'],
    [{ kind: 'finish', afterEvents: 3 }, 'broken'],
    [{ kind: 'hang', afterEvents: 3 }, 'timeout'],
    [{ kind: 'wrong_length', byBytes: 10 }, 'broken'],
  ] satisfies Array<[Fault, string]>)('%o is %s', async (fault, kind) => {
    const { a, b, model, dispatcher } = await startPair({ betweenBytesMs: 80 })
    a.behaviour.fault = b.behaviour.fault = fault
    const answer = await ask(dispatcher, callOf(model, { ...question, stream: fault.kind !== 'wrong_length' }))
    expect(answer.status).toBe(200)
    expect(answer.failure).toMatchObject({ kind, deployment: { id: 'a' } })
    expect(answer.text).toContain('word1')
    expect([a.received, b.received]).toEqual([1, 0])
    expect(statsOf(dispatcher, 'a').faults[kind === 'timeout' ? 'timeout' : 'broken']).toBe(1)
  })

  test('bytes past the length that was said are not taken for an answer', async () => {
    const engine = await startEngine({ behaviour: { fault: { kind: 'wrong_length', byBytes: -3 } } })
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    const answer = await ask(dispatcher, callOf(model))
    expect(answer.hasEnded).toBe(true)
    expect(statsOf(dispatcher, `sim-${engine.port}`).idleConnections).toBe(0)
  })

  test('too long in all ends it, and is not held against an engine that was at work', async () => {
    const engine = await startEngine({ behaviour: { words: 1_000, intervalMs: 5 } })
    const model = modelOn([deploymentOn(engine, { totalMs: 400 })])
    const dispatcher = startDispatcher(model)
    const answer = await ask(dispatcher, callOf(model, { ...question, stream: true }))
    expect(answer.failure?.kind).toBe('timeout')
    expect(answer.text).toContain('word1')
    expect(statsOf(dispatcher, `sim-${engine.port}`).faults.timeout).toBe(0)
    await waitFor('the engine stops', () => engine.inFlight === 0)
  })
})

describe('a client that goes away', () => {
  test('frees the engine at once: while it thinks, and in the middle of a stream', async () => {
    const engine = await startEngine({ behaviour: { fault: { kind: 'hang' } } })
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    const thinking = send(dispatcher, callOf(model))
    await waitFor('the engine works', () => engine.inFlight === 1)
    thinking.handle.cancel()
    await waitFor('the engine sees it', () => engine.requests[0]?.abortedAt)
    engine.behaviour.fault = undefined
    engine.behaviour.words = 2_000
    engine.behaviour.intervalMs = 2
    const streaming = send(dispatcher, callOf(model, { ...question, stream: true }))
    await waitFor('some words', () => streaming.sink.text.includes('word3'))
    streaming.handle.cancel()
    const { reads } = streaming.sink
    await waitFor('the engine sees it', () => engine.requests[1]?.abortedAt)
    expect([thinking.sink.isOver, streaming.sink.isOver, streaming.sink.reads]).toEqual([false, false, reads])
    expect(statsOf(dispatcher, `sim-${engine.port}`)).toMatchObject({
      inFlight: 0,
      cancels: 2,
      breaker: 'closed',
      connections: 0,
      faults: { broken: 0, timeout: 0 },
    })
  })

  test('from within its own reading hears nothing more', async () => {
    const engine = await startEngine({ behaviour: { words: 50, intervalMs: 2 } })
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    const one: Sent = send(dispatcher, callOf(model, { ...question, stream: true }), () => one.handle.cancel())
    await waitFor('the engine sees it', () => engine.requests[0]?.abortedAt)
    expect([one.sink.reads, one.sink.isOver]).toEqual([1, false])
  })

  test('twice, or after the end, does nothing', async () => {
    const engine = await startEngine()
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    const { sink, handle } = send(dispatcher, callOf(model))
    await sink.done
    handle.cancel()
    handle.cancel()
    handle.resume()
    handle.pause()
    expect(statsOf(dispatcher, `sim-${engine.port}`)).toMatchObject({ inFlight: 0, cancels: 0, idleConnections: 1 })
  })

  test('before a refusal is told hears nothing', async () => {
    const { model, dispatcher } = await startPair()
    const { sink, handle } = send(dispatcher, callOf(modelOn([], 'unknown')))
    handle.cancel()
    await ask(dispatcher, callOf(model))
    expect(sink.isOver).toBe(false)
  })
})

test('a slow client stops the engine’s stream, and loses nothing of it', async () => {
  const engine = await startEngine({ behaviour: { words: 8_000, wordOf: (n) => `word${n} ${'x'.repeat(500)}` } })
  const model = modelOn([deploymentOn(engine, { betweenBytesMs: 100 })])
  let pauses = 0
  const one: Sent = send(startDispatcher(model), callOf(model, { ...question, stream: true }), () => {
    pauses += 1
    one.handle.pause()
    setImmediate(() => one.handle.resume())
  })
  await one.sink.done
  expect(one.sink.hasEnded).toBe(true)
  expect(one.sink.text.match(/word\d+/g)).toHaveLength(8_000)
  expect(pauses).toBeGreaterThan(10)
})

describe('the breaker', () => {
  test('keeps calls away from an engine that fails, while the others do the work', async () => {
    const { a, b, model, dispatcher } = await startPair()
    a.behaviour.fault = { kind: 'status', status: 500 }
    for (let n = 0; n < 30; n += 1) expect((await ask(dispatcher, callOf(model))).status).toBe(200)
    expect(a.received).toBe(5)
    expect(b.received).toBe(30)
    expect(statsOf(dispatcher, 'a')).toMatchObject({ breaker: 'open', faults: { status: 5 } })
  })

  test('tries the least bad one by one call at a time where all are open, and so finds out that it is back', async () => {
    const engine = await startEngine({ behaviour: { fault: { kind: 'status', status: 500 } } })
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    const id = `sim-${engine.port}`
    while (statsOf(dispatcher, id).breaker === 'closed') await ask(dispatcher, callOf(model))
    engine.behaviour.fault = { kind: 'hang' }
    const before = engine.received
    const many = Array.from({ length: 10 }, () => send(dispatcher, callOf(model)))
    const refused = await waitFor('the others are refused', () => {
      const over = many.filter(({ sink }) => sink.isOver)
      return over.length === 9 ? over : undefined
    })
    for (const { sink } of refused) {
      expect(sink.failure?.kind).toBe('unreachable')
      expect(sink.failure?.retryAfterMs).toBeGreaterThan(0)
      expect(sink.failure?.deployment?.id).toBe(id)
    }
    expect(engine.received).toBe(before + 1)
    engine.behaviour.fault = undefined
    for (const { handle } of many) handle.cancel()
    await waitFor('a call gets through', async () => (await ask(dispatcher, callOf(model))).status === 200)
    expect(statsOf(dispatcher, id).breaker).toBe('closed')
    expect((await Promise.all(Array.from({ length: 5 }, () => ask(dispatcher, callOf(model))))).length).toBe(5)
  })

  test('is not held open by a trial whose client went away', async () => {
    const engine = await startEngine({ behaviour: { fault: { kind: 'reset' } } })
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    const id = `sim-${engine.port}`
    while (statsOf(dispatcher, id).breaker === 'closed') await ask(dispatcher, callOf(model))
    await waitFor('its pause is over', () => statsOf(dispatcher, id).breaker === 'half_open')
    engine.behaviour.fault = { kind: 'hang' }
    const trial = send(dispatcher, callOf(model))
    await waitFor('the trial is there', () => engine.inFlight === 1)
    expect((await ask(dispatcher, callOf(model))).failure?.kind).toBe('unreachable')
    trial.handle.cancel()
    engine.behaviour.fault = undefined
    expect((await ask(dispatcher, callOf(model))).status).toBe(200)
    expect(statsOf(dispatcher, id).breaker).toBe('closed')
  })
})

test('ten thousand calls leave no more behind than one', async () => {
  const engine = await startEngine({ keepsRequests: 1 })
  const model = modelOn([deploymentOn(engine, { concurrency: 16 })])
  const dispatcher = startDispatcher(model)
  const all = Array.from({ length: 16 }, async () => {
    for (let n = 0; n < 625; n += 1) {
      const answer = await ask(dispatcher, callOf(model, question, { prefixes: [n], accountId: `account-${n % 7}` }))
      expect(answer.status).toBe(200)
    }
  })
  await Promise.all(all)
  const stats = statsOf(dispatcher, `sim-${engine.port}`)
  expect(stats).toMatchObject({ requests: 10_000, inFlight: 0 })
  expect(stats.connections).toBe(stats.idleConnections)
  expect(stats.connections).toBeLessThanOrEqual(16)
  expect(engine.everConnected).toBeLessThanOrEqual(16)
  expect(dispatcher.stats().models).toMatchObject([{ queued: 0, remembered: 0 }])
})

test('a dispatcher that closes tells those who wait and those who are answered', async () => {
  const engine = await startEngine({ behaviour: { words: 1_000, intervalMs: 2 } })
  const model = modelOn([deploymentOn(engine, { concurrency: 1 })])
  const dispatcher = startDispatcher(model)
  const first = send(dispatcher, callOf(model, { ...question, stream: true }))
  const second = send(dispatcher, callOf(model))
  await waitFor('some words', () => first.sink.text.includes('word1'))
  await dispatcher.close()
  expect((await first.sink.done).failure?.kind).toBe('broken')
  expect((await second.sink.done).failure?.kind).toBe('no_deployment')
  expect((await ask(dispatcher, callOf(model))).failure?.kind).toBe('no_deployment')
  await waitFor('the engine is rid of us', () => engine.connections === 0)
})

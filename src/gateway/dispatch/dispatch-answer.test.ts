/** Calls whose answer has started: broken connections, timeouts, cancellation, slow clients, the breaker, and shutdown. */
import net from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  ask,
  send,
  startDispatcher,
  startEngine,
  startPair,
  statsOf,
  type Sent,
} from '../../../test/harness/dispatcher.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { callOn, deploymentOn, modelOn, question } from '../../../test/sim/model-server-caller.ts'
import type { Fault } from '../../../test/sim/model-server-fault.ts'

describe('after the head, the call is not retried', () => {
  test.each([
    [{ kind: 'reset', afterEvents: 3 }, 'broken'],
    [{ kind: 'finish', afterEvents: 3 }, 'broken'],
    [{ kind: 'hang', afterEvents: 3 }, 'timeout'],
    [{ kind: 'wrong_length', byBytes: 10 }, 'broken'],
  ] satisfies Array<[Fault, string]>)('%o is %s', async (fault, kind) => {
    const { a, b, model, dispatcher } = await startPair(fault.kind === 'hang' ? { betweenBytesMs: 80 } : {})
    a.behaviour.fault = b.behaviour.fault = fault
    const answer = await ask(dispatcher, callOn(model, {}, { ...question, stream: fault.kind !== 'wrong_length' }))
    expect(answer.status).toBe(200)
    expect(answer.failure).toMatchObject({ kind, deployment: { id: 'a' } })
    expect(answer.text).toContain('word1')
    expect([a.received, b.received]).toEqual([1, 0])
    expect(statsOf(dispatcher, 'a').faults[kind === 'timeout' ? 'timeout' : 'broken']).toBe(1)
  })

  test('ignores bytes past the announced length', async () => {
    const engine = await startEngine({ behaviour: { fault: { kind: 'wrong_length', byBytes: -3 } } })
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    const answer = await ask(dispatcher, callOn(model))
    expect(answer.hasEnded).toBe(true)
    expect(statsOf(dispatcher, `sim-${engine.port}`).idleConnections).toBe(0)
  })

  test('ends an answer that takes too long in total, without blaming the engine', async () => {
    const engine = await startEngine({ behaviour: { words: 1_000, intervalMs: 5 } })
    const model = modelOn([deploymentOn(engine, { totalMs: 700 })])
    const dispatcher = startDispatcher(model)
    const answer = await ask(dispatcher, callOn(model, {}, { ...question, stream: true }))
    expect(answer.failure?.kind).toBe('timeout')
    expect(answer.text).toContain('word1')
    expect(statsOf(dispatcher, `sim-${engine.port}`).faults.timeout).toBe(0)
    await waitFor('the engine stops', () => engine.inFlight === 0)
  })
})

describe('a client that goes away', () => {
  test('frees the engine at once, before the first token and during a stream', async () => {
    const engine = await startEngine({ behaviour: { fault: { kind: 'hang' } } })
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    const thinking = send(dispatcher, callOn(model))
    await waitFor('the engine works', () => engine.inFlight === 1)
    thinking.handle.cancel()
    await waitFor('the engine sees it', () => engine.requests[0]?.abortedAt)
    engine.behaviour.fault = undefined
    engine.behaviour.words = 2_000
    engine.behaviour.intervalMs = 2
    const streaming = send(dispatcher, callOn(model, {}, { ...question, stream: true }))
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

  test('may cancel from within its own callback', async () => {
    const engine = await startEngine({ behaviour: { words: 2_000, intervalMs: 2 } })
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    const one: Sent = send(dispatcher, callOn(model, {}, { ...question, stream: true }), () => one.handle.cancel())
    await waitFor('the engine sees it', () => engine.requests[0]?.abortedAt)
    expect([one.sink.reads, one.sink.isOver]).toEqual([1, false])
  })

  test('may cancel twice, or after the end', async () => {
    const engine = await startEngine()
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    const { sink, handle } = send(dispatcher, callOn(model))
    await sink.done
    handle.cancel()
    handle.cancel()
    handle.resume()
    handle.pause()
    expect(statsOf(dispatcher, `sim-${engine.port}`)).toMatchObject({ inFlight: 0, cancels: 0, idleConnections: 1 })
  })

  test('hears nothing of a refusal after it cancelled', async () => {
    const { model, dispatcher } = await startPair()
    const { sink, handle } = send(dispatcher, callOn(modelOn([], 'unknown')))
    handle.cancel()
    await ask(dispatcher, callOn(model))
    expect(sink.isOver).toBe(false)
  })
})

test('a slow client slows the engine’s stream down, and loses nothing of it', async () => {
  const engine = await startEngine({ behaviour: { words: 8_000, wordOf: (n) => `word${n} ${'x'.repeat(500)}` } })
  const model = modelOn([deploymentOn(engine, { betweenBytesMs: 100 })])
  let pauses = 0
  const one: Sent = send(startDispatcher(model), callOn(model, {}, { ...question, stream: true }), () => {
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
  test('keeps calls away from a failing engine while the others do the work', async () => {
    const { a, b, model, dispatcher } = await startPair()
    a.behaviour.fault = { kind: 'status', status: 500 }
    let requests = 0
    const askWhile = async (breaker: string, most: number): Promise<void> => {
      for (let n = 0; n < most && statsOf(dispatcher, 'a').breaker === breaker; n += 1) {
        expect((await ask(dispatcher, callOn(model))).status).toBe(200)
        requests += 1
      }
    }
    await askWhile('closed', 30)
    expect(statsOf(dispatcher, 'a').breaker).not.toBe('closed')
    // Its pause is one second, which on a slow machine can end before all calls were made.
    await askWhile('open', 20)
    expect(a.received).toBe(5)
    expect(b.received).toBe(requests)
    expect(statsOf(dispatcher, 'a').faults.status).toBe(5)
  })

  test('tries one call at a time if all are open, and so notices recovery', async () => {
    const engine = await startEngine({ behaviour: { fault: { kind: 'status', status: 500 } } })
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    const id = `sim-${engine.port}`
    while (statsOf(dispatcher, id).breaker === 'closed') await ask(dispatcher, callOn(model))
    engine.behaviour.fault = { kind: 'hang' }
    const before = engine.received
    const many = Array.from({ length: 10 }, () => send(dispatcher, callOn(model)))
    const refused = await waitFor('the others are refused', () => {
      const over = many.filter(({ sink }) => sink.isOver)
      return over.length === 9 ? over : undefined
    })
    for (const { sink } of refused) {
      expect(sink.failure?.kind).toBe('unreachable')
      expect(sink.failure?.retryAfterMs).toBeGreaterThan(0)
      expect(sink.failure?.deployment?.id).toBe(id)
    }
    await waitFor('the one is there', () => engine.received > before)
    expect(engine.received).toBe(before + 1)
    engine.behaviour.fault = undefined
    for (const { handle } of many) handle.cancel()
    await waitFor('a call gets through', async () => (await ask(dispatcher, callOn(model))).status === 200)
    expect(statsOf(dispatcher, id).breaker).toBe('closed')
    expect((await Promise.all(Array.from({ length: 5 }, () => ask(dispatcher, callOn(model))))).length).toBe(5)
  })

  test('is not held open by a trial whose client went away', async () => {
    const engine = await startEngine({ behaviour: { fault: { kind: 'reset' } } })
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    const id = `sim-${engine.port}`
    while (statsOf(dispatcher, id).breaker === 'closed') await ask(dispatcher, callOn(model))
    await waitFor('its pause is over', () => statsOf(dispatcher, id).breaker === 'half_open')
    engine.behaviour.fault = { kind: 'hang' }
    const trial = send(dispatcher, callOn(model))
    await waitFor('the trial is there', () => engine.inFlight === 1)
    expect((await ask(dispatcher, callOn(model))).failure?.kind).toBe('unreachable')
    trial.handle.cancel()
    engine.behaviour.fault = undefined
    expect((await ask(dispatcher, callOn(model))).status).toBe(200)
    expect(statsOf(dispatcher, id).breaker).toBe('closed')
  })
})

test('ten thousand calls leave nothing behind', async () => {
  // A minimal engine, for speed: each read is one request.
  let connected = 0
  const engine = net.createServer((socket) => {
    connected += 1
    socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'))
  })
  await new Promise<void>((done) => engine.listen(0, '127.0.0.1', done))
  onTestFinished(() => new Promise<void>((done) => engine.close(() => done())))
  const { port } = engine.address() as net.AddressInfo
  const model = modelOn([deploymentOn({ host: '127.0.0.1', port }, { id: 'plain', concurrency: 16 })])
  const dispatcher = startDispatcher(model)
  const statuses = await Promise.all(
    Array.from({ length: 16 }, async (_, account) => {
      const seen = new Set<unknown>()
      for (let n = 0; n < 625; n += 1) {
        const call = callOn(model, { prefixes: [n], accountId: `account-${account}` })
        seen.add((await ask(dispatcher, call)).status)
      }
      return [...seen]
    }),
  )
  expect(statuses.flat()).toEqual(Array.from({ length: 16 }, () => 200))
  const stats = statsOf(dispatcher, 'plain')
  expect(stats).toMatchObject({ requests: 10_000, inFlight: 0 })
  expect(stats.connections).toBe(stats.idleConnections)
  expect(stats.connections).toBeLessThanOrEqual(16)
  expect(connected).toBeLessThanOrEqual(16)
  expect(dispatcher.stats().models).toMatchObject([{ queued: 0, remembered: 0 }])
})

test('a closing dispatcher fails waiting and running calls', async () => {
  const engine = await startEngine({ behaviour: { words: 1_000, intervalMs: 2 } })
  const model = modelOn([deploymentOn(engine, { concurrency: 1 })])
  const dispatcher = startDispatcher(model)
  const first = send(dispatcher, callOn(model, {}, { ...question, stream: true }))
  const second = send(dispatcher, callOn(model))
  await waitFor('some words', () => first.sink.text.includes('word1'))
  await dispatcher.close()
  expect((await first.sink.done).failure?.kind).toBe('broken')
  expect((await second.sink.done).failure?.kind).toBe('no_deployment')
  expect((await ask(dispatcher, callOn(model))).failure?.kind).toBe('no_deployment')
  await waitFor('the engine to see the disconnect', () => engine.connections === 0)
})

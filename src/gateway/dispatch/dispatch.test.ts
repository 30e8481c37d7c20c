/** Calls through the dispatcher to simulated engines on real sockets: answers, retries, timeouts, cancellation. */
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ask, catalogOf, startDispatcher, startEngine, startPair, statsOf } from '../../../test/harness/dispatcher.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { callOn, deploymentOn, modelOn, question } from '../../../test/sim/model-server-caller.ts'
import type { Fault } from '../../../test/sim/model-server-fault.ts'
import type { UpstreamCall } from '../upstream/upstream-call.ts'

describe('an answer', () => {
  test('passes the engine’s answer on unchanged, and sends the request as built', async () => {
    const engine = await startEngine()
    const deployment = deploymentOn(engine, { basePath: '/openai', authorization: 'Bearer secret', hostHeader: 'h:1' })
    const model = modelOn([deployment])
    const answer = await ask(startDispatcher(model), callOn(model))
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

  test('is streamed, with many events per read if they come together', async () => {
    const engine = await startEngine({ behaviour: { words: 500 } })
    const model = modelOn([deploymentOn(engine)])
    const answer = await ask(startDispatcher(model), callOn(model, {}, { ...question, stream: true }))
    expect(answer.text.match(/word\d+/g)).toHaveLength(500)
    expect(answer.text.endsWith('data: [DONE]\n\n')).toBe(true)
    expect(answer.reads).toBeLessThan(100)
  })

  test('comes over a unix socket', async () => {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-dispatch-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const socketPath = path.join(folder, 'engine.sock')
    const engine = await startEngine({ socketPath })
    const model = modelOn([deploymentOn(engine, { address: { kind: 'unix', path: socketPath } })])
    expect((await ask(startDispatcher(model), callOn(model))).status).toBe(200)
  })

  test.each([
    [{ kind: 'split_character' }, '€'],
    [{ kind: 'long_line', bytes: 10_000_000 }, 'x'.repeat(10_000_000)],
    [{ kind: 'trickle', everyMs: 1 }, 'word4'],
  ] satisfies Array<[Fault, string]>)('is complete though the engine is odd: %o', async (fault, has) => {
    const engine = await startEngine({ behaviour: { fault } })
    const model = modelOn([deploymentOn(engine)])
    const answer = await ask(startDispatcher(model), callOn(model))
    expect(answer.hasEnded).toBe(true)
    expect(answer.text.includes(has)).toBe(true)
  })

  test.each([401, 403, 404, 302, 500])(
    'with status %i is sought elsewhere, and counts against the engine',
    async (status) => {
      const { a, b, model, dispatcher } = await startPair()
      a.behaviour.fault = { kind: 'status', status, body: 'not here' }
      for (let n = 0; n < 12; n += 1) expect((await ask(dispatcher, callOn(model))).status).toBe(200)
      expect(b.received).toBe(12)
      expect(statsOf(dispatcher, 'a').faults.status).toBeGreaterThan(0)
    },
  )

  test.each([400, 413, 422])('with status %i is the client’s fault', async (status) => {
    const { a, b, model, dispatcher } = await startPair()
    a.behaviour.fault = b.behaviour.fault = { kind: 'status', status, body: 'as it is' }
    for (let n = 0; n < 12; n += 1) {
      const answer = await ask(dispatcher, callOn(model))
      expect([answer.status, answer.text]).toEqual([status, 'as it is'])
    }
    expect(a.received + b.received).toBe(12)
    for (const id of ['a', 'b']) {
      expect(statsOf(dispatcher, id)).toMatchObject({ breaker: 'closed', faults: { status: 0, broken: 0 } })
    }
  })
})

describe('before the first byte, a call is retried', () => {
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
    const [a, b] = [await startEngine(), await startEngine()]
    // The engine that answers may be slow on a busy machine.
    const hurried = deploymentOn(a, { id: 'a', ...(fault.kind === 'hang' ? { firstByteMs: 400 } : {}) })
    const model = modelOn([hurried, deploymentOn(b, { id: 'b' })])
    const dispatcher = startDispatcher(model)
    a.behaviour.fault = fault
    for (let n = 0; n < 2; n += 1) {
      const answer = await ask(dispatcher, callOn(model))
      expect([answer.status, answer.answer?.deployment.id]).toEqual([200, 'b'])
    }
    await waitFor('the first to see it', () => a.received >= 1)
    expect(b.received).toBe(2)
  })

  test('at another engine if one is unreachable', async () => {
    const { a, model, dispatcher } = await startPair()
    await a.close()
    const answer = await ask(dispatcher, callOn(model))
    expect(answer.answer?.deployment.id).toBe('b')
    expect(statsOf(dispatcher, 'a').faults.connect).toBe(1)
  })

  test('with the body and path for the other engine', async () => {
    const { a, b, model, dispatcher } = await startPair()
    a.behaviour.fault = { kind: 'status', status: 500 }
    const ids: string[] = []
    const request: UpstreamCall['request'] = ({ id }) => {
      ids.push(id)
      return { path: `/for-${id}/completions`, extraHeaders: '', contentType: 'x/y', body: [Buffer.from(`"${id}"`)] }
    }
    await ask(dispatcher, callOn(model, { request }))
    expect(ids).toEqual(['a', 'b'])
    expect(b.requests[0]).toMatchObject({ path: '/for-b/completions', body: Buffer.from('"b"') })
  })

  test('once at the same engine if there is no other', async () => {
    const engine = await startEngine({ behaviour: { faultsOnce: [{ kind: 'status', status: 500 }] } })
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    expect((await ask(dispatcher, callOn(model))).status).toBe(200)
    engine.behaviour.fault = { kind: 'status', status: 500, body: 'out of memory' }
    const answer = await ask(dispatcher, callOn(model))
    expect(answer.failure).toMatchObject({ kind: 'status', detail: 'status 500: out of memory' })
    expect(engine.received).toBe(4)
  })

  test('three times at most', async () => {
    const engines = await Promise.all(Array.from({ length: 5 }, () => startEngine()))
    for (const engine of engines) engine.behaviour.fault = { kind: 'status', status: 502 }
    const model = modelOn(engines.map((engine) => deploymentOn(engine)))
    const answer = await ask(startDispatcher(model), callOn(model))
    expect(answer.failure?.kind).toBe('status')
    expect(engines.reduce((sum, { received }) => sum + received, 0)).toBe(3)
  })

  test('but not at the engine that timed out', async () => {
    const engine = await startEngine({ behaviour: { fault: { kind: 'hang' } } })
    const model = modelOn([deploymentOn(engine, { firstByteMs: 50 })])
    const answer = await ask(startDispatcher(model), callOn(model))
    expect(answer.failure?.kind).toBe('timeout')
    await waitFor('the engine sees it', () => engine.requests[0]?.abortedAt)
    expect(engine.received).toBe(1)
  })

  test('and a dead idle connection costs no attempt', async () => {
    const engine = await startEngine({ behaviour: { faultsOnce: [] } })
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    for (let n = 0; n < 20; n += 1) {
      expect((await ask(dispatcher, callOn(model))).status).toBe(200)
      engine.behaviour.faultsOnce = [{ kind: n % 2 === 0 ? 'reset' : 'finish' }]
      expect((await ask(dispatcher, callOn(model))).status).toBe(200)
    }
    const { faults, requests, breaker } = statsOf(dispatcher, `sim-${engine.port}`)
    expect({ faults, requests, breaker }).toEqual({
      faults: { connect: 0, timeout: 0, status: 0, broken: 0 },
      requests: 40,
      breaker: 'closed',
    })
  })
})

describe('failures', () => {
  test.each([
    [{ kind: 'status', status: 500 }, 'status'],
    [{ kind: 'garbage' }, 'broken'],
    [{ kind: 'reset' }, 'broken'],
    [{ kind: 'hang' }, 'timeout'],
    [{ kind: 'status', status: 408 }, 'timeout'],
    [{ kind: 'status', status: 429 }, 'overloaded'],
  ] satisfies Array<[Fault, string]>)('%o on every engine is %s', async (fault, kind) => {
    const { a, b, model, dispatcher } = await startPair(fault.kind === 'hang' ? { firstByteMs: 50 } : {})
    a.behaviour.fault = b.behaviour.fault = fault
    expect((await ask(dispatcher, callOn(model))).failure?.kind).toBe(kind)
  })

  test('a closed port is unreachable, with Retry-After', async () => {
    const { a, b, model, dispatcher } = await startPair()
    await Promise.all([a.close(), b.close()])
    const { failure } = await ask(dispatcher, callOn(model))
    expect(failure?.kind).toBe('unreachable')
    expect(failure?.retryAfterMs).toBeGreaterThan(0)
  })

  test('an unknown model, or one with only drained deployments, has no deployment', async () => {
    const { a, model, dispatcher } = await startPair()
    expect((await ask(dispatcher, callOn(modelOn([], 'unknown')))).failure?.kind).toBe('no_deployment')
    dispatcher.setCatalog(catalogOf(modelOn([deploymentOn(a, { drained: true }), deploymentOn(a, { weight: 0 })])))
    expect((await ask(dispatcher, callOn(model))).failure?.kind).toBe('no_deployment')
    expect((await ask(dispatcher, callOn(model, { accepts: () => false }))).failure?.kind).toBe('no_deployment')
  })

  test('reads only a little of an error body, for a short time', async () => {
    const { a, b, model, dispatcher } = await startPair()
    a.behaviour.fault = b.behaviour.fault = { kind: 'status', status: 500, body: 'e'.repeat(1_000_000) }
    const { failure } = await ask(dispatcher, callOn(model))
    expect(failure?.detail.length).toBeLessThan(5_000)
    expect(failure?.detail).toMatch(/^status 500: e+$/)
  })

  test('leaves an engine alone for the Retry-After of its 429, and uses the others', async () => {
    const { a, b, model, dispatcher } = await startPair()
    a.behaviour.fault = { kind: 'status', status: 429, headers: { 'retry-after': '30' } }
    for (let n = 0; n < 5; n += 1) expect((await ask(dispatcher, callOn(model))).status).toBe(200)
    expect(a.received).toBe(1)
    b.behaviour.fault = {
      kind: 'status',
      status: 429,
      headers: { date: 'Wed, 01 Jan 2025 00:00:00 GMT', 'retry-after': 'Wed, 01 Jan 2025 00:00:20 GMT' },
    }
    const { failure } = await ask(dispatcher, callOn(model))
    expect(failure?.kind).toBe('overloaded')
    expect(failure?.retryAfterMs).toBeGreaterThan(15_000)
    expect(failure?.retryAfterMs).toBeLessThanOrEqual(20_000)
    expect((await ask(dispatcher, callOn(model))).failure?.kind).toBe('overloaded')
    expect([a.received, b.received]).toEqual([1, 6])
    expect(statsOf(dispatcher, 'a')).toMatchObject({ breaker: 'closed', refusals: 1, faults: { status: 0 } })
  })
})

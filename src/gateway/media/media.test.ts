/** Images from an engine that reports its steps: the cost of each outcome, with a real ledger and a simulated engine. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openAccount } from '../../../test/harness/ledger.ts'
import { startDispatcher, startEngine } from '../../../test/harness/dispatcher.ts'
import { startGateway } from '../../../test/harness/metered-gateway.ts'
import { openPurseLedger, sharedPurse, type PurseLedger } from '../../../test/harness/purse-ledger.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { nanoUsdOf, usd } from '../../base/money.ts'
import type { Result } from '../../contract/result.ts'
import { deploymentOn, modelOn } from '../../../test/sim/model-server-caller.ts'
import type { Fault } from '../../../test/sim/model-server-fault.ts'
import type { ModelServer } from '../../../test/sim/model-server.ts'
import type { Rates } from '../money/admission.ts'
import { newRequestId, type Caller } from '../call.ts'
import type { Catalog, Protocol } from '../catalog.ts'
import type { MediaProgress } from '../upstream/event-body.ts'
import { Gateway } from '../gateway.ts'
import type { MediaWork } from './media.ts'
import { embeddingWork, imageWork, type ImageBody } from './media-work.ts'
import type { EndedCall, Meter } from '../money/meter.ts'
import { GatewayPlaces } from '../dispatch/places.ts'

let ledger: PurseLedger
beforeAll(async () => {
  ledger = await openPurseLedger()
})
afterAll(() => ledger.close())

/** These tests do not check counters. */
const plenty = { allowed: true, limit: 1_000_000, remaining: 1_000_000, resetAt: 0 }
const rates: Rates = { tryTake: () => plenty, take: async () => plenty, giveBack: () => {}, owe: () => {} }
/** One nano-dollar per pixel and step. */
const pixelStep = usd('0.001')

let engine: ModelServer
let dispatcher: ReturnType<typeof startDispatcher>
let gateway: Gateway
let catalog: Catalog
let meter: Meter
let caller: Caller
let ended: EndedCall[]
let accounts = 0

beforeEach(async () => {
  engine = await startEngine()
  const base = modelOn([deploymentOn(engine, { id: 'local:p', protocol: 'embedded', concurrency: 1 })], 'p')
  dispatcher = startDispatcher(base)
  const served = { ...base, kind: 'image' as const, prices: { ...base.prices, pixelStep } }
  catalog = new Map([['p', served]])
  ended = []
  ;({ meter } = await startGateway(ledger))
  const { clock } = ledger
  gateway = new Gateway({
    dispatcher,
    meter,
    rates,
    clock,
    places: new GatewayPlaces(() => 1),
    ended: (call) => ended.push(call),
    warn: () => {},
  })
  accounts += 1
  const actor = await openAccount(ledger, `painter-${accounts}`, usd('1'))
  const limits = {
    requestsPerMinute: 100,
    tokensPerMinute: 100,
    streams: 10,
    keepsBodies: false,
    storesResponses: true,
  }
  const { accountId, keyId } = actor
  const purse = sharedPurse(actor)
  caller = {
    accountId,
    keyId,
    purse,
    class: 'interactive',
    allowedModels: null,
    requestsPerMinute: 100,
    tokensPerMinute: null,
    account: limits,
  }
})

interface Run {
  readonly id: string
  readonly reported: MediaProgress[]
  readonly result: Promise<Result<unknown>>
  readonly leave: () => void
}

function paint(more: Partial<ImageBody> = {}, isStream = true): Run {
  const body = { model_name: 'p', prompt: 'a ship', width: 16, height: 8, steps: 5, cfg_scale: 5, seed: 3, ...more }
  return run(imageWork(body, { named: new Set(Object.keys(body)), modelField: 'model_name' }), isStream)
}

function run(work: MediaWork, isStream: boolean): Run {
  const reported: MediaProgress[] = []
  const leaving = new AbortController()
  const requestId = newRequestId(ledger.clock.now())
  const result = gateway.media.run(
    catalog,
    caller,
    work,
    { requestId, traceparent: undefined, session: undefined },
    {
      signal: leaving.signal,
      ...(isStream ? { onProgress: (progress: MediaProgress) => reported.push(progress) } : {}),
    },
  )
  return { id: requestId, reported, result, leave: () => leaving.abort() }
}

const stepsOf = (reported: readonly MediaProgress[]): number[] =>
  reported.flatMap((one) => (one.type === 'progress' ? [one.step] : []))

test('charges all steps, streamed or not, and passes the engine’s notes on', async () => {
  engine.behaviour.notes = ['The prompt was too long']
  for (const isStream of [true, false]) {
    const { id, reported, result } = paint({}, isStream)
    expect(await result).toMatchObject({
      ok: true,
      value: { images: [{ index: 0, random_seed: 3 }], notes: ['The prompt was too long'] },
    })
    expect(stepsOf(reported)).toEqual(isStream ? [1, 2, 3, 4, 5] : [])
    expect(meter.costOf(id)?.cost).toBe(nanoUsdOf(16n * 8n * 5n))
  }
  expect(ended.map(({ outcome, streamed }) => [outcome, streamed])).toEqual([
    ['answered', true],
    ['answered', false],
  ])
})

test('charges a client that disconnects for the steps reported to it, and stops the engine', async () => {
  engine.behaviour.intervalMs = 5
  const { id, reported, result, leave } = paint({ steps: 1_000 })
  await waitFor('the third step', () => stepsOf(reported).includes(3))
  leave()
  expect(await result).toMatchObject({ ok: false, reason: 'client_disconnected' })
  expect(meter.costOf(id)?.cost).toBe(nanoUsdOf(BigInt(16 * 8 * Math.max(...stepsOf(reported)))))
  expect(ended).toMatchObject([{ outcome: 'cut', deployment: 'local:p', status: 499, streamed: true }])
  await waitFor('the engine to be stopped', () => engine.requests[0]?.abortedAt !== undefined)
})

test.each([
  ['waits for the answer alone', false, 3],
  ['has seen no step', true, 0],
])('a client that leaves and %s pays nothing, and the engine stops', async (_what, isStream, events) => {
  engine.behaviour.intervalMs = 5
  if (events === 0) engine.behaviour.fault = { kind: 'hang', afterEvents: 1 }
  const { id, result, leave } = paint({ steps: 1_000 }, isStream)
  await waitFor('the engine is at work', () => (engine.requests[0]?.eventsSent ?? 0) > events)
  leave()
  await result
  expect(meter.costOf(id)?.cost).toBe(0n)
  await waitFor('the engine to be stopped', () => engine.requests[0]?.abortedAt !== undefined)
})

test('a chat model embeds on a server of others, and not on our own engine', async () => {
  const embed = (protocol: Protocol) => {
    const model = modelOn([deploymentOn(engine, { id: 'local:p', protocol, concurrency: 1 })], 'p')
    catalog = new Map([['p', model]])
    dispatcher.setCatalog(catalog)
    return run(embeddingWork({ model: 'p', input: 'a ship' }), false).result
  }
  expect(await embed('chat')).toMatchObject({ ok: true })
  expect(engine.requests).toHaveLength(1)
  expect(await embed('embedded')).toMatchObject({ ok: false, kind: 'invalid', reason: 'wrong_model_kind' })
  expect(engine.requests).toHaveLength(1)
})

describe('an engine that', () => {
  const reported = (error: object): Fault => ({
    kind: 'status',
    status: 200,
    headers: { 'content-type': 'text/event-stream' },
    body: `data: ${JSON.stringify({ type: 'error', error })}\n\n`,
  })

  test.each<[string, Fault, object]>([
    ['breaks off in the middle', { kind: 'finish', afterEvents: 3 }, { kind: 'unavailable', reason: 'engine_failed' }],
    ['says that it failed', reported({ type: 'server_error' }), { kind: 'unavailable', reason: 'upstream_error' }],
    [
      'says what is wrong with the request',
      reported({ message: 'no such seed', type: 'invalid_request_error', param: 'seed', code: null }),
      { kind: 'invalid', message: 'no such seed', issues: [{ path: ['seed'] }] },
    ],
    [
      'sends no picture',
      { kind: 'status', status: 200, body: '{"images":[]}' },
      { kind: 'unavailable', reason: 'engine_failed' },
    ],
  ])('%s costs nothing', async (_what, fault, failure) => {
    engine.behaviour.fault = fault
    const { id, result } = paint()
    expect(await result).toMatchObject({ ok: false, ...failure })
    expect(meter.costOf(id)?.cost).toBe(0n)
    expect(ended).toMatchObject([{ outcome: 'failed' }])
  })

  test('reports more steps than requested is charged for the requested ones', () => {
    const body = { model_name: 'p', prompt: 'a ship', width: 16, height: 8, steps: 5, cfg_scale: 5 }
    const work = imageWork(body, { named: new Set(), modelField: 'model_name' })
    expect(work.unitsOf?.(1_000)).toEqual(work.maxUnits)
  })
})

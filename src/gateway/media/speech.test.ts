/** Speech of our own engine, which sends it while it speaks: the file, its events, and what each outcome costs. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { startDispatcher, startEngine } from '../../../test/harness/dispatcher.ts'
import { openAccount } from '../../../test/harness/ledger.ts'
import { startGateway } from '../../../test/harness/metered-gateway.ts'
import { openPurseLedger, sharedPurse, type PurseLedger } from '../../../test/harness/purse-ledger.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { deploymentOn, modelOn } from '../../../test/sim/model-server-caller.ts'
import type { ModelServer } from '../../../test/sim/model-server.ts'
import { usd } from '../../base/money.ts'
import { audioTypes, type AudioFormat } from '../../contract/audio-format.ts'
import { NodeReply } from '../../server/http/node-reply.ts'
import { newRequestId, type Caller } from '../call.ts'
import type { Catalog } from '../catalog.ts'
import { GatewayPlaces } from '../dispatch/places.ts'
import { Gateway } from '../gateway.ts'
import type { Rates } from '../money/admission.ts'
import type { EndedCall, Meter } from '../money/meter.ts'
import { speechFileWork, speechWork } from './speech.ts'
import { streamSpeech } from './speech-stream.ts'

let ledger: PurseLedger
beforeAll(async () => {
  ledger = await openPurseLedger()
})
afterAll(() => ledger.close())

/** These tests do not check counters. */
const plenty = { allowed: true, limit: 1_000_000, remaining: 1_000_000, resetAt: 0 }
const rates: Rates = { tryTake: () => plenty, take: async () => plenty, giveBack: () => {}, owe: () => {} }
/** One nano-dollar. */
const character = usd('0.001')

let engine: ModelServer
let gateway: Gateway
let catalog: Catalog
let meter: Meter
let caller: Caller
let ended: EndedCall[]
let accounts = 0

beforeEach(async () => {
  engine = await startEngine()
  const base = modelOn([deploymentOn(engine, { id: 'local:s', protocol: 'embedded', concurrency: 1 })], 's')
  const dispatcher = startDispatcher(base)
  catalog = new Map([['s', { ...base, kind: 'speech' as const, prices: { ...base.prices, character } }]])
  ended = []
  ;({ meter } = await startGateway(ledger))
  const places = new GatewayPlaces(() => 1)
  gateway = new Gateway({
    dispatcher,
    meter,
    rates,
    clock: ledger.clock,
    places,
    ended: (call) => ended.push(call),
    warn: () => {},
  })
  accounts += 1
  const actor = await openAccount(ledger, `speaker-${accounts}`, usd('1'))
  caller = {
    ...actor,
    purse: sharedPurse(actor),
    class: 'interactive',
    allowedModels: null,
    requestsPerMinute: 100,
    tokensPerMinute: null,
    account: {
      requestsPerMinute: 100,
      tokensPerMinute: 1_000_000,
      streams: 10,
      keepsBodies: false,
      storesResponses: true,
    },
  }
})

const text = 'Seven boats came in. '

interface Spoken {
  readonly id: string
  readonly response: Response
}

/** Asks over a real connection of node:http. */
async function speak(format: AudioFormat, asEvents: boolean, words = text, signal?: AbortSignal): Promise<Spoken> {
  const headers = { requestId: newRequestId(ledger.clock.now()), traceparent: undefined, session: undefined }
  const server = http.createServer((_, response) => {
    const reply = new NodeReply(response, (failure) => ({ status: 503, body: JSON.stringify(failure) }))
    const work = speechFileWork({ text: words, speed: 1, model: 's' }, format)
    void streamSpeech(reply, {
      format,
      asEvents,
      characters: words.length,
      run: (client) => gateway.media.run(catalog, caller, work, headers, client),
      errorOf: ({ reason }) => ({ code: reason }),
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const response = await fetch(
    `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    signal === undefined ? {} : { signal },
  )
  return { id: headers.requestId, response }
}

async function eventsOf(response: Response): Promise<Array<Record<string, unknown>>> {
  const lines = (await response.text()).split('\n').filter((line) => line.startsWith('data: '))
  return lines.map((line) => JSON.parse(line.slice(6)) as Record<string, unknown>)
}

const nanoOf = (id: string): number => Number(meter.costOf(id)?.cost)

test.each(['mp3', 'opus', 'flac', 'wav', 'pcm'] as const)(
  'sends the parts of a file as %s one after the other',
  async (format) => {
    const { id, response } = await speak(format, false)
    expect(response.headers.get('content-type')).toBe(audioTypes[format])
    expect(await response.text()).toBe(text)
    expect(JSON.parse(String(engine.requests.at(-1)?.body))).toMatchObject({ format, stream: true, text })
    expect(nanoOf(id)).toBe(text.length)
    expect(ended).toMatchObject([{ outcome: 'answered', streamed: true }])
  },
)

test('JSON with the same text costs as much, and no customer chooses how the engine answers', async () => {
  const body = { text, speed: 1, model: 's', stream: true, format: 'wav' }
  const headers = { requestId: newRequestId(ledger.clock.now()), traceparent: undefined, session: undefined }
  const client = { signal: new AbortController().signal }
  const result = await gateway.media.run(catalog, caller, speechWork(body), headers, client)
  expect(result).toMatchObject({ ok: true, value: { usage: text.length, sample_rate: 44_100 } })
  expect(JSON.parse(String(engine.requests[0]?.body))).toMatchObject({ format: 'mp3', stream: false })
  expect(nanoOf(headers.requestId)).toBe(text.length)
})

test('events have the parts, then the billed characters', async () => {
  const { id, response } = await speak('wav', true)
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  const events = await eventsOf(response)
  const parts = events.slice(0, -1)
  expect(parts.map(({ type }) => type)).toEqual(parts.map(() => 'speech.audio.delta'))
  expect(parts.map(({ audio }) => Buffer.from(String(audio), 'base64').toString()).join('')).toBe(text)
  const usage = { input_tokens: text.length, output_tokens: 0, total_tokens: text.length }
  expect(events.at(-1)).toEqual({ type: 'speech.audio.done', usage })
  expect(nanoOf(id)).toBe(text.length)
})

test('the first part arrives while the engine speaks, and a client that leaves pays for what was spoken', async () => {
  engine.behaviour.intervalMs = 5
  const words = 'word '.repeat(4_000)
  const leaving = new AbortController()
  const { id, response } = await speak('mp3', false, words, leaving.signal)
  const { value } = (await response.body?.getReader().read()) ?? {}
  expect(Buffer.from(value ?? []).toString()).toMatch(/^word /)
  expect(engine.inFlight).toBe(1)
  leaving.abort()
  await waitFor('the record', () => ended.length === 1)
  expect(ended).toMatchObject([{ outcome: 'cut', status: 499 }])
  await waitFor('the cost', () => meter.costOf(id) !== undefined)
  expect(nanoOf(id)).toBeGreaterThanOrEqual('word '.length)
  expect(nanoOf(id)).toBeLessThan(words.length)
  await waitFor('the engine stops', () => engine.inFlight === 0)
})

test('a client that reads late gets every byte, beyond what the buffers on the way take', async () => {
  const words = `${'w'.repeat(65_536)} `.repeat(100)
  const { response } = await speak('pcm', false, words)
  const reader = response.body?.getReader()
  const first = await reader?.read()
  let bytes = first?.value?.length ?? 0
  for (let read = await reader?.read(); read?.done === false; read = await reader?.read()) bytes += read.value.length
  expect(bytes).toBe(words.length)
})

describe('an engine that fails midway is free, and ends', () => {
  beforeEach(() => void (engine.behaviour.fault = { kind: 'reset', afterEvents: 2 }))

  test('a file as a broken connection', async () => {
    const { id, response } = await speak('mp3', false)
    await expect(response.arrayBuffer()).rejects.toThrow(/terminated/)
    expect([nanoOf(id), ended]).toMatchObject([0, [{ outcome: 'failed' }]])
  })

  test('events with an error', async () => {
    const { id, response } = await speak('mp3', true)
    const events = await eventsOf(response)
    expect(events.at(-1)).toEqual({ type: 'error', error: { code: 'engine_failed' } })
    expect([nanoOf(id), ended]).toMatchObject([0, [{ outcome: 'failed' }]])
  })
})

test('a format without an encoder is refused by name, before anything is asked', async () => {
  const { response } = await speak('aac', false)
  const failure = { reason: 'audio_format', issues: [{ path: ['response_format'] }] }
  expect([response.status, await response.json()]).toMatchObject([503, failure])
  expect(engine.received).toBe(0)
})

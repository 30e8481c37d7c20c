/**
 * One price for every protocol: each outcome of the table in docs/customer/models.md is caused once as a chat, a response
 * and a message, streamed and not, and the three records differ in nothing but the name of the operation.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Agent, request } from 'undici'
import { readLedgerOf, type LedgerReader } from './harness/inference-ledger.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { countTokens } from './sim/model-server-answer.ts'
import type { Behaviour } from './sim/model-server.ts'
import type { Fault } from './sim/model-server-fault.ts'

interface Customer {
  readonly id: string
  readonly key: string
  readonly call: Call
}

/** Nano-dollars per token. */
const price = { input: 10, cached: 5, output: 40 }
const prices = { inputUsdPerMillion: '0.01', cachedUsdPerMillion: '0.005', outputUsdPerMillion: '0.04' }
const WORDS = 5
/** Words that a broken or abandoned stream has brought: the event before them has none. */
const PART = 3
const partly = { afterEvents: PART + 1 }

let server: TestServer
let customer: Customer
let ledger: LedgerReader
const models: TestModel[] = []
/** By the name of the run: one request for each protocol. */
const requests = new Map<string, readonly SentRequest[]>()
let log: readonly LoggedRequest[] = []

beforeAll(async () => {
  server = await testServer({ runLoops: false })
  customer = await server.account({ usd: '10' })
  ledger = readLedgerOf(server.databaseUrl)
  for (const [name, one, stream] of runs) requests.set(name, await sendAll(one, stream))
  // Those whose client left have no id, and each has a model of its own.
  const models = new Set([...requests.values()].flatMap((sent) => sent.map(({ asked }) => asked.model)))
  log = await waitFor('the records of all requests', async () => {
    const { body } = await customer.call('GET', '/v2/usage/requests?limit=100')
    const records = body.requests as LoggedRequest[]
    return new Set(records.map(({ model }) => model)).size === models.size && records
  })
})
afterAll(async () => {
  await server.close()
  await ledger.close()
  await Promise.all(models.map(({ upstream }) => upstream.close()))
})

const protocols = ['chat', 'messages', 'responses'] as const
type Protocol = (typeof protocols)[number]
const paths = { chat: '/v1/chat/completions', messages: '/v1/messages', responses: '/v1/responses' } as const

interface Asked {
  readonly model: string
  readonly stream: boolean
  readonly question: string
  readonly maxTokens: number
}

const instructions = 'You are a pilot.'
const messagesOf = ({ question }: Asked) => [
  { role: 'system', content: instructions },
  { role: 'user', content: question },
]

function bodyOf(protocol: Protocol, asked: Asked): object {
  const { model, stream, maxTokens, question } = asked
  const streamed = stream ? { stream } : {}
  const user = [{ role: 'user', content: question }]
  switch (protocol) {
    case 'chat':
      return { model, messages: messagesOf(asked), max_tokens: maxTokens, ...streamed }
    case 'messages':
      return { model, system: instructions, messages: user, max_tokens: maxTokens, ...streamed }
    case 'responses':
      return { model, instructions, input: user, max_output_tokens: maxTokens, ...streamed }
  }
}

interface Sent {
  readonly status: number | undefined
  readonly id: string | undefined
}

/** `leaves`: the client goes away before the answer begins, or within it. */
async function send(
  { upstream }: TestModel,
  protocol: Protocol,
  asked: Asked,
  leaves?: 'before' | 'within',
): Promise<Sent> {
  const dispatcher = new Agent()
  const before = upstream.received
  const reply = request(`${server.url}${paths[protocol]}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(bodyOf(protocol, asked)),
    dispatcher,
  })
  if (leaves === 'before') {
    const ended = reply.catch(() => undefined)
    await waitFor('the request at the engine', () => upstream.received > before)
    await dispatcher.destroy()
    await ended
    return { status: undefined, id: undefined }
  }
  const { statusCode, headers, body } = await reply
  let text = ''
  for await (const piece of body) {
    text += String(piece)
    if (leaves === 'within' && text.includes(`word${PART - 1}`)) break
  }
  await dispatcher.destroy()
  return { status: statusCode, id: headers['x-inference-request-id'] as string | undefined }
}

interface LoggedRequest {
  readonly requestId: string
  readonly model: string
  readonly costUsd: string
  readonly [name: string]: unknown
}

interface Tokens {
  readonly input: number
  readonly cached?: number
  readonly output: number
}

interface Case {
  readonly name: string
  readonly streams: readonly boolean[]
  readonly behaviour?: Partial<Behaviour>
  readonly fault?: Fault
  readonly leaves?: 'before' | 'within'
  readonly maxTokens?: number
  /** The engine knows the prompt. */
  readonly isCached?: true
  /** As the client sees it. undefined: it has left. */
  readonly status: number | undefined
  /** In `messages`, if it differs. */
  readonly messagesStatus?: number
  readonly outcome: string
  readonly reason: string | null
  /** `prompt` as the engine counts it, `guessed` from the bytes of a chat. */
  readonly tokens: (prompt: number, guessed: number) => Tokens
}

const both = [false, true]
const nothing = (): Tokens => ({ input: 0, output: 0 })
const answered = { status: 200, outcome: 'answered', reason: null } as const
const broken = { status: 200, outcome: 'broken', reason: 'engine_failed', streams: [true] } as const
const failed = { status: 503, outcome: 'failed', streams: both, tokens: nothing } as const
const cut = { outcome: 'cut', reason: 'client_disconnected' } as const

const cases: readonly Case[] = [
  {
    ...answered,
    name: 'a complete answer',
    streams: both,
    tokens: (prompt) => ({ input: prompt, output: WORDS }),
  },
  {
    ...answered,
    name: 'an answer that its limit ends',
    streams: both,
    maxTokens: 2,
    tokens: (prompt) => ({ input: prompt, output: 2 }),
  },
  {
    ...answered,
    name: 'an answer to a prompt that the engine knows',
    streams: both,
    isCached: true,
    tokens: (prompt) => ({ input: prompt, cached: prompt, output: WORDS }),
  },
  {
    ...answered,
    name: 'a stream with usage in every event',
    streams: [true],
    behaviour: { usage: 'continuous' },
    tokens: (prompt) => ({ input: prompt, output: WORDS }),
  },
  {
    ...answered,
    name: 'a stream without usage, whose events count',
    streams: [true],
    behaviour: { usage: 'none' },
    tokens: (_prompt, guessed) => ({ input: guessed, output: WORDS }),
  },
  {
    ...answered,
    name: 'a plain answer without usage, whose bytes count',
    streams: [false],
    behaviour: { usage: 'none' },
    tokens: (_prompt, guessed) => ({ input: guessed, output: countTokens('word0 '.repeat(WORDS)) }),
  },
  {
    ...broken,
    name: 'a stream that the engine breaks off',
    fault: { kind: 'finish', ...partly },
    tokens: (_prompt, guessed) => ({ input: guessed, output: PART }),
  },
  {
    ...broken,
    name: 'a stream that the engine resets, which had reported usage',
    behaviour: { usage: 'continuous' },
    fault: { kind: 'reset', ...partly },
    tokens: (prompt) => ({ input: prompt, output: PART }),
  },
  {
    ...broken,
    name: 'a stream that the engine breaks off before its first word',
    fault: { kind: 'finish', afterEvents: 1 },
    tokens: (_prompt, guessed) => ({ input: guessed, output: 0 }),
  },
  {
    ...cut,
    name: 'a stream that the client leaves',
    streams: [true],
    fault: { kind: 'hang', ...partly },
    leaves: 'within',
    status: 200,
    tokens: (_prompt, guessed) => ({ input: guessed, output: PART }),
  },
  {
    ...cut,
    name: 'a request that the client leaves before its answer begins',
    streams: both,
    fault: { kind: 'hang' },
    leaves: 'before',
    status: undefined,
    tokens: nothing,
  },
  { ...failed, name: 'an engine that fails', fault: { kind: 'status', status: 500 }, reason: 'engine_failed' },
  { ...failed, name: 'an engine that resets', fault: { kind: 'reset' }, reason: 'engine_failed' },
  {
    ...failed,
    name: 'an engine that is full',
    fault: { kind: 'status', status: 429 },
    reason: 'overloaded',
    messagesStatus: 529,
  },
  { ...failed, name: 'an engine that sends no HTTP', fault: { kind: 'garbage' }, reason: 'engine_failed' },
  {
    ...failed,
    name: 'an engine that refuses the request',
    status: 400,
    fault: { kind: 'status', status: 400 },
    reason: 'rejected_by_model',
  },
]

const runs = cases.flatMap((one) =>
  one.streams.map((stream) => [`${one.name}, stream: ${stream}`, one, stream] as const),
)

interface SentRequest extends Sent {
  readonly protocol: Protocol
  readonly asked: Asked
}

async function sendAll(one: Case, stream: boolean): Promise<SentRequest[]> {
  const all: SentRequest[] = []
  for (const protocol of protocols) {
    // An engine that fails gets no requests for a while. Names have one length, and so have bodies.
    const model = await serveModel(server, { name: `test/${String(models.length).padStart(3, '0')}`, model: prices })
    models.push(model)
    const asked: Asked = { model: model.name, stream, maxTokens: one.maxTokens ?? 100, question: 'Who are you?' }
    if (one.isCached === true) await send(model, 'chat', asked)
    Object.assign(model.upstream.behaviour, one.behaviour, one.fault === undefined ? {} : { fault: one.fault })
    all.push({ protocol, asked, ...(await send(model, protocol, asked, one.leaves)) })
  }
  return all
}

describe('P1, P2: every protocol has one price and its name in the log:', () => {
  test.each(runs)('%s', (name, one, stream) => {
    for (const { protocol, asked, status, id } of requests.get(name) ?? []) {
      const record = log.find(({ requestId, model }) => (id === undefined ? model === asked.model : requestId === id))
      const prompt = messagesOf(asked).reduce((sum, message) => sum + countTokens(JSON.stringify(message)), 0)
      const guessed = Math.ceil(JSON.stringify(bodyOf('chat', asked)).length / 4)
      const { input, cached = 0, output } = one.tokens(prompt, guessed)
      expect(record).toMatchObject({
        operation: protocol,
        outcome: one.outcome,
        reason: one.reason,
        streamed: stream,
        inputUnits: input,
        cachedUnits: cached,
        outputUnits: output,
      })
      expect(status).toBe(protocol === 'messages' ? (one.messagesStatus ?? one.status) : one.status)
      const nano = (input - cached) * price.input + cached * price.cached + output * price.output
      expect(nanoOf(record)).toBe(nano)
    }
  })

  test('what Berth itself rejects costs nothing and is in no log', async () => {
    const { name: model } = models[0] as TestModel
    const poor = await server.account()
    const limited = await server.account({ usd: '1', scopes: ['billing:read'] })
    const stranger = await server.account({ usd: '1' })
    const good: Asked = { model, stream: false, maxTokens: 100, question: 'Who?' }
    for (const protocol of protocols) {
      const ask = (call: Call, asked: Asked) => call('POST', paths[protocol], bodyOf(protocol, asked))
      const isUnknown = protocol === 'chat' ? 400 : 404
      const replies = [
        [401, 'missing_key', await ask(server.anonymous, good)],
        [403, 'missing_scope', await ask(limited.call, good)],
        [402, 'insufficient_balance', await ask(poor.call, good)],
        [isUnknown, 'model_not_found', await ask(stranger.call, { ...good, model: 'nobody/nothing' })],
        [400, undefined, await ask(stranger.call, { ...good, maxTokens: 0 })],
      ] as const
      for (const [status, reason, { status: actual, body }] of replies) {
        expect([protocol, actual, body.reason]).toEqual([protocol, status, reason ?? body.reason])
      }
    }
    // One that is answered comes last, so that earlier ones would be in the log.
    await stranger.call('POST', paths.chat, bodyOf('chat', good))
    const { body } = await waitFor('the last request in the log', async () => {
      const reply = await stranger.call('GET', '/v2/usage/requests?limit=100')
      return reply.body.requests.length > 0 && reply
    })
    expect(body.requests).toHaveLength(1)
    expect((await poor.call('GET', '/v2/usage/requests?limit=100')).body.requests).toEqual([])
  })

  test('the ledger has the sum of all prices', async () => {
    const { charged, billed } = await ledger.read(customer.id)
    expect(billed.size).toBe(log.length)
    expect(charged).toBe(BigInt(log.reduce((sum, record) => sum + nanoOf(record), 0)))
    const { body } = await server.operator('GET', '/v2/operator/ledger/verify')
    expect(body).toMatchObject({ ok: true, findings: [] })
  })
})

function nanoOf(record: LoggedRequest | undefined): number {
  return Math.round(Number(record?.costUsd) * 1e9)
}

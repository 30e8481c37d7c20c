/** `/v1/messages` and `/v1/responses` beside chats: the same price, the same records, and errors in their own forms. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Agent, request } from 'undici'
import { NANO_PER_INPUT, NANO_PER_OUTPUT, serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import type { Behaviour } from './sim/model-server.ts'

let server: TestServer
let model: TestModel
let customer: { readonly id: string; readonly key: string; readonly call: Call }
beforeAll(async () => {
  server = await testServer({ runLoops: false })
  model = await serveModel(server)
  customer = await server.account({ usd: '10' })
})
beforeEach(() => void Object.assign(model.upstream.behaviour, usual))
afterAll(async () => {
  await server.close()
  await model.upstream.close()
})

const doors = {
  chat: '/v1/chat/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
} as const
type Door = keyof typeof doors

const prompt = [{ role: 'user', content: 'A question of some length' }]
/** As the simulated engine counts: four characters of a message as JSON are a token. */
const PROMPT_TOKENS = Math.ceil(JSON.stringify(prompt[0]).length / 4)
const bodyOf = (change: object = {}) => ({ model: model.name, max_tokens: 100, messages: prompt, ...change })

interface Sent {
  readonly status: number
  readonly id: string
}

interface Outcome {
  readonly costNanoUsd: number
  readonly operation: string
  readonly outcome: string
}

async function send(door: Door, stream: boolean, behaviour: Partial<Behaviour>, leaves = false): Promise<Sent> {
  Object.assign(model.upstream.behaviour, behaviour)
  // Each has a prompt of its own, so that none is cached.
  const messages = [{ ...prompt[0], content: `${prompt[0]?.content} ${String(turn++).padStart(4, '0')}` }]
  const { max_tokens: limit, messages: _asked, ...shared } = bodyOf()
  const own = door === 'responses' ? { max_output_tokens: limit, input: messages } : { max_tokens: limit, messages }
  const body = JSON.stringify({ ...shared, ...own, stream })
  const dispatcher = new Agent()
  const reply = await request(`${server.url}${doors[door]}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body,
    dispatcher,
  })
  if (leaves) {
    let text = ''
    for await (const piece of reply.body) {
      text += String(piece)
      if (text.includes('word2')) break
    }
  } else await reply.body.text()
  await dispatcher.destroy()
  return { status: reply.statusCode, id: String(reply.headers['x-inference-request-id']) }
}
let turn = 0

interface LoggedRequest {
  readonly requestId: string
  readonly operation: string
  readonly outcome: string
  readonly inputUnits: number
  readonly cachedUnits: number
}

async function findRecord(id: string): Promise<LoggedRequest> {
  let record: LoggedRequest | undefined
  await waitFor(`the record of ${id}`, async () => {
    const { body } = await customer.call('GET', '/v2/usage/requests?limit=50')
    record = body.requests.find((one: { requestId: string }) => one.requestId === id)
    return record !== undefined
  })
  return record as unknown as LoggedRequest
}

async function recordOf(id: string): Promise<Outcome> {
  const { operation, outcome } = await findRecord(id)
  const costs = await customer.call('POST', '/v2/usage/request-cost', { requestIds: [id] })
  return { costNanoUsd: costs.body.requests[0]?.costNanoUsd ?? 0, operation, outcome }
}

const usual: Partial<Behaviour> = { words: 5, intervalMs: 0, fault: undefined, usage: 'always' }
const price = (output: number): number => (PROMPT_TOKENS + 1) * NANO_PER_INPUT + output * NANO_PER_OUTPUT

interface Case {
  readonly stream: boolean
  readonly behaviour?: Partial<Behaviour>
  readonly leaves?: true
  readonly outcome: string
  readonly isPrice: (nanoUsd: number) => boolean
}

const isWhole = (nanoUsd: number): boolean => nanoUsd === price(5)
/** The prompt, estimated where the engine reports no usage, and at least a word. */
const isPartial = (nanoUsd: number): boolean => nanoUsd > price(0)
const isFree = (nanoUsd: number): boolean => nanoUsd === 0

/** Every outcome of the table in docs/customer/models.md. */
const cases: Readonly<Record<string, Case>> = {
  'a complete answer': { stream: false, outcome: 'answered', isPrice: isWhole },
  'a complete stream': { stream: true, outcome: 'answered', isPrice: isWhole },
  'a stream without usage': { stream: true, behaviour: { usage: 'none' }, outcome: 'answered', isPrice: isPartial },
  'a stream that the engine breaks': {
    stream: true,
    behaviour: { fault: { kind: 'finish', afterEvents: 4 } },
    outcome: 'broken',
    isPrice: isPartial,
  },
  'a stream that the client leaves': {
    stream: true,
    behaviour: { words: 50, fault: { kind: 'hang', afterEvents: 4 } },
    leaves: true,
    outcome: 'cut',
    isPrice: isPartial,
  },
  'an engine that fails': {
    stream: false,
    behaviour: { fault: { kind: 'status', status: 500 } },
    outcome: 'failed',
    isPrice: isFree,
  },
  'an engine that refuses': {
    stream: true,
    behaviour: { fault: { kind: 'status', status: 400 } },
    outcome: 'failed',
    isPrice: isFree,
  },
}

test('P1, P2: a request costs the same in every protocol and outcome, and is logged as what it was', async () => {
  const sent: Array<readonly [name: string, one: Case, chat: Sent, others: ReadonlyArray<readonly [Door, Sent]>]> = []
  for (const [name, one] of Object.entries(cases)) {
    const behaviour = { ...usual, ...one.behaviour }
    const chat = await send('chat', one.stream, behaviour, one.leaves)
    const others: Array<readonly [Door, Sent]> = []
    for (const door of ['messages', 'responses'] as const) {
      others.push([door, await send(door, one.stream, behaviour, one.leaves)])
    }
    sent.push([name, one, chat, others])
  }
  for (const [name, { outcome, isPrice }, chat, others] of sent) {
    const ofChat = await recordOf(chat.id)
    for (const [door, other] of others) {
      const ofOther = await recordOf(other.id)
      const expected = { name, ...ofChat, status: chat.status, operation: door }
      expect({ name, ...ofOther, status: other.status }).toEqual(expected)
    }
    expect([name, ofChat.operation, ofChat.outcome]).toEqual([name, 'chat', outcome])
    expect([name, ofChat.costNanoUsd, isPrice(ofChat.costNanoUsd)]).toEqual([name, ofChat.costNanoUsd, true])
  }
})

describe('a message', () => {
  test('P16: input plus cache counters equal the billed prompt tokens', async () => {
    const messages = [{ role: 'user', content: 'The same prompt twice' }]
    const tokens = Math.ceil(JSON.stringify(messages[0]).length / 4)
    const replies = [
      await customer.call('POST', '/v1/messages', bodyOf({ messages })),
      await customer.call('POST', '/v1/messages', bodyOf({ messages })),
    ]
    for (const [at, { body, headers }] of replies.entries()) {
      const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens } = body.usage
      const cached = at === 0 ? 0 : tokens
      expect([input_tokens, cache_read_input_tokens, cache_creation_input_tokens]).toEqual([tokens - cached, cached, 0])
      const record = await findRecord(String(headers.get('x-inference-request-id')))
      expect([record.inputUnits, record.cachedUnits]).toEqual([tokens, cached])
    }
  })

  test('P4, P18: names what it ignores, and refuses nothing that an agent of next year sends', async () => {
    const headers = { 'anthropic-beta': 'flag-of-next-year', 'anthropic-version': '2031-01-01' }
    const more = { context_management: {}, tools: [{ type: 'web_search_20310101' }], field_of_next_year: [{}] }
    const reply = await customer.call('POST', '/v1/messages?beta=true', bodyOf(more), headers)
    expect(reply.status).toBe(200)
    expect(reply.headers.get('x-berth-ignored')).toBe('context_management, field_of_next_year, web_search_20310101')
    expect(reply.headers.get('request-id')).toBe(reply.headers.get('x-inference-request-id'))
  })

  test('has errors in its own form, also before its body is read', async () => {
    const cases: Array<[Call, object, number, string]> = [
      [server.anonymous, {}, 401, 'authentication_error'],
      [customer.call, { max_tokens: undefined }, 400, 'invalid_request_error'],
      [customer.call, { messages: [{ role: 'user', content: [{ type: 'text' }] }] }, 400, 'invalid_request_error'],
      [customer.call, { model: 'nobody/nothing' }, 404, 'not_found_error'],
    ]
    for (const [call, change, status, type] of cases) {
      const reply = await call('POST', '/v1/messages', bodyOf(change))
      expect([reply.status, reply.body.type, reply.body.error.type]).toEqual([status, 'error', type])
      expect(reply.body.request_id).toBe(reply.headers.get('request-id'))
    }
    const broken = await customer.call('POST', '/v1/messages', '{"model":')
    expect([broken.status, broken.body.error.type]).toEqual([400, 'invalid_request_error'])
    const { body } = await customer.call('POST', '/v1/messages', bodyOf({ max_tokens: undefined, messages: [] }))
    expect(body.error.message).toMatch(/messages: .*; max_tokens: /)
  })

  test.each([
    [{ kind: 'status', status: 429 }, 529, 'overloaded_error'],
    [{ kind: 'hang' }, 504, 'timeout_error'],
    [{ kind: 'status', status: 503 }, 503, 'api_error'],
  ] as const)('an engine with %j is %i %s', async (fault, status, type) => {
    // One of its own: an engine that fails gets no requests for a while.
    const faulty = await serveModel(server, {
      name: `test/${type}`,
      behaviour: { fault },
      deployment: { firstByteMs: 200 },
    })
    const reply = await customer.call('POST', '/v1/messages', bodyOf({ model: faulty.name }))
    await faulty.upstream.close()
    expect([reply.status, reply.body.error.type]).toEqual([status, type])
  })

  test('P21: a prompt that does not fit is 400 `prompt is too long`', async () => {
    const error = { message: "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens." }
    model.upstream.behaviour.faultsOnce.push({ kind: 'status', status: 400, body: JSON.stringify({ error }) })
    const { status, body } = await customer.call('POST', '/v1/messages', bodyOf())
    expect([status, body.error.type]).toEqual([400, 'invalid_request_error'])
    expect(body.error.message).toMatch(/^prompt is too long: This model's maximum context length is 8192 tokens/)
  })
})

describe('count_tokens', () => {
  const count = async (tokenizer: Behaviour['tokenizer']) => {
    model.upstream.behaviour.tokenizer = tokenizer
    const { max_tokens: _limit, ...body } = bodyOf()
    const { body: counted, headers } = await customer.call('POST', '/v1/messages/count_tokens', body)
    return [counted.input_tokens, headers.get('x-berth-token-count')]
  }

  test('P20: an exact count equals the prompt tokens of the same request; the rest is an estimate, and free', async () => {
    const { body } = await customer.call('POST', '/v1/messages', bodyOf())
    const tokens = body.usage.input_tokens + body.usage.cache_read_input_tokens
    const before = await customer.call('GET', '/v2/usage/requests?limit=1')
    expect(await count('vllm')).toEqual([tokens, 'exact'])
    expect(await count('llama')).toEqual([tokens, 'exact'])
    const [estimate, kind] = await count('none')
    expect(kind).toBe('estimate')
    expect(Math.abs(Number(estimate) - JSON.stringify(prompt).length / 4)).toBeLessThan(2)
    const after = await customer.call('GET', '/v2/usage/requests?limit=1')
    expect(after.body.requests).toEqual(before.body.requests)
  })

  test('refuses models that the key may not use', async () => {
    const { status, body } = await customer.call(
      'POST',
      '/v1/messages/count_tokens',
      bodyOf({ model: 'nobody/nothing' }),
    )
    expect([status, body.error.type]).toEqual([404, 'not_found_error'])
  })
})

/** `/v1/messages` at a server: usage, what it ignores, errors in its own form, and counts of tokens. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { serveModel, type TestModel } from './harness/inference.ts'
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

const prompt = [{ role: 'user', content: 'A question of some length' }]
const bodyOf = (change: object = {}) => ({ model: model.name, max_tokens: 100, messages: prompt, ...change })

interface LoggedRequest {
  readonly requestId: string
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

const usual: Partial<Behaviour> = { words: 5, intervalMs: 0, fault: undefined, usage: 'always' }

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

  test.each(['call_1', 'toolu_01', '0', `chatcmpl-tool-${'x'.repeat(200)}`, 'functions.look:0', 'a b/ü+"='])(
    'P18: the call id %j of a server returns unchanged',
    async (id) => {
      const call = { id, type: 'function', function: { name: 'look', arguments: '{}' } }
      const choice = { message: { content: null, tool_calls: [call] }, finish_reason: 'tool_calls' }
      model.upstream.behaviour.faultsOnce.push({
        kind: 'status',
        status: 200,
        body: JSON.stringify({ choices: [choice] }),
      })
      const { body } = await customer.call('POST', '/v1/messages', bodyOf())
      expect(body.content).toMatchObject([{ type: 'tool_use', id, name: 'look', input: {} }])
      const result = { type: 'tool_result', tool_use_id: id, content: 'Nothing.' }
      const history = [...prompt, { role: 'assistant', content: body.content }, { role: 'user', content: [result] }]
      expect((await customer.call('POST', '/v1/messages', bodyOf({ messages: history }))).status).toBe(200)
      const { messages } = JSON.parse(model.upstream.requests.at(-1)?.body.toString() ?? '')
      expect(messages.slice(1)).toMatchObject([{ tool_calls: [call] }, { role: 'tool', tool_call_id: id }])
    },
  )

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

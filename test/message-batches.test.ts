/** Batches of messages, with the clients of Anthropic: a second door to the batches of batches.test.ts. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addMs, DAY_MS, instantOf, type Instant } from '../src/base/instant.ts'
import { limits } from '../src/base/limits.ts'
import { runBatches } from '../src/server/batch/batch-loop.ts'
import { batchModelPrices as prices, chatLine, createBatch, endOfBatch } from './harness/batch.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

// Types differ by version; `expect` is the check.
// eslint-disable-next-line typescript/no-explicit-any
type Loose = any

interface Client {
  readonly messages: {
    readonly batches: {
      create(body: object, options?: object): Promise<Loose>
      retrieve(id: string): Promise<Loose>
      list(query?: object): AsyncIterable<Loose>
      cancel(id: string): Promise<Loose>
      delete(id: string): Promise<Loose>
      results(id: string): Promise<AsyncIterable<Loose>>
    }
  }
}
interface Sdk {
  readonly default: new (options: { baseURL: string; apiKey: string; maxRetries: number }) => Client
}

let server: TestServer
let chat: TestModel
let embedder: TestModel
let customer: Awaited<ReturnType<TestServer['account']>>

beforeAll(async () => {
  server = await testServer()
  customer = await server.account({ usd: '1' })
  chat = await serveModel(server, { name: 'chatter', model: prices })
  embedder = await serveModel(server, { name: 'embedder', model: { kind: 'embedding', ...prices } })
})
afterAll(async () => {
  await Promise.all([chat, embedder].map(({ upstream }) => upstream.close()))
  await server.close()
})

const paramsOf = (id: number, more: object = {}) => ({
  model: 'chatter',
  max_tokens: 10,
  messages: [{ role: 'user', content: `question ${id}` }],
  ...more,
})
const requestOf = (id: number, more: object = {}) => ({ custom_id: `request-${id}`, params: paramsOf(id, more) })
const requestsOf = (count: number, more: object = {}) => Array.from({ length: count }, (_, id) => requestOf(id, more))
const create = (body: object, headers: Record<string, string> = {}) =>
  customer.call('POST', '/v1/messages/batches', body, headers)

async function resultsOf({ key }: { readonly key: string }, id: string, at = server): Promise<Loose[]> {
  const headers = { 'x-api-key': key }
  const reply = await fetch(`${at.url}/v1/messages/batches/${id}/results`, { headers })
  expect(reply.status).toBe(200)
  return (await reply.text())
    .trimEnd()
    .split('\n')
    .map((line): Loose => JSON.parse(line))
}

const endOf = (id: string): Promise<Loose> =>
  waitFor('the batch to end', async () => {
    const { body } = await customer.call('GET', `/v1/messages/batches/${id}`)
    return body.processing_status === 'ended' && body
  })

const none = { processing: 0, succeeded: 0, errored: 0, canceled: 0, expired: 0 }

describe.each(['anthropic-sdk-0', 'anthropic-sdk-1'])('P14, P22: %s', (name) => {
  test('runs a batch; each request has one result; the charge is their sum at the batch price', async () => {
    const { default: Anthropic } = (await import(name)) as Sdk
    const { batches } = new Anthropic({ baseURL: server.url, apiKey: customer.key, maxRetries: 0 }).messages
    // A model without eyes cannot answer this: valid, but not answered.
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }
    const blind = requestOf(100, { messages: [{ role: 'user', content: [image] }] })
    const made = await batches.create({ requests: [...requestsOf(20), blind] })
    expect(made).toMatchObject({
      type: 'message_batch',
      processing_status: 'in_progress',
      request_counts: { ...none, processing: 21 },
      ended_at: null,
      results_url: null,
    })
    expect(Date.parse(made.expires_at) - Date.parse(made.created_at)).toBe(limits.batchMs)
    const ended = await waitFor('the batch to end', async () => {
      const batch = await batches.retrieve(made.id)
      return batch.processing_status === 'ended' && batch
    })
    expect(ended.request_counts).toEqual({ ...none, succeeded: 20, errored: 1 })
    const results: Loose[] = []
    for await (const one of await batches.results(made.id)) results.push(one)
    expect(new Set(results.map(({ custom_id: id }) => id))).toEqual(
      new Set([...requestsOf(20), blind].map(({ custom_id: id }) => id)),
    )
    expect(results).toHaveLength(21)
    const succeeded = results.filter(({ result }) => result.type === 'succeeded').map(({ result }) => result.message)
    expect(succeeded[0]).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: 'chatter',
      stop_reason: 'end_turn',
    })
    const errored = results.find(({ custom_id: id }) => id === 'request-100').result
    expect(errored).toMatchObject({
      type: 'errored',
      error: { type: 'error', error: { type: 'invalid_request_error' } },
    })
    // Half of 4 and 6 nano-dollars per token.
    const cost = succeeded.reduce((sum, { usage }) => {
      const input = usage.input_tokens + usage.cache_read_input_tokens
      return sum + 2 * input + 3 * usage.output_tokens
    }, 0)
    const { body } = await customer.call('GET', `/v1/batches/${made.id}`)
    expect([body.endpoint, Math.round(Number(body.cost_usd) * 1e9)]).toEqual(['/v1/messages', cost])
    expect((await server.operator('GET', '/v2/operator/ledger/verify')).body).toMatchObject({ ok: true, findings: [] })

    const listed: string[] = []
    for await (const { id } of batches.list({ limit: 1 })) listed.push(id)
    expect(listed[0]).toBe(made.id)
    const { body: before } = await customer.call('GET', `/v1/messages/batches?before_id=${listed.at(-1)}&limit=1000`)
    expect([before.data.map(({ id }: { id: string }) => id), before.has_more]).toEqual([listed.slice(0, -1), false])

    expect(await batches.delete(made.id)).toEqual({ id: made.id, type: 'message_batch_deleted' })
    expect((await customer.call('GET', `/v1/messages/batches/${made.id}`)).body.reason).toBe('batch_not_found')
    const files = (await customer.call('GET', '/v1/files')).body.data as Array<{ id: string }>
    const own = [body.input_file_id, body.output_file_id, body.error_file_id]
    expect(own.every((id) => typeof id === 'string' && !files.some((file) => file.id === id))).toBe(true)
  })
})

test('P26: what is wrong with a request is named at once, and costs nothing', async () => {
  const before = await customer.call('GET', '/v1/files')
  const cases: ReadonlyArray<readonly [ReadonlyArray<object>, number, RegExp]> = [
    [[], 400, /^requests: /],
    [[requestOf(1), requestOf(1)], 400, /^requests\.1\.custom_id: /],
    [[requestOf(1), requestOf(2, { model: 'embedder' })], 400, /^requests\.1\.params\.model: /],
    [[requestOf(1), requestOf(2, { max_tokens: undefined })], 400, /^requests\.1\.params\.max_tokens: /],
    [[requestOf(1, { stream: true })], 400, /^requests\.0\.params\.stream: /],
    [[{ ...requestOf(1), custom_id: '' }], 400, /^requests\.0\.custom_id: /],
    [[requestOf(1, { model: 'nobody/nothing' })], 404, /nobody\/nothing/],
    [[requestOf(1, { model: 'embedder' })], 400, /embedder/],
  ]
  for (const [requests, status, message] of cases) {
    const reply = await create({ requests })
    expect([reply.status, reply.body.type, reply.body.error.message]).toEqual([
      status,
      'error',
      expect.stringMatching(message),
    ])
  }
  const { key } = (
    await customer.call('POST', '/v2/api-keys', { name: 'a', scopes: ['inference'], allowedModels: ['embedder'] })
  ).body
  const refused = await server.as(key)('POST', '/v1/messages/batches', { requests: requestsOf(1) })
  expect([refused.status, refused.body.reason]).toEqual([403, 'model_not_allowed'])
  expect((await customer.call('GET', '/v1/files')).body).toEqual(before.body)
})

test('P25: a cancelled batch keeps and charges its answers, and names the requests without', async () => {
  const slow = await serveModel(server, { name: 'slow', model: prices, deployment: { concurrency: 5 } })
  slow.upstream.behaviour.latencyMs = 200
  const { id } = (await create({ requests: requestsOf(100, { model: 'slow' }) })).body
  await waitFor('some answers', async () => {
    const { body } = await customer.call('GET', `/v1/batches/${id}`)
    return body.request_counts.completed > 0
  })
  for (const path of [`/v1/messages/batches/${id}/results`, `/v1/messages/batches/${id}`]) {
    const method = path.endsWith('results') ? 'GET' : 'DELETE'
    const { status, body } = await customer.call(method, path)
    expect([status, body.reason]).toEqual([400, 'batch_not_ended'])
  }
  const cancelled = (await customer.call('POST', `/v1/messages/batches/${id}/cancel`)).body
  expect([cancelled.processing_status, cancelled.request_counts]).toEqual(['canceling', { ...none, processing: 100 }])
  expect(cancelled.cancel_initiated_at).not.toBeNull()
  const ended = await endOf(id)
  await slow.upstream.close()
  const results = await resultsOf(customer, id)
  const count = (type: string): number => results.filter(({ result }) => result.type === type).length
  expect(ended.request_counts).toEqual({ ...none, succeeded: count('succeeded'), canceled: count('canceled') })
  expect([count('succeeded') > 0, count('canceled') > 0, results.length]).toEqual([true, true, 100])
  expect(new Set(results.map(({ custom_id: one }) => one)).size).toBe(100)
  const late = await customer.call('POST', `/v1/messages/batches/${id}/cancel`)
  expect([late.status, late.body.reason]).toEqual([400, 'batch_has_ended'])
})

test('batches of others and of chats do not exist here', async () => {
  const other = await server.account({ usd: '1' })
  const { id } = (await create({ requests: requestsOf(1) })).body
  const chats = await createBatch(customer.call, [chatLine(1)])
  const paths = (one: string) =>
    [
      ['GET', `/v1/messages/batches/${one}`],
      ['GET', `/v1/messages/batches/${one}/results`],
      ['POST', `/v1/messages/batches/${one}/cancel`],
      ['DELETE', `/v1/messages/batches/${one}`],
      ['GET', `/v1/messages/batches?after_id=${one}`],
    ] as const
  await endOfBatch(customer.call, chats.id)
  for (const [call, one] of [
    [other.call, id],
    [customer.call, chats.id],
  ] as const) {
    for (const [method, path] of paths(one)) {
      const { status, body } = await call(method, path)
      expect([path, status, body.reason]).toEqual([path, 404, 'batch_not_found'])
    }
  }
  expect((await other.call('GET', '/v1/messages/batches')).body).toEqual({
    data: [],
    first_id: null,
    last_id: null,
    has_more: false,
  })
  await endOf(id)
})

test('P28: a create repeated with its Idempotency-Key is one batch, with one file', async () => {
  const headers = { 'Idempotency-Key': 'message-batch-1' }
  const body = { requests: requestsOf(2) }
  const [one, two] = [await create(body, headers), await create(body, headers)]
  expect([one.status, one.body.id]).toEqual([200, two.body.id])
  expect((await create({ requests: requestsOf(3) }, headers)).body.reason).toBe('idempotency_key_reused')
  const files = (await customer.call('GET', '/v1/files?purpose=batch&limit=1')).body.data as Array<{ id: string }>
  expect((await customer.call('GET', `/v1/batches/${one.body.id}`)).body.input_file_id).toBe(files[0]?.id)
  await endOf(one.body.id)
})

describe('a batch whose requests were never begun', () => {
  let now: Instant = instantOf(Date.parse('2026-11-18T12:00:00Z'))
  let idle: TestServer
  let model: TestModel
  let account: Awaited<ReturnType<TestServer['account']>>
  beforeAll(async () => {
    idle = await testServer({ runLoops: false, clock: { now: () => now } })
    model = await serveModel(idle, { name: 'chatter', model: prices })
    account = await idle.account({ usd: '1' })
  })
  afterAll(async () => {
    await model.upstream.close()
    await idle.close()
  })
  const refusal = { code: 'model_not_found', message: 'The model was deleted.', param: 'body.model' }
  const runLoop = (isRefused: boolean): Promise<unknown> =>
    runBatches(idle.app, async () => (isRefused ? refusal : undefined)).run(new AbortController().signal)
  const begin = async (): Promise<string> =>
    (await account.call('POST', '/v1/messages/batches', { requests: requestsOf(3) })).body.id
  const read = async (id: string): Promise<Loose> => (await account.call('GET', `/v1/messages/batches/${id}`)).body
  const ids = requestsOf(3).map(({ custom_id: id }) => id)

  test('because it was cancelled before has them all as canceled', async () => {
    const id = await begin()
    await account.call('POST', `/v1/messages/batches/${id}/cancel`)
    await runLoop(false)
    expect((await read(id)).request_counts).toEqual({ ...none, canceled: 3 })
    const results = await resultsOf(account, id, idle)
    expect(results).toEqual(ids.map((custom_id) => ({ custom_id, result: { type: 'canceled' } })))
  })

  test('because its model has gone has them all as errored, until its results are deleted', async () => {
    const id = await begin()
    await runLoop(true)
    expect(await read(id)).toMatchObject({
      processing_status: 'ended',
      request_counts: { ...none, errored: 3 },
      archived_at: null,
      results_url: `${idle.url}/v1/messages/batches/${id}/results`,
    })
    const error = { type: 'invalid_request_error', message: refusal.message }
    const results = await resultsOf(account, id, idle)
    const result = { type: 'errored', error: { type: 'error', error, request_id: null } }
    expect(results).toEqual(ids.map((custom_id) => ({ custom_id, result })))
    const endedAt = now
    now = addMs(endedAt, limits.fileDays * DAY_MS - 1)
    expect((await read(id)).archived_at).toBeNull()
    now = addMs(now, 1)
    expect(await read(id)).toMatchObject({ archived_at: new Date(now).toISOString(), results_url: null })
  })
})

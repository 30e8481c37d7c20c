/** Batches, as clients use them: each line is answered in one of two files, and charged once, at the batch price. */
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { limits } from '../src/base/limits.ts'
import {
  batchCost,
  batchModelPrices as prices,
  chatLine as request,
  createBatch,
  endOfBatch as endOf,
  linesText as textOf,
  readResultLines as read,
  resultsOf as readResults,
} from './harness/batch.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

let server: TestServer
let chat: TestModel
let embedder: TestModel
let customer: Awaited<ReturnType<TestServer['account']>>
let client: OpenAI

beforeAll(async () => {
  server = await testServer()
  customer = await server.account({ usd: '1' })
  chat = await serveModel(server, { name: 'chatter', model: prices })
  embedder = await serveModel(server, { name: 'embedder', model: { kind: 'embedding', ...prices } })
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: customer.key, maxRetries: 0 })
})
afterAll(async () => {
  await Promise.all([chat, embedder].map(({ upstream }) => upstream.close()))
  await server.close()
})

type Customer = Pick<Awaited<ReturnType<TestServer['account']>>, 'key'>
const resultsOf = ({ key }: Customer, batch: Parameters<typeof readResults>[1]) =>
  readResults({ url: server.url, key }, batch)

const verified = async (): Promise<void> => {
  const { body } = await server.operator('GET', '/v2/operator/ledger/verify')
  expect(body).toMatchObject({ ok: true, findings: [] })
}

describe('P22: a batch', { timeout: 900_000 }, () => {
  test('P22: the npm client runs 1,000 lines; each id is in one file; the charge is their sum at the batch price', async () => {
    const lines = Array.from({ length: 1_000 }, (_, id) => request(id, id % 10 === 9 ? { max_tokens: 100_000 } : {}))
    // A tenth asks for images, which this model does not take: valid, but not answered.
    const odd = lines.map((line, id) =>
      id % 10 === 9
        ? request(id, {
            messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a' } }] }],
          })
        : line,
    )
    const file = await client.files.create({
      file: await toFile(Buffer.from(textOf(odd)), 'a.jsonl'),
      purpose: 'batch',
    })
    const batch = await client.batches.create({
      input_file_id: file.id,
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
      metadata: { made: 'by a test' },
    })
    expect(batch).toMatchObject({ object: 'batch', status: 'validating', metadata: { made: 'by a test' } })
    const done = await waitFor(
      'the batch to end',
      async () => {
        const now = await client.batches.retrieve(batch.id)
        return now.status === 'completed' && now
      },
      600_000,
    )
    expect(done).toMatchObject({ status: 'completed', request_counts: { total: 1_000, completed: 900, failed: 100 } })
    const output = read(await (await client.files.content(done.output_file_id ?? '')).text())
    const errors = read(await (await client.files.content(done.error_file_id ?? '')).text())
    expect(output).toHaveLength(900)
    expect(new Set([...output, ...errors].map((line) => line.custom_id)).size).toBe(1_000)
    expect(errors.every(({ response }) => response?.status_code === 400)).toBe(true)
    const { cost_usd: charged } = (await customer.call('GET', `/v1/batches/${batch.id}`)).body
    expect(Math.round(Number(charged) * 1e9)).toBe(batchCost(output))
    await verified()
    expect((await client.batches.list({ limit: 1 })).data[0]?.id).toBe(batch.id)
  })

  test('embeddings are lines too', async () => {
    const lines = [0, 1].map((id) => ({
      ...request(id, {}, '/v1/embeddings'),
      body: { model: 'embedder', input: 'a' },
    }))
    const batch = await endOf(
      customer.call,
      (await createBatch(customer.call, lines, { endpoint: '/v1/embeddings' })).id,
    )
    expect(batch.request_counts).toEqual({ total: 2, completed: 2, failed: 0 })
    const { output } = await resultsOf(customer, batch)
    expect(output[0]?.response?.body.data[0]?.object).toBe('embedding')
  })
})

describe('P26: validation', () => {
  const faultsOf = async (lines: readonly unknown[] | string, more: object = {}): Promise<unknown> => {
    const batch = await endOf(customer.call, (await createBatch(customer.call, lines, more)).id)
    expect([batch.status, batch.request_counts?.total, Number(batch.cost_usd)]).toEqual(['failed', 0, 0])
    return batch.errors?.data?.map(({ code, line, param }) => [code, line, param])
  }

  test('P26: invalid lines fail it, each with its number, free of charge', async () => {
    const untouched = await serveModel(server, { name: 'untouched', model: prices })
    const ask = (id: number, more: object = {}) => request(id, { model: 'untouched', ...more })
    const lines = [
      JSON.stringify(ask(1)),
      'not JSON',
      '',
      JSON.stringify({ ...ask(2), custom_id: '' }),
      JSON.stringify({ ...ask(3), url: '/v1/embeddings' }),
      JSON.stringify({ ...ask(4), method: 'GET' }),
      JSON.stringify(ask(1)),
      JSON.stringify(ask(5, { model: 'embedder' })),
      JSON.stringify(ask(6, { messages: 'a text' })),
      JSON.stringify(ask(7, { stream: true })),
      JSON.stringify({ ...ask(8), more: 1 }),
      JSON.stringify({ ...ask(9), body: { messages: [] } }),
    ]
    expect(await faultsOf(lines.join('\n'))).toEqual([
      ['invalid_json_line', 2, null],
      ['invalid_custom_id', 4, 'custom_id'],
      ['mismatched_url', 5, 'url'],
      ['invalid_method', 6, 'method'],
      ['duplicate_custom_id', 7, 'custom_id'],
      ['mismatched_model', 8, 'body.model'],
      ['invalid_request', 9, 'body.messages'],
      ['invalid_request', 10, 'body.stream'],
      ['unknown_field', 11, 'more'],
      ['missing_model', 12, 'body.model'],
    ])
    expect(untouched.upstream.received).toBe(0)
    await untouched.upstream.close()
  })

  test('P26: files without lines, with too many, for an unknown model, or for one of another kind', async () => {
    expect(await faultsOf('\n\n')).toEqual([['empty_file', null, 'input_file_id']])
    expect(await faultsOf([request(1, { model: 'nobody/knows' })])).toEqual([['model_not_found', 1, 'body.model']])
    expect(await faultsOf([request(1, { model: 'embedder' })])).toEqual([['wrong_model_kind', 1, 'body.model']])
    const tooMany = Array.from({ length: limits.batchLines + 1 }, (_, id) => request(id))
    expect(await faultsOf(tooMany)).toEqual([['too_many_lines', null, 'input_file_id']])
  })

  test('files of others, results and unknown ones are no input; batches of others do not exist', async () => {
    const other = await server.account()
    const { id, input_file_id: input } = await createBatch(customer.call, [request(1)])
    const create = (call: Call, file: string) =>
      call('POST', '/v1/batches', { input_file_id: file, endpoint: '/v1/chat/completions', completion_window: '24h' })
    expect((await create(other.call, input)).body.reason).toBe('stored_file_not_found')
    expect((await other.call('GET', `/v1/batches/${id}`)).status).toBe(404)
    expect((await other.call('POST', `/v1/batches/${id}/cancel`)).body.reason).toBe('batch_not_found')
    expect((await other.call('GET', '/v1/batches')).body.data).toEqual([])
    const { output_file_id: output } = await endOf(customer.call, id)
    expect((await create(customer.call, output ?? '')).body.reason).toBe('not_batch_input')
    expect((await customer.call('POST', `/v1/batches/${id}/cancel`)).body.reason).toBe('batch_has_ended')
  })
})

describe('P25: an early end', () => {
  test('P25: cancelling keeps and charges the lines that have an answer', async () => {
    const slow = await serveModel(server, { name: 'slow', model: prices, deployment: { concurrency: 5 } })
    slow.upstream.behaviour.latencyMs = 200
    const lines = Array.from({ length: 200 }, (_, id) => request(id, { model: 'slow' }))
    const { id, input_file_id: input } = await createBatch(customer.call, lines)
    await waitFor('some lines to be answered', async () => {
      const { body } = await customer.call('GET', `/v1/batches/${id}`)
      return body.request_counts.completed > 0
    })
    expect((await customer.call('DELETE', `/v1/files/${input}`)).body.reason).toBe('file_in_use')
    expect((await customer.call('POST', `/v1/batches/${id}/cancel`)).body.status).toBe('cancelling')
    const batch = await endOf(customer.call, id)
    // Four fifths of the slots.
    expect(slow.upstream.peakInFlight).toBeLessThanOrEqual(4)
    await slow.upstream.close()
    const { output, errors } = await resultsOf(customer, batch)
    expect(batch.status).toBe('cancelled')
    expect(output).toHaveLength(batch.request_counts?.completed ?? -1)
    expect(errors.length).toBeGreaterThan(0)
    expect(errors.every(({ error }) => error?.code === 'batch_cancelled')).toBe(true)
    const ids = [...output, ...errors].map((line) => line.custom_id)
    expect(ids.sort()).toEqual(lines.map((line) => line.custom_id).sort())
    expect(Math.round(Number(batch.cost_usd) * 1e9)).toBe(batchCost(output))
    const { body } = await customer.call('GET', `/v2/usage/requests/${output[0]?.response?.request_id}`)
    expect([body.operation, body.batchId]).toEqual(['chat', id])
    await verified()
  })
})

describe('P28: money', () => {
  test('P28: without money a batch waits, and a payment resumes it', async () => {
    const poor = await server.account({ usd: '0.000000001' })
    const { id } = await createBatch(poor.call, [request(1), request(2)])
    const waiting = await waitFor('the batch to wait for money', async () => {
      const { body } = await poor.call('GET', `/v1/batches/${id}`)
      return body.waiting_for === 'money' && body
    })
    expect(waiting).toMatchObject({ status: 'in_progress', request_counts: { total: 2, completed: 0, failed: 0 } })
    await server.operator('POST', `/v2/operator/accounts/${poor.id}/credit`, { amountUsd: '1', reason: 'paid' })
    const batch = await endOf(poor.call, id)
    expect([batch.status, batch.request_counts?.completed]).toEqual(['completed', 2])
    const { output } = await resultsOf(poor, batch)
    expect(Math.round(Number(batch.cost_usd) * 1e9)).toBe(batchCost(output))
    await verified()
  })

  test("P28: a key's limit is never exceeded", async () => {
    const owner = await server.account({ usd: '1' })
    // The most that a line of ten tokens of output can cost is below a thousandth of a cent.
    const { body: made } = await owner.call('POST', '/v2/api-keys', {
      name: 'capped',
      scopes: ['inference'],
      totalLimitUsd: '0.000002',
    })
    const call = server.as(made.key)
    const lines = Array.from({ length: 100 }, (_, id) => request(id, { max_tokens: 10 }))
    const { id } = await createBatch(call, lines)
    await waitFor('the batch to reach the limit', async () => {
      const { body } = await call('GET', `/v1/batches/${id}`)
      return body.waiting_for === 'money' && body.request_counts.completed > 0
    })
    await call('POST', `/v1/batches/${id}/cancel`)
    const batch = await endOf(call, id)
    const nano = Math.round(Number(batch.cost_usd) * 1e9)
    expect(batch.request_counts?.completed).toBeLessThan(100)
    expect(nano).toBeGreaterThan(0)
    expect(nano).toBeLessThanOrEqual(2_000)
    await verified()
  })

  test('P28: a create repeated with its Idempotency-Key is one batch', async () => {
    const form = new FormData()
    form.set('file', new Blob([textOf([request(1)])]), 'a.jsonl')
    form.set('purpose', 'batch')
    const { body: file } = await customer.call('POST', '/v1/files', form)
    const body = { input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h' }
    const create = (more: object = {}) =>
      customer.call('POST', '/v1/batches', { ...body, ...more }, { 'Idempotency-Key': 'batch-1' })
    const [one, two] = [await create(), await create()]
    expect(one.body.id).toBe(two.body.id)
    expect((await create({ metadata: { a: 'b' } })).body.reason).toBe('idempotency_key_reused')
  })

  test("the discount of a model is the operator's, shown with its prices", async () => {
    const shown = async () => (await customer.call('GET', '/v1/models/discounted')).body
    const model = await serveModel(server, { name: 'discounted', model: { ...prices, batchDiscountPercent: 30 } })
    // 4,000 and 6,000 nano-dollars per million, less 30 %.
    expect(await shown()).toMatchObject({ batch_input_price: 0.0028, batch_output_price: 0.0042 })
    await server.operator('PATCH', '/v2/operator/models?name=discounted', { batchDiscountPercent: 100 })
    await waitFor('the new price', async () => (await shown()).batch_input_price === 0)
    const { id } = await createBatch(customer.call, [request(1, { model: 'discounted' })])
    expect(await endOf(customer.call, id)).toMatchObject({ status: 'completed', cost_usd: '0.000000000' })
    await model.upstream.close()
  })
})

/** A chat from client to engine to ledger, on both paths. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { NANO_PER_INPUT, NANO_PER_OUTPUT, serveModel, type TestModel } from '../harness/inference.ts'
import { testServer, type Call, type TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

let server: TestServer
let model: TestModel
let ada: { id: string; key: string; call: Call }
beforeAll(async () => {
  server = await testServer({ runLoops: false })
  model = await serveModel(server)
  ada = await server.account({ usd: '1' })
  await waitFor('the model is served', async () => (await ada.call('GET', '/v1/models')).body.data.length === 1)
})
afterAll(async () => {
  await server.close()
  await model.upstream.close()
})

const messages = [{ role: 'user', content: 'Say five words' }]

/** The fast path accepts only the usual spelling of this content type. */
const paths = [
  ['the fast path', {}],
  ['the full path', { contentType: 'application/json;charset=utf-8' }],
] as const

interface Chunk {
  model: string
  choices: Array<{ delta: object; finish_reason: string | null }>
  usage?: unknown
}

async function chat(
  { contentType = 'application/json', ...body }: { contentType?: string } & Record<string, unknown>,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(`${server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': contentType, authorization: `Bearer ${ada.key}`, ...headers },
    body: JSON.stringify(body),
  })
}

async function costOf(response: Response): Promise<number | undefined> {
  const requestId = response.headers.get('x-inference-request-id') ?? ''
  expect(requestId).toMatch(/^req_[0-9a-f]{32}$/)
  const costs = await ada.call('POST', '/v2/usage/request-cost', { requestIds: [requestId] })
  return costs.body.requests[0]?.costNanoUsd as number | undefined
}

describe.each(paths)('by %s', (_path, more) => {
  test('a plain answer has our id, our model name and an exact cost immediately', async () => {
    const response = await chat({ model: model.name, messages, ...more })
    const body = (await response.json()) as Record<string, unknown>
    expect(response.status).toBe(200)
    expect(body).toMatchObject({ object: 'chat.completion', model: model.name, choices: [{ finish_reason: 'stop' }] })
    expect(body['id']).toMatch(/^chatcmpl-[0-9a-f]{32}$/)
    const usage = body['usage'] as { prompt_tokens: number; completion_tokens: number }
    expect(await costOf(response)).toBe(
      usage.prompt_tokens * NANO_PER_INPUT + usage.completion_tokens * NANO_PER_OUTPUT,
    )
    const sent = JSON.parse(model.upstream.requests.at(-1)?.body.toString() ?? '') as object
    expect(sent).toMatchObject({ model: 'their-name', messages })
  })

  test('a stream has a role, content, finish reason and [DONE]; usage only on request', async () => {
    const response = await chat({ model: model.name, messages, stream: true, ...more })
    const events = (await response.text()).split('\n\n').filter(Boolean)
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(events.at(-1)).toBe('data: [DONE]')
    const chunks = events.slice(0, -1).map((event) => JSON.parse(event.slice(6)) as Chunk)
    expect(chunks[0]?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' })
    expect(chunks.at(-1)?.choices[0]).toMatchObject({ delta: {}, finish_reason: 'stop' })
    expect(chunks.every((chunk) => chunk.usage === undefined && chunk.model === model.name)).toBe(true)
    const asked = await chat({
      model: model.name,
      messages,
      stream: true,
      stream_options: { include_usage: true },
      ...more,
    })
    const last = (await asked.text()).split('\n\n').filter(Boolean).at(-2)
    const { usage } = JSON.parse(last?.slice(6) ?? '') as {
      usage: { prompt_tokens: number; completion_tokens: number }
    }
    expect(await costOf(response)).toBe(
      usage.prompt_tokens * NANO_PER_INPUT + usage.completion_tokens * NANO_PER_OUTPUT,
    )
    expect(await costOf(asked)).toBe(await costOf(response))
  })

  test('a failure is free and has a reason', async () => {
    model.upstream.behaviour.fault = {
      kind: 'status',
      status: 400,
      body: '{"error":{"message":"too hot","param":"temperature"}}',
    }
    const refused = await chat({ model: model.name, messages, ...more })
    expect([refused.status, await costOf(refused)]).toEqual([400, 0])
    expect(await refused.json()).toMatchObject({ error: { message: 'too hot', param: 'temperature' } })
    model.upstream.behaviour.fault = { kind: 'status', status: 500 }
    const broken = await chat({ model: model.name, messages, ...more })
    model.upstream.behaviour.fault = undefined
    expect([broken.status, await costOf(broken)]).toEqual([503, 0])
    expect(broken.headers.get('retry-after')).toMatch(/^\d+$/)
  })

  test('passes a trace header on to the engine', async () => {
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
    await (
      await chat({ model: model.name, messages, ...more }, { traceparent: `00-${traceId}-00f067aa0ba902b7-01` })
    ).text()
    expect(model.upstream.requests.at(-1)?.headers['traceparent']).toMatch(
      new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`),
    )
  })
})

test('names an unknown model, and the connection continues on the full path', async () => {
  const response = await chat({ model: 'nobody/nothing', messages })
  expect([response.status, await response.json()]).toMatchObject([400, { reason: 'model_not_found', param: 'model' }])
})

test('every request is in the account’s log and once in the ledger', async () => {
  const response = await chat({ model: model.name, messages })
  await response.text()
  const requestId = response.headers.get('x-inference-request-id') ?? ''
  const logged = await waitFor('the log has it', async () => {
    const one = await ada.call('GET', `/v2/usage/requests/${requestId}`)
    return one.status === 200 && one.body
  })
  expect(logged).toMatchObject({ requestId, model: model.name, outcome: 'answered', status: 200 })
  const ledger = await server.operator('GET', '/v2/operator/ledger/verify')
  expect(ledger.body.findings ?? []).toEqual([])
})

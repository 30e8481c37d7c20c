/** `/v1/responses` at a server: storage, access, errors, and what is at rest. */
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { addMs, DAY_MS, instantOf } from '../src/base/instant.ts'
import { deleteExcessResponses } from '../src/store/response/response.ts'
import { removeResponses } from '../src/reconcile/responses.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { dumpTables } from './harness/table-dump.ts'
import { manualClock } from './sim/clock.ts'
import { waitFor } from './harness/wait.ts'

const START = instantOf(Date.parse('2026-11-01T12:00:00Z'))
const clock = manualClock(START)

let server: TestServer
let other: TestServer
let model: TestModel
let customer: { readonly id: string; readonly key: string; readonly call: Call }
beforeAll(async () => {
  server = await testServer({ runLoops: false, clock })
  other = await testServer({ runLoops: false, clock, databaseUrl: server.databaseUrl })
  model = await serveModel(server, { behaviour: { tokenizer: 'vllm' } })
  customer = await server.account({ usd: '10' })
})
beforeEach(() => void Object.assign(model.upstream.behaviour, { words: 5, fault: undefined }))
afterAll(async () => {
  await other.close()
  await server.close()
  await model.upstream.close()
})

const bodyOf = (change: object = {}) => ({ model: model.name, input: 'A question', max_output_tokens: 100, ...change })
const create = (change: object = {}, call: Call = customer.call) => call('POST', '/v1/responses', bodyOf(change))
const lastMessages = (): unknown =>
  (JSON.parse(model.upstream.requests.at(-1)?.body.toString() ?? '{}') as { messages?: unknown }).messages

async function stored(accountId = customer.id): Promise<string[]> {
  const rows = await server.app.database.db
    .selectFrom('response')
    .select('id')
    .where('account_id', '=', accountId)
    .orderBy('created_at')
    .execute()
  return rows.map(({ id }) => id)
}

describe('P10: a stored response', () => {
  test('is readable on every server when its last event is sent, and continues there', async () => {
    const reply = await fetch(`${server.url}/v1/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(bodyOf({ stream: true })),
    })
    const [, last = ''] = /event: response\.completed\ndata: (.*)\n\n$/.exec(await reply.text()) ?? []
    const { response } = JSON.parse(last)
    const there = other.as(customer.key)
    const read = await there('GET', `/v1/responses/${response.id}`)
    expect(read.body).toEqual(response)
    const next = await there('POST', '/v1/responses', bodyOf({ previous_response_id: response.id, input: 'More' }))
    expect(next.body.previous_response_id).toBe(response.id)
    expect(lastMessages()).toEqual([
      { role: 'user', content: 'A question' },
      { role: 'assistant', content: response.output[0].content[0].text },
      { role: 'user', content: 'More' },
    ])
    const replayed = await fetch(`${other.url}/v1/responses/${response.id}?stream=true&starting_after=4`, {
      headers: { authorization: `Bearer ${customer.key}` },
    })
    expect(replayed.headers.get('content-type')).toMatch(/^text\/event-stream/)
    const numbers = [...(await replayed.text()).matchAll(/"sequence_number":(\d+)/g)].map(([, number]) =>
      Number(number),
    )
    expect(numbers[0]).toBe(5)
  })

  test('exists for its account only, and after its deletion for nobody', async () => {
    const { id } = (await create()).body
    const child = (await create({ previous_response_id: id })).body.id as string
    const stranger = await server.account({ usd: '1' })
    const attempts = (call: Call) =>
      Promise.all([
        call('GET', `/v1/responses/${id}`),
        call('GET', `/v1/responses/${id}?stream=true`),
        call('GET', `/v1/responses/${id}/input_items`),
        create({ previous_response_id: id }, call),
        create({ input: [{ type: 'item_reference', id: `msg_${String(id).slice(5)}0` }] }, call),
        call('DELETE', `/v1/responses/${id}`),
      ])
    const facts = (replies: Awaited<ReturnType<typeof attempts>>) =>
      replies.map(({ status, body }) => [status, body.reason])
    const missing = Array.from({ length: 6 }, () => [404, 'response_not_found'])
    expect(facts(await attempts(stranger.call))).toEqual(missing)
    const reference = await create({ input: [{ type: 'item_reference', id: `msg_${String(id).slice(5)}0` }] })
    expect(reference.status).toBe(200)
    expect((await customer.call('DELETE', `/v1/responses/${id}`)).body).toEqual({
      id,
      object: 'response',
      deleted: true,
    })
    expect(facts(await attempts(customer.call))).toEqual(missing)
    // The one that continued it remains, and has lost its beginning.
    expect((await customer.call('GET', `/v1/responses/${child}`)).status).toBe(200)
    expect((await create({ previous_response_id: child })).status).toBe(404)
  })

  test('goes after its days, unless its conversation goes on', async () => {
    const { id: account, call } = await server.account({ usd: '1' })
    const first = (await create({}, call)).body.id as string
    const alone = (await create({}, call)).body.id as string
    clock.set(addMs(START, 29 * DAY_MS))
    const second = (await create({ previous_response_id: first }, call)).body.id as string
    clock.set(addMs(START, 31 * DAY_MS))
    const sweep = () => removeResponses(server.app).run(new AbortController().signal)
    await sweep()
    expect(await stored(account)).toEqual([first, second])
    expect(alone).not.toBe(first)
    expect((await call('GET', `/v1/responses/${first}`)).status).toBe(404)
    expect((await create({ previous_response_id: first }, call)).status).toBe(404)
    expect((await create({ previous_response_id: second, store: false }, call)).status).toBe(200)
    clock.set(addMs(START, 60 * DAY_MS))
    await sweep()
    expect(await stored(account)).toEqual([])
  })

  test('is deleted, the oldest first, if the account has too many bytes', async () => {
    const { id: account, call } = await server.account({ usd: '1' })
    const ids: string[] = []
    for (let i = 0; i < 3; i += 1) {
      ids.push((await create({}, call)).body.id)
      clock.advance(1_000)
    }
    const { db } = server.app.database
    const { bytes } = await db
      .selectFrom('response')
      .select(({ fn }) => fn.max('size_bytes').as('bytes'))
      .where('account_id', '=', account)
      .executeTakeFirstOrThrow()
    await deleteExcessResponses(db, 2 * bytes, 1_000)
    expect(await stored(account)).toEqual(ids.slice(1))
  })
})

describe('P9: nothing is stored', () => {
  const secret = 'a-secret-nobody-keeps'

  /** In a file of the server, or in any row of the database, also as bytes. */
  async function textAtRest(): Promise<boolean> {
    const pool = new pg.Pool({ connectionString: server.databaseUrl, max: 1 })
    const rows = await dumpTables(pool)
    await pool.end()
    if (rows.includes(secret) || rows.includes(Buffer.from(secret).toString('hex'))) return true
    const files = await readdir(server.dataDir, { recursive: true, withFileTypes: true })
    for (const file of files.filter((one) => one.isFile())) {
      const bytes = await readFile(path.join(file.parentPath, file.name))
      if (bytes.includes(secret)) return true
    }
    return false
  }

  test('with `store: false`, or by an account that stores none', async () => {
    const { id, call } = await server.account({ usd: '1', scopes: ['inference', 'keys'] })
    const unstored = await create({ store: false, input: secret }, call)
    expect([unstored.status, unstored.body.store]).toEqual([200, false])
    expect((await call('GET', `/v1/responses/${unstored.body.id}`)).status).toBe(404)
    const off = await call('PATCH', '/v2/account/settings', { storesResponses: false })
    expect([off.status, off.body.storesResponses]).toEqual([200, false])
    await waitFor(
      'the setting to take effect',
      async () => (await create({ input: secret }, call)).body.store === false,
    )
    const { length } = await stored(id)
    await create({ input: secret }, call)
    expect(await stored(id)).toHaveLength(length)
    expect(await textAtRest()).toBe(false)
  })

  test('not even what is stored is readable in the database', async () => {
    const { body } = await create({ input: secret })
    const { sealed } = await server.app.database.db
      .selectFrom('response')
      .select('sealed')
      .where('id', '=', body.id)
      .executeTakeFirstOrThrow()
    expect(sealed.includes(secret)).toBe(false)
    expect(await textAtRest()).toBe(false)
  })
})

test('P12: sealed reasoning of another account, or changed, is refused', async () => {
  const thinking = await serveModel(server, { name: 'test/thinking' })
  const reasoning = { choices: [{ message: { reasoning: 'hm', content: 'Yes' }, finish_reason: 'stop' }] }
  thinking.upstream.behaviour.faultsOnce.push({ kind: 'status', status: 200, body: JSON.stringify(reasoning) })
  const include = ['reasoning.encrypted_content']
  const { body } = await create({ model: thinking.name, store: false, include })
  await thinking.upstream.close()
  const [item, message] = body.output
  expect([item.type, message.type]).toEqual(['reasoning', 'message'])
  const sealed = item.encrypted_content as string
  const input = (encrypted: string): object => ({
    input: [
      { role: 'user', content: 'Hi' },
      { type: 'reasoning', id: item.id, summary: [], encrypted_content: encrypted },
      message,
      { role: 'user', content: 'Sure?' },
    ],
  })
  expect((await create(input(sealed))).status).toBe(200)
  expect(lastMessages()).toMatchObject([{}, { reasoning_content: 'hm', content: 'Yes' }, {}])
  const stranger = await server.account({ usd: '1' })
  const changed = `${sealed.slice(0, -2)}${sealed.at(-2) === 'A' ? 'B' : 'A'}${sealed.slice(-1)}`
  for (const reply of [
    await create(input(sealed), stranger.call),
    await create(input(changed)),
    await create(input('gAAAA')),
  ]) {
    expect([reply.status, reply.body.error.code, reply.body.error.param]).toEqual([
      400,
      'bad_sealed_reasoning',
      'input[1].encrypted_content',
    ])
  }
})

test('P4, P11: names what it ignores', async () => {
  const tools = [{ type: 'web_search' }, { type: 'mcp', server_label: 'x' }]
  const reply = await create({ tools, service_tier: 'flex', field_of_next_year: [{}] })
  expect(reply.status).toBe(200)
  expect(reply.headers.get('x-berth-ignored')).toBe('service_tier, field_of_next_year, web_search, mcp')
  expect(reply.body.tools).toEqual(tools)
})

test('an error names the field, and none where the whole body is wrong', async () => {
  for (const [body, param] of [
    [[], null],
    [{ input: 'Hi' }, 'model'],
    [bodyOf({ input: [{ role: 'user', content: [{ type: 'input_text' }] }] }), 'input[0].content[0].text'],
  ] as const) {
    const reply = await customer.call('POST', '/v1/responses', body)
    expect([reply.status, reply.body.error.type, reply.body.error.param]).toEqual([400, 'invalid_request_error', param])
  }
})

test('P3: the key may be in x-api-key, and Authorization wins', async () => {
  const send = (headers: Record<string, string>) => server.anonymous('POST', '/v1/responses', bodyOf(), headers)
  expect((await send({ 'x-api-key': customer.key })).status).toBe(200)
  expect((await send({ 'x-api-key': customer.key, authorization: 'Bearer nonsense' })).status).toBe(401)
})

test('P13: an unknown model is 404, and a prompt that does not fit has its code, also in a stream', async () => {
  const unknown = await create({ model: 'nobody/nothing' })
  expect([unknown.status, unknown.body.error.code, unknown.body.error.type]).toEqual([
    404,
    'model_not_found',
    'not_found_error',
  ])
  const error = { message: "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens." }
  for (const stream of [false, true]) {
    model.upstream.behaviour.faultsOnce.push({ kind: 'status', status: 400, body: JSON.stringify({ error }) })
    const { status, body } = await create({ stream })
    expect([status, body.error.code]).toEqual([400, 'context_length_exceeded'])
  }
})

test('affinity: requests with one prompt_cache_key carry on; the limit is lowered to what the context leaves', async () => {
  const reply = await create({ prompt_cache_key: 'ada', max_output_tokens: 1_000_000 })
  expect([reply.status, reply.body.prompt_cache_key, reply.body.max_output_tokens]).toEqual([200, 'ada', 1_000_000])
  const sent = JSON.parse(model.upstream.requests.at(-1)?.body.toString() ?? '{}') as { max_tokens: number }
  expect(sent.max_tokens).toBeLessThan(8_192)
})

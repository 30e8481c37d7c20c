/** Which pages may read answers, and which requests of pages are refused. Browsers themselves are in browser-clients.lab.test.ts. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ask, consoleHeaders, signInWith, type Answer } from '../../../test/harness/console.ts'
import { serveModel, type TestModel } from '../../../test/harness/inference.ts'
import { testServer, type TestServer } from '../../../test/harness/server.ts'
import { makeApiKey } from '../../base/api-key.ts'
import { api } from '../../contract/api.ts'
import type { Endpoint } from '../../contract/endpoint.ts'

const APP = 'https://app.example.com'
const OTHER = 'https://other.example.com'

let server: TestServer
let model: TestModel
let customer: Awaited<ReturnType<TestServer['account']>>
/** Keys for one application, for all, and for none. */
let keys: { app: string; any: string; none: string }

beforeAll(async () => {
  server = await testServer({ runLoops: false })
  model = await serveModel(server)
  customer = await server.account({ usd: '10' })
  keys = { app: await createKey([APP]), any: await createKey(['*']), none: customer.key }
})
afterAll(async () => {
  await server.close()
  await model.upstream.close()
})

async function createKey(allowedOrigins: readonly string[], more: object = {}): Promise<string> {
  const body = { name: 'for pages', scopes: ['inference', 'keys', 'compute:read'], allowedOrigins, ...more }
  const reply = await customer.call('POST', '/v2/api-keys', body)
  expect(reply).toMatchObject({ status: 200, body: { allowedOrigins } })
  return reply.body.key as string
}

const corsOf = ({ headers }: Answer): Record<string, unknown> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('access-control-')))
const readable = (origin: string) => ({
  'access-control-allow-origin': origin,
  'access-control-expose-headers': '*',
})
const namesOrigin = ({ headers }: Answer): boolean => (headers.vary ?? '').split(', ').includes('Origin')

const chatBody = { model: 'test/model', messages: [{ role: 'user', content: 'Hello' }] }
const chat = (headers: Record<string, string>, body: object = chatBody): Promise<Answer> =>
  ask(server.url, '/v1/chat/completions', { method: 'POST', headers, body })
const bearer = (key: string) => ({ Authorization: `Bearer ${key}` })
const reasonOf = ({ text }: Answer): unknown => (JSON.parse(text) as { reason?: unknown }).reason
const countChats = async (): Promise<number> => model.upstream.requests.length

describe('a preflight', () => {
  const preflight = (path: string, headers: Record<string, string>): Promise<Answer> =>
    ask(server.url, path, { method: 'OPTIONS', headers: { Origin: APP, ...headers } })

  test('allows what client libraries send, for every page, and remembers it for two hours', async () => {
    const requested =
      'authorization,x-api-key,content-type,anthropic-version,anthropic-beta,' +
      'anthropic-dangerous-direct-browser-access,x-stainless-os,x-stainless-retry-count,idempotency-key'
    for (const origin of [APP, OTHER, 'null']) {
      const answer = await preflight('/v1/chat/completions', {
        Origin: origin,
        'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': requested,
      })
      expect([answer.status, answer.text, namesOrigin(answer)]).toEqual([204, '', true])
      expect(corsOf(answer)).toEqual({
        ...readable(origin),
        'access-control-allow-methods': 'POST',
        'access-control-allow-headers': requested.split(',').join(', '),
        'access-control-max-age': '7200',
      })
    }
  })

  test('is answered for every path with an operation that needs a key, with all of its methods', async () => {
    const keyed = (Object.values(api) as Endpoint[]).filter(({ access }) => access !== 'public')
    for (const { path, method } of keyed) {
      const answer = await preflight(path.replaceAll(/\{\w+\}/g, '1'), { 'Access-Control-Request-Method': method })
      const methods = String(answer.headers['access-control-allow-methods']).split(', ')
      expect([path, answer.status, methods.includes(method)]).toEqual([path, 204, true])
    }
  })

  test('allows neither the header of the console nor headers that are none, and never credentials', async () => {
    const post = { 'Access-Control-Request-Method': 'POST' }
    const answer = await preflight('/v2/api-keys', {
      ...post,
      'Access-Control-Request-Headers': 'Authorization, X-Berth-Console,,a b, x-other',
    })
    expect(answer.headers['access-control-allow-headers']).toBe('authorization, x-other')
    expect(answer.headers['access-control-allow-credentials']).toBeUndefined()
    const long = await preflight('/v2/api-keys', { ...post, 'Access-Control-Request-Headers': 'x'.repeat(5_000) })
    expect([long.status, long.headers['access-control-allow-headers']]).toEqual([204, undefined])
  })

  test.each(['/console/session', '/v2/nothing', '/', '/readyz'])('is not answered for %s', async (path) => {
    const answer = await preflight(path, { 'Access-Control-Request-Method': 'POST' })
    expect([answer.status, corsOf(answer)]).toEqual([404, {}])
  })

  test('is a request of a browser: a plain OPTIONS has no answer', async () => {
    const answer = await ask(server.url, '/v2/api-keys', { method: 'OPTIONS' })
    expect([answer.status, reasonOf(answer), corsOf(answer)]).toEqual([404, 'unknown_path', {}])
  })
})

describe('an answer', () => {
  test('is readable to pages that the key allows, with the request id and the limits', async () => {
    for (const [key, origin] of [
      [keys.app, APP],
      [keys.any, APP],
      [keys.any, OTHER],
      [keys.any, 'null'],
    ] as const) {
      const answer = await chat({ ...bearer(key), Origin: origin })
      expect([answer.status, corsOf(answer), namesOrigin(answer)]).toEqual([200, readable(origin), true])
      expect(answer.headers['x-inference-request-id']).toMatch(/^req_/)
      expect(answer.headers['x-ratelimit-remaining']).toBeDefined()
    }
    const byOtherHeader = await chat({ 'X-Api-Key': keys.app, Origin: APP })
    expect([byOtherHeader.status, corsOf(byOtherHeader)]).toEqual([200, readable(APP)])
  })

  test('to a program, which sends no origin, has no header about origins', async () => {
    for (const key of Object.values(keys)) {
      const answer = await chat(bearer(key))
      expect([answer.status, corsOf(answer), namesOrigin(answer)]).toEqual([200, {}, false])
    }
  })

  test('that is a stream, a list that may be compressed, or a stream of events is readable too', async () => {
    const streamed = await chat({ ...bearer(keys.app), Origin: APP }, { ...chatBody, stream: true })
    expect([streamed.status, corsOf(streamed), streamed.text.endsWith('data: [DONE]\n\n')]).toEqual([
      200,
      readable(APP),
      true,
    ])
    const list = await ask(server.url, '/v2/rentals', { headers: { ...bearer(keys.app), Origin: APP } })
    expect([list.status, corsOf(list), list.headers.vary]).toEqual([200, readable(APP), 'Origin, Accept-Encoding'])
    const controller = new AbortController()
    const events = await fetch(`${server.url}/v2/events/stream`, {
      headers: { ...bearer(keys.app), Origin: APP },
      signal: controller.signal,
    })
    expect([events.status, events.headers.get('access-control-allow-origin')]).toEqual([200, APP])
    controller.abort()
  })

  test('that is an error is readable: a wrong key, a missing scope, bad input, no money, too many requests', async () => {
    const limited = await createKey([APP], { totalLimitUsd: '0' })
    const slow = await createKey([APP], { requestsPerMinute: 1 })
    await chat({ ...bearer(slow), Origin: APP })
    const expected = [
      [await chat({ ...bearer(makeApiKey().text), Origin: APP }), 401],
      [await chat({ Origin: APP }), 401],
      [await chat({ ...bearer(keys.app), Origin: APP }, { model: 'test/model' }), 422],
      [await chat({ ...bearer(keys.app), Origin: APP }, { ...chatBody, model: 'test/none' }), 400],
      [await chat({ ...bearer(limited), Origin: APP }), 402],
      [await chat({ ...bearer(slow), Origin: APP }), 429],
      [await ask(server.url, '/v2/customer/balance', { headers: { ...bearer(keys.app), Origin: APP } }), 403],
    ] as const
    for (const [answer, status] of expected) {
      expect([answer.status, corsOf(answer), namesOrigin(answer)], answer.text).toEqual([status, readable(APP), true])
    }
    expect(expected[5][0].headers['retry-after']).toBeDefined()
  })

  test('that the model server failed to give is readable', async () => {
    model.upstream.behaviour.fault = { kind: 'status', status: 500 }
    const failed = await chat({ ...bearer(keys.app), Origin: APP })
    model.upstream.behaviour.fault = undefined
    expect([failed.status, corsOf(failed)]).toEqual([503, readable(APP)])
  })
})

describe('a request of a page that the key does not allow', () => {
  test('is refused before the model is asked, also on a connection of the fast path', async () => {
    const before = await countChats()
    for (const [key, origin] of [
      [keys.none, APP],
      [keys.none, 'null'],
      [keys.app, OTHER],
      [keys.app, `${APP}:8443`],
      [keys.app, 'http://app.example.com'],
      [keys.app, 'https://app.example.com.evil.example'],
    ] as const) {
      const answer = await chat({ ...bearer(key), Origin: origin })
      expect([answer.status, reasonOf(answer), corsOf(answer)]).toEqual([403, 'origin_not_allowed', readable(origin)])
    }
    expect(await countChats()).toBe(before)
  })

  test('changes nothing', async () => {
    const answer = await ask(server.url, '/v2/api-keys', {
      method: 'POST',
      headers: { ...bearer(keys.none), Origin: APP },
      body: { name: 'from a page', scopes: ['inference'] },
    })
    expect([answer.status, reasonOf(answer)]).toEqual([403, 'origin_not_allowed'])
    const { body } = await customer.call('GET', '/v2/api-keys')
    expect((body.apiKeys as Array<{ name: string }>).map(({ name }) => name)).not.toContain('from a page')
  })

  test('is no request of another site where a proxy of the same site or an extension sent it', async () => {
    for (const site of ['same-origin', 'none']) {
      const answer = await chat({ ...bearer(keys.none), Origin: APP, 'Sec-Fetch-Site': site })
      expect([answer.status, corsOf(answer)]).toEqual([200, {}])
    }
    for (const site of ['same-site', 'cross-site']) {
      const answer = await chat({ ...bearer(keys.none), Origin: APP, 'Sec-Fetch-Site': site })
      expect([answer.status, reasonOf(answer)]).toEqual([403, 'origin_not_allowed'])
    }
  })

  test('is answered, but not readable, where an installed application sent it', async () => {
    const answer = await chat({ ...bearer(keys.none), Origin: 'tauri://localhost' })
    expect([answer.status, corsOf(answer), namesOrigin(answer)]).toEqual([200, {}, true])
    const allowed = await chat({ ...bearer(await createKey(['tauri://localhost'])), Origin: 'tauri://localhost' })
    expect([allowed.status, corsOf(allowed)]).toEqual([200, readable('tauri://localhost')])
  })
})

describe('the console', () => {
  test('calls with its session from its own origin, and gets no header about origins', async () => {
    const Cookie = await signInWith(server.url, keys.none)
    const Origin = server.url
    const own = await chat({ Cookie, Origin, ...consoleHeaders })
    expect([own.status, corsOf(own)]).toEqual([200, {}])
    const withKey = await chat({ ...bearer(keys.none), Origin })
    expect([withKey.status, corsOf(withKey)]).toEqual([200, {}])
  })

  test('keeps its session from pages that the key allows', async () => {
    const Cookie = await signInWith(server.url, keys.any)
    const before = await countChats()
    for (const headers of [{ Origin: APP }, { Origin: APP, ...consoleHeaders }]) {
      const answer = await chat({ Cookie, ...headers })
      expect([answer.status, reasonOf(answer), corsOf(answer)]).toEqual([403, 'cross_site', {}])
    }
    expect(await countChats()).toBe(before)
  })
})

describe('creating a key', () => {
  const create = (key: string, allowedOrigins: readonly string[]) =>
    server.as(key)('POST', '/v2/api-keys', { name: 'child', scopes: ['inference'], allowedOrigins })

  test.each([
    'https://app.example.com/',
    'https://App.example.com',
    'https://app.example.com:443',
    'https://app.example.com/path',
    'https://*.example.com',
    'app.example.com',
    'null',
    '',
    'https://',
    'https://user@app.example.com',
    'javascript:alert(1)',
  ])('rejects %j, which no browser sends as an origin', async (origin) => {
    expect(await create(keys.none, [origin])).toMatchObject({
      status: 400,
      body: { issues: [{ path: ['allowedOrigins', 0] }] },
    })
  })

  test.each(['*', 'http://localhost:5173', 'http://[::1]:3000', 'https://xn--bcher-kva.example', 'app://obsidian.md'])(
    'accepts %j',
    async (origin) => {
      expect(await create(keys.none, [origin])).toMatchObject({ status: 200, body: { allowedOrigins: [origin] } })
    },
  )

  test('has at most twenty entries', async () => {
    const origins = Array.from({ length: 21 }, (_, n) => `https://app-${n}.example.com`)
    expect((await create(keys.none, origins)).status).toBe(400)
    expect((await create(keys.none, origins.slice(1))).status).toBe(200)
  })

  test('gives no page more than a key for pages allows', async () => {
    const refused = { status: 400, body: { reason: 'exceeds_parent_key_origins' } }
    expect(await create(keys.app, [OTHER])).toMatchObject(refused)
    expect(await create(keys.app, ['*'])).toMatchObject(refused)
    expect((await create(keys.app, [APP])).status).toBe(200)
    expect((await create(keys.app, [])).status).toBe(200)
    expect((await create(keys.any, [OTHER, '*'])).status).toBe(200)
  })
})

test('the fast path leaves requests with an origin to the full path, which answers them on the same connection', async () => {
  const answer = await chat({ ...bearer(keys.app), Origin: APP })
  expect([answer.status, corsOf(answer)]).toEqual([200, readable(APP)])
})

/** Signing in gives a cookie with the rights of the key, valid only on the console's own pages. */
import { fail } from '../../contract/result.ts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ask, consoleHeaders, cookieOf, postSession, signInWith } from '../../../test/harness/console.ts'
import { serveModel, type TestModel } from '../../../test/harness/inference.ts'
import { testServer, type TestServer } from '../../../test/harness/server.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { makeApiKey } from '../../base/api-key.ts'
import { sha256 } from '../../base/id.ts'
import { DAY_MS, MINUTE_MS } from '../../base/instant.ts'
import { manualClock } from '../../../test/sim/clock.ts'

const clock = manualClock()
let server: TestServer
let customer: { id: string; key: string }
let host: string
beforeAll(async () => {
  server = await testServer({ clock, runLoops: false })
  customer = await server.account({ usd: '10' })
  host = new URL(server.url).host
})
afterAll(() => server.close())

const getMe = (cookie: string) => ask(server.url, '/v2/users/me', { headers: { Cookie: cookie } })
const bodyOf = (answer: { text: string }) => JSON.parse(answer.text) as Record<string, unknown>
const rowsOf = async (key: string): Promise<Buffer[]> => {
  const [, publicId = ''] = key.split('_')
  const rows = await server.app.database.db
    .selectFrom('console_session')
    .select('token_hash')
    .where('api_key_id', '=', publicId)
    .orderBy('created_at')
    .execute()
  return rows.map((row) => row.token_hash)
}

describe('sign-in', () => {
  test('sets a cookie that scripts and other sites cannot read, and stores neither cookie nor key', async () => {
    const answer = await postSession(server.url, `  ${customer.key}\n`)
    expect([answer.status, answer.text]).toEqual([200, '{}'])
    const [cookie = '', ...more] = answer.headers['set-cookie'] ?? []
    expect(more).toEqual([])
    expect(cookie).toMatch(/^berth_session=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=604800$/)
    const token = cookieOf(answer).slice('berth_session='.length)
    expect(await rowsOf(customer.key)).toEqual([sha256(token)])
    expect(bodyOf(await getMe(cookieOf(answer)))).toMatchObject({ account: { id: customer.id } })
    // Among other cookies with any values.
    expect((await getMe(`a=b=c; ${cookieOf(answer)}; d`)).status).toBe(200)
    expect((await getMe('a=b')).status).toBe(401)
  })

  test('marks the cookie Secure behind a trusted HTTPS proxy', async () => {
    const behind = await testServer({ env: { BERTH_TRUST_PROXY: '1' }, runLoops: false })
    const https = {
      'X-Forwarded-Proto': 'https',
      'X-Forwarded-Host': 'gpu.example.test',
      'X-Forwarded-For': '10.0.0.9',
    }
    const origin = { Origin: 'https://gpu.example.test' }
    const secure = await postSession(behind.url, behind.demoKey, { ...https, ...origin })
    expect(secure.headers['set-cookie']?.[0]).toMatch(/Max-Age=604800; Secure$/)
    const left = await ask(behind.url, '/console/session', {
      method: 'DELETE',
      headers: { ...consoleHeaders, ...https, Cookie: cookieOf(secure) },
    })
    expect(left.headers['set-cookie']?.[0]).toMatch(/^__Host-berth_session=; .*Max-Age=0; Secure$/)
    const plain = await postSession(behind.url, behind.demoKey)
    expect(plain.headers['set-cookie']?.[0]).not.toContain('Secure')
    await behind.close()
    const unbelieved = await postSession(server.url, customer.key, https)
    expect(unbelieved.headers['set-cookie']?.[0]).not.toContain('Secure')
  })

  test('rejects an invalid key with the same errors as an operation', async () => {
    const typo = customer.key.slice(0, -1) + (customer.key.endsWith('A') ? 'B' : 'A')
    for (const key of ['nonsense', typo, makeApiKey().text]) {
      const refused = await postSession(server.url, key)
      const usual = await server.as(key)('GET', '/v2/users/me')
      expect([refused.status, bodyOf(refused)]).toEqual([usual.status, usual.body])
      expect(refused.status).toBe(401)
      expect(refused.headers['set-cookie']).toBeUndefined()
    }
    for (const body of [undefined, {}, { key: ' ' }, { key: 1 }, { key: 'x'.repeat(1_001) }, { key: 'x', more: 1 }]) {
      const refused = await ask(server.url, '/console/session', { method: 'POST', headers: consoleHeaders, body })
      expect(refused.status).toBe(400)
      expect(bodyOf(refused)).toMatchObject({ code: 'BAD_REQUEST', issues: [{ path: expect.any(Array) as string[] }] })
    }
  })

  test('limits guesses per minute, together with those at operations', async () => {
    const guess = async (n: number): Promise<number> =>
      n % 2 === 0
        ? (await postSession(server.url, 'nonsense')).status
        : (await server.as('nonsense')('GET', '/v2/users/me')).status
    const guessed: number[] = []
    for (let n = 0; n < 620; n += 20) {
      guessed.push(...(await Promise.all(Array.from({ length: 20 }, (_, one) => guess(n + one)))))
    }
    // Some were counted before.
    expect([guessed[0], guessed.at(-1)]).toEqual([401, 429])
    const refused = await postSession(server.url, 'nonsense')
    expect([refused.status, bodyOf(refused).reason, refused.headers['retry-after']]).toEqual([
      429,
      'rate_limited',
      '60',
    ])
    expect((await postSession(server.url, customer.key)).status).toBe(200)
    clock.advance(MINUTE_MS)
    expect((await postSession(server.url, 'nonsense')).status).toBe(401)
  })

  test('cannot be triggered by another site, nor can sign-out', async () => {
    const cookie = await signInWith(server.url, customer.key)
    for (const headers of [{}, { ...consoleHeaders, Origin: 'https://example.test' }] as const) {
      for (const method of ['POST', 'DELETE']) {
        const body = method === 'POST' ? { key: customer.key } : undefined
        const refused = await ask(server.url, '/console/session', {
          method,
          headers: { ...headers, Cookie: cookie },
          body,
        })
        expect(refused.status).toBe(403)
        expect(bodyOf(refused)).toMatchObject({ code: 'FORBIDDEN', reason: 'cross_site' })
      }
    }
    expect((await getMe(cookie)).status).toBe(200)
  })

  test('keeps at most twenty sessions per key, and one per browser', async () => {
    const { key } = await server.account()
    const cookies: string[] = []
    for (let n = 0; n < 21; n += 1) {
      clock.advance(1)
      cookies.push(await signInWith(server.url, key))
    }
    expect(await rowsOf(key)).toHaveLength(20)
    expect(bodyOf(await getMe(cookies[0] ?? ''))).toMatchObject({ reason: 'session_ended' })
    expect((await getMe(cookies[1] ?? '')).status).toBe(200)
    clock.advance(1)
    const again = cookieOf(await postSession(server.url, key, { Cookie: cookies[5] ?? '' }))
    expect((await getMe(again)).status).toBe(200)
    expect((await getMe(cookies[5] ?? '')).status).toBe(401)
    expect((await getMe(cookies[1] ?? '')).status).toBe(200)
    expect(await rowsOf(key)).toHaveLength(20)
  })
})

describe('a session ends', () => {
  const ended = { message: fail('session_ended').message, code: 'UNAUTHORIZED', reason: 'session_ended' }

  test('at sign-out, which can be repeated', async () => {
    const [cookie, other] = [await signInWith(server.url, customer.key), await signInWith(server.url, customer.key)]
    for (let n = 0; n < 2; n += 1) {
      const headers = { ...consoleHeaders, Cookie: cookie }
      const left = await ask(server.url, '/console/session', { method: 'DELETE', headers })
      expect([left.status, left.headers['set-cookie']?.[0]]).toEqual([
        200,
        'berth_session=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0',
      ])
    }
    expect((await ask(server.url, '/console/session', { method: 'DELETE', headers: consoleHeaders })).status).toBe(200)
    const answer = await getMe(cookie)
    expect([answer.status, bodyOf(answer)]).toEqual([401, ended])
    expect((await getMe(other)).status).toBe(200)
    expect(bodyOf(await getMe('berth_session=anything'))).toEqual(ended)
  })

  test('with its key, and with the suspension of the account', async () => {
    const { id, key, call } = await server.account()
    const cookie = await signInWith(server.url, key)
    const suspend = (suspended: boolean) =>
      server.operator('PATCH', `/v2/operator/accounts/${id}`, { suspended, reason: 'because of a test' })
    await suspend(true)
    await waitFor('the suspension', async () => (await getMe(cookie)).status === 403)
    expect(bodyOf(await getMe(cookie))).toMatchObject({ reason: 'account_suspended' })
    await suspend(false)
    await waitFor('the account to be reinstated', async () => (await getMe(cookie)).status === 200)
    expect((await call('DELETE', `/v2/api-keys/${key.split('_')[1]}`)).status).toBe(200)
    await waitFor('the end', async () => (await getMe(cookie)).status === 401)
    expect(bodyOf(await getMe(cookie))).toMatchObject({ reason: 'invalid_key' })
  })

  test('after exactly seven days, and is deleted at the next sign-in', async () => {
    const { key } = await server.account()
    const cookie = await signInWith(server.url, key)
    clock.advance(7 * DAY_MS - 1)
    expect((await getMe(cookie)).status).toBe(200)
    clock.advance(1)
    expect(bodyOf(await getMe(cookie))).toEqual(ended)
    expect(await rowsOf(key)).toHaveLength(1)
    await signInWith(server.url, customer.key)
    expect(await rowsOf(key)).toHaveLength(0)
    expect(await rowsOf(customer.key)).toHaveLength(1)
  })
})

describe('the session cookie', () => {
  /** Method, Sec-Fetch-Site, Origin, X-Berth-Console; a dash: not sent. Everything else is refused. */
  const counting = new Set(
    `GET  -           -    -
     GET  -           -    1
     GET  -           own  -
     GET  -           own  1
     GET  same-origin -    -
     GET  same-origin -    1
     GET  same-origin own  -
     GET  same-origin own  1
     GET  none        -    -
     GET  none        -    1
     GET  none        own  -
     GET  none        own  1
     POST -           -    1
     POST -           own  1
     POST same-origin -    1
     POST same-origin own  1`
      .split('\n')
      .map((line) => line.trim().replaceAll(/ +/g, ' ')),
  )

  test('counts only on requests from the console’s own pages', async () => {
    const cookie = await signInWith(server.url, customer.key)
    const origins: Record<string, string> = { own: `http://${host}`, other: `http://${host}0`, null: 'null' }
    const links = new Set<string>()
    const refused = new Set<string>()
    const sites = ['-', 'same-origin', 'same-site', 'cross-site', 'none', 'same-origin, none']
    for (const method of ['GET', 'POST'])
      for (const site of sites)
        for (const origin of ['-', 'own', 'other', 'null'])
          for (const header of ['-', '0', '1']) {
            const answer = await ask(server.url, '/v2/api-keys', {
              method,
              headers: {
                Cookie: cookie,
                ...(site === '-' ? {} : { 'Sec-Fetch-Site': site }),
                ...(origin === '-' ? {} : { Origin: origins[origin] ?? '' }),
                ...(header === '-' ? {} : { 'X-Berth-Console': header }),
              },
              // Without a name: an accepted caller gets a validation error for it.
              ...(method === 'POST' ? { body: {} } : {}),
            })
            const isIn = answer.status === (method === 'GET' ? 200 : 400)
            if (isIn) links.add(`${method} ${site} ${origin} ${header}`)
            else refused.add(`${answer.status} ${String(bodyOf(answer).reason)}`)
          }
    expect([...refused]).toEqual(['403 cross_site'])
    // An unexpected header is ignored where none is required.
    expect([...links].filter((one) => !one.endsWith(' 0')).toSorted()).toEqual([...counting].toSorted())
    expect([...links].filter((one) => one.startsWith('POST') && one.endsWith(' 0'))).toEqual([])
  })

  test('is ignored beside a key, valid or not', async () => {
    const cookie = await signInWith(server.url, customer.key)
    const headers = { Cookie: cookie, 'Sec-Fetch-Site': 'cross-site' }
    const asOperator = { ...headers, Authorization: `Bearer ${server.operatorKey}` }
    expect(bodyOf(await ask(server.url, '/v2/users/me', { headers: asOperator }))).toMatchObject({
      account: { id: 'operator' },
    })
    const bad = { Cookie: cookie, Authorization: 'Bearer nonsense' }
    expect((await ask(server.url, '/v2/users/me', { headers: bad })).status).toBe(401)
  })

  test('counts for HEAD like for GET, with the scopes of its key', async () => {
    const cookie = await signInWith(server.url, customer.key)
    expect((await ask(server.url, '/v2/users/me', { method: 'HEAD', headers: { Cookie: cookie } })).status).toBe(200)
    const refused = await ask(server.url, '/v2/operator/accounts', { headers: { Cookie: cookie } })
    expect([refused.status, bodyOf(refused).reason]).toEqual([403, 'missing_scope'])
    const operator = await signInWith(server.url, server.operatorKey)
    expect((await ask(server.url, '/metrics', { headers: { Cookie: operator } })).text).toContain('berth_http_requests')
  })
})

describe('inference requests and streams', () => {
  let model: TestModel
  beforeAll(async () => {
    model = await serveModel(server, { model: { contextTokens: 10_000_000 } })
  })
  afterAll(() => model.upstream.close())

  const chat = (cookie: string, more: object, headers: Record<string, string> = consoleHeaders) =>
    ask(server.url, '/v1/chat/completions', {
      method: 'POST',
      headers: { Cookie: cookie, ...headers },
      body: { model: model.name, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10, ...more },
    })

  test('answers chats, streamed and long ones too; a cross-site one costs nothing', async () => {
    const cookie = await signInWith(server.url, customer.key)
    const seen = await waitFor('the model', async () => {
      const answer = await chat(cookie, {})
      return answer.status === 200 ? answer : undefined
    })
    expect(bodyOf(seen)).toMatchObject({ object: 'chat.completion' })
    const streamed = await chat(cookie, { stream: true })
    expect([streamed.status, streamed.text.endsWith('data: [DONE]\n\n')]).toEqual([200, true])
    // Longer than the limit for unauthenticated callers.
    const messages = [{ role: 'user', content: 'word '.repeat(250_000) }]
    expect((await chat(cookie, { messages })).status).toBe(200)
    const requestsBefore = model.upstream.requests.length
    expect((await chat(cookie, { messages }, {})).status).toBe(403)
    expect((await chat('berth_session=ended', { messages })).status).toBe(401)
    expect((await chat(cookie, {}, {})).status).toBe(403)
    expect(model.upstream.requests.length).toBe(requestsBefore)
  })

  test('follows events', async () => {
    const cookie = await signInWith(server.url, customer.key)
    const stop = new AbortController()
    const stream = await fetch(`${server.url}/v2/events/stream`, { headers: { Cookie: cookie }, signal: stop.signal })
    expect([stream.status, stream.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
    stop.abort()
  })
})

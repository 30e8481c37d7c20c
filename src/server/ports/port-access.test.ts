/** The promises: nobody else gets to a private port, and nothing of ours gets to the application. */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createApiKey, revokeApiKey } from '../../app/account/api-key.ts'
import { createPortToken, revokePortToken } from '../../app/rental/port.ts'
import { addMs, HOUR_MS, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { transact } from '../../store/platform/database.ts'
import { findPortRoute } from '../../store/rental/port.ts'
import { makeAuthenticator } from '../http/authenticate.ts'
import { makePortAccess } from './port-access.ts'
import { openTestAccount, type TestAccount } from '../../../test/harness/identity.ts'
import { PRIVATE, PUBLIC, startPortLab, type PortLab, type Sent } from '../../../test/harness/port-lab.ts'
import { waitFor } from '../../../test/harness/wait.ts'

let lab: PortLab
let stranger: TestAccount

beforeAll(async () => {
  lab = await startPortLab({ ports: { checkMs: 200 } })
  stranger = await openTestAccount(lab)
  await lab.addRental({ name: 'shy-red-fox' }, stranger)
})
afterAll(() => lab.close())
afterEach(() => {
  lab.heads.length = 0
  lab.serve = (_, response) => void response.end('hello')
})

async function newKey(account: TestAccount, scopes: ['compute:write'] | ['compute:read']) {
  const input = {
    name: 'one',
    scopes,
    expiresAt: null,
    allowedModels: null,
    allowedOrigins: [],
    monthlyLimit: null,
    totalLimit: null,
  }
  const created = await transact(lab.database, (tx) =>
    createApiKey(tx, account.actor, { ...input, requestsPerMinute: null, tokensPerMinute: null }),
  )
  if (!created.ok) throw new Error(created.message)
  return created.value
}

const bearer = (token: string): Sent => ({ headers: { Authorization: `Bearer ${token}` } })
const withCookie = (cookie: string, headers: Sent['headers'] = {}): Sent => ({
  headers: { Cookie: cookie, Referer: `http://${lab.host()}/`, ...headers },
})

async function newToken(port = PRIVATE, expiresAt: Instant | null = null) {
  const own = await lab.ownPort(port)
  const created = await transact(lab.database, (tx) =>
    createPortToken(tx, lab.owner.actor, own, { name: 'ci', expiresAt }),
  )
  if (!created.ok) throw new Error(created.message)
  lab.ports.forget(lab.rentalId)
  return created.value
}

describe('a private port', () => {
  test('answers everybody without access as if it did not exist', async () => {
    const reader = await newKey(lab.owner, ['compute:read'])
    const unknown = await lab.send({}, PRIVATE, 'no-such-rental')
    expect([unknown.status, JSON.parse(unknown.body)]).toMatchObject([404, { reason: 'app_not_found' }])
    const attempts: Sent[] = [
      {},
      { method: 'POST', body: 'x' },
      { path: '/.berth/open?code=guess' },
      { path: '/.berth/other' },
      bearer('guess'),
      bearer(`bpt_${'0'.repeat(43)}`),
      bearer(stranger.keyText),
      bearer(reader.text),
      withCookie('berth_port=guess.9999999999999.mac'),
      withCookie('berth_session=guess'),
    ]
    for (const sent of attempts) {
      const answer = await lab.send(sent)
      const comparable = ({ headers, ...rest }: typeof answer) => ({
        ...rest,
        headers: { ...headers, 'x-request-id': '', date: '' },
      })
      expect(comparable(answer), JSON.stringify(sent)).toEqual(comparable(unknown))
    }
    expect(lab.heads).toEqual([])
  })

  test('opens for an API key of the account that may change machines, and not for a revoked one', async () => {
    const { key, text: keyText } = await newKey(lab.owner, ['compute:write'])
    expect((await lab.send(bearer(keyText))).body).toBe('hello')
    await transact(lab.database, (tx) => revokeApiKey(tx, lab.owner.actor, key.public_id))
    await waitFor('the end of the key', async () => (await lab.send(bearer(keyText))).status === 404)
  })

  test('opens for a token of this port until it is revoked or expires', async () => {
    const { token, text: secret } = await newToken()
    expect((await lab.send(bearer(secret))).body).toBe('hello')
    expect((await lab.send(bearer(secret), PRIVATE, 'shy-red-fox')).status).toBe(404)
    const own = await lab.ownPort()
    expect(await transact(lab.database, (tx) => revokePortToken(tx, own, token.id))).toMatchObject({ ok: true })
    lab.ports.forget(lab.rentalId)
    expect((await lab.send(bearer(secret))).status).toBe(404)
    const short = await newToken(PRIVATE, addMs(lab.clock.now(), 1_000))
    expect((await lab.send(bearer(short.text))).body).toBe('hello')
    lab.clock.advance(1_001)
    expect((await lab.send(bearer(short.text))).status).toBe(404)
  })

  test('has a limited number of tokens', async () => {
    const own = await lab.ownPort(PUBLIC)
    const create = () =>
      transact(lab.database, (tx) => createPortToken(tx, lab.owner.actor, own, { name: 'ci', expiresAt: null }))
    for (let n = 0; n < limits.portTokens; n += 1) expect((await create()).ok).toBe(true)
    expect(await create()).toMatchObject({ reason: 'too_many_port_tokens' })
  })
})

describe('a one-time code', () => {
  test('is exchanged for a cookie of this port, once', async () => {
    const code = await lab.code()
    const opened = await lab.send({ path: `/.berth/open?code=${code}&path=${encodeURIComponent('/lab?a=b#c')}` })
    expect([opened.status, opened.headers.location]).toEqual([303, `http://${lab.host()}/lab?a=b#c`])
    expect(opened.headers).toMatchObject({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' })
    const [cookie = ''] = opened.headers['set-cookie'] ?? []
    expect(cookie).toMatch(/^berth_port=[\w.-]+; HttpOnly; SameSite=Lax; Path=\/; Max-Age=86400$/)
    const value = cookie.split(';')[0] ?? ''
    expect((await lab.send(withCookie(value))).body).toBe('hello')
    expect((await lab.send({ path: `/.berth/open?code=${code}` })).status).toBe(404)
    // A browser that goes back to the link has the cookie already.
    const again = await lab.send({ path: `/.berth/open?code=${code}`, ...withCookie(value) })
    expect([again.status, again.headers['set-cookie']]).toEqual([303, undefined])
    expect(lab.heads.map(({ url }) => url)).toEqual(['/'])
  })

  test('is worth nothing at another port, and after a minute', async () => {
    const code = await lab.code()
    const elsewhere = await lab.send({ path: `/.berth/open?code=${code}` }, PRIVATE, 'shy-red-fox')
    expect(elsewhere.status).toBe(404)
    lab.clock.advance(limits.portCodeMs)
    expect((await lab.send({ path: `/.berth/open?code=${code}` })).status).toBe(404)
  })

  test.each([
    '//evil.example/',
    'https://evil.example/',
    '/\\evil.example',
    '\\\\evil.example',
    '/%0d%0aSet-Cookie:%20a=b',
    '/a\r\nSet-Cookie: a=b',
    'javascript:alert(1)',
    '@evil.example',
    '.evil.example',
    '',
  ])('never leads to another host or adds a header: %j', async (path) => {
    const query = new URLSearchParams({ code: await lab.code(), path })
    const opened = await lab.send({ path: `/.berth/open?${query.toString()}` })
    const location = new URL(String(opened.headers.location))
    expect([opened.status, location.origin]).toEqual([303, `http://${lab.host()}`])
    expect(opened.headers['set-cookie']).toHaveLength(1)
  })
})

describe('the cookie', () => {
  test('is valid for its port only, unchanged, for a day, and while its key is', async () => {
    const cookie = await lab.cookie()
    expect((await lab.send(withCookie(cookie))).status).toBe(200)
    expect((await lab.send(withCookie(cookie), PRIVATE, 'shy-red-fox')).status).toBe(404)
    const [keyId, until, mac] = cookie.slice('berth_port='.length).split('.')
    const forged = [
      `${keyId}.${Number(until) + 1}.${mac}`,
      `${stranger.actor.keyId}.${until}.${mac}`,
      `${keyId}.${until}.`,
    ]
    for (const value of forged) expect((await lab.send(withCookie(`berth_port=${value}`))).status).toBe(404)
    // Over TLS only the cookie that no other host can set counts; this one came without.
    expect((await lab.send(withCookie(`__Host-${cookie}`))).status).toBe(404)
    lab.clock.advance(24 * HOUR_MS)
    expect((await lab.send(withCookie(cookie))).status).toBe(404)
  })

  test('over TLS has a name that no other host can set, and no other name counts', async () => {
    const { database, clock, app } = lab
    const authenticator = makeAuthenticator({ database, clock, log: pino({ level: 'silent' }) })
    const access = makePortAccess({ authenticator, vault: app.vault, clock })
    const route = await findPortRoute(lab.database.db, lab.name, PRIVATE)
    if (route === undefined) throw new Error('no route')
    const set = access.cookieFor(route, lab.owner.actor.keyId, 'https')
    expect(set).toMatch(/^__Host-berth_port=[\w.-]+; HttpOnly; SameSite=Lax; Path=\/; Max-Age=86400; Secure$/)
    const [cookie = ''] = set.split(';')
    const visit = (sent: string) =>
      access.admit(
        { method: 'GET', host: lab.host(), protocol: 'https', headers: { cookie: sent, 'sec-fetch-site': 'none' } },
        route,
      )
    expect(await visit(cookie)).toMatchObject({ ok: true, value: { kind: 'member' } })
    expect(await visit(cookie.replace('__Host-', ''))).toMatchObject({ reason: 'app_not_found' })
    await authenticator.close()
  })

  test('counts on requests of its own pages and for links, not on requests of other pages', async () => {
    const cookie = await lab.cookie()
    const own = `http://${lab.host()}`
    const link = { 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'document' }
    const rows: Array<[Sent['headers'], number, string?]> = [
      [{ 'Sec-Fetch-Site': 'same-origin', Origin: own }, 200, 'POST'],
      [{ 'Sec-Fetch-Site': 'same-origin', Origin: 'null' }, 200, 'POST'],
      [{ 'Sec-Fetch-Site': 'cross-site', ...link }, 200],
      [{ 'Sec-Fetch-Site': 'none', ...link }, 200],
      [{ Origin: own }, 200, 'POST'],
      [{ 'Sec-Fetch-Site': 'same-site', 'Sec-Fetch-Mode': 'no-cors' }, 404],
      [{ 'Sec-Fetch-Site': 'cross-site', ...link }, 404, 'POST'],
      [{ 'Sec-Fetch-Site': 'same-site', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'iframe' }, 404],
      [{ Origin: 'http://evil-80.localhost' }, 404, 'POST'],
      [{ Origin: 'null' }, 404, 'POST'],
    ]
    for (const [headers, status, method = 'GET'] of rows) {
      const answer = await lab.send({ ...withCookie(cookie, headers), method })
      expect(answer.status, JSON.stringify([method, headers])).toBe(status)
    }
    const socket = lab.webSocket({ Cookie: cookie, Origin: 'http://evil-80.localhost' })
    socket.on('error', () => {})
    const [, refused] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage]
    expect([refused.statusCode, JSON.parse(await text(refused))]).toMatchObject([404, { reason: 'app_not_found' }])
  })

  test('does not count over plain HTTP when another page may have sent the request (issue 31, 6)', async () => {
    const cookie = await lab.cookie()
    const own = `http://${lab.host()}/notebook`
    const rows: Array<[Sent['headers'], string]> = [
      [{ Referer: own }, 'hello'],
      [{ Referer: own.replace(lab.name, 'evil') }, 'asked'],
      [{ Referer: '' }, 'asked'],
      [{ Referer: `http://${lab.host()}.evil.example/` }, 'asked'],
      [{ Referer: 'not a URL' }, 'asked'],
      [{ Referer: own, Origin: 'http://evil-80.localhost' }, 'refused'],
    ]
    for (const [headers, outcome] of rows) {
      lab.heads.length = 0
      const answer = await lab.send({ path: '/delete?all=1', ...withCookie(cookie, headers) })
      const seen = answer.status === 404 ? 'refused' : lab.heads.length === 0 ? 'asked' : answer.body
      expect(seen, JSON.stringify(headers)).toBe(outcome)
    }
    for (const method of ['POST', 'HEAD']) {
      expect((await lab.send({ method, ...withCookie(cookie, { Referer: '' }) })).status).toBe(404)
    }
    const answer = await lab.send({ path: '/delete', ...withCookie(cookie, { Referer: '' }) })
    expect(answer.headers).toMatchObject({ 'x-frame-options': 'DENY', 'referrer-policy': 'same-origin' })
    expect(answer.headers['content-security-policy']).toContain("frame-ancestors 'none'")
    // Our page goes on from here; a page of others cannot.
    const to = '/.berth/open?path=%2Fdelete'
    const gone = await lab.send({ path: to, ...withCookie(cookie, { Referer: own }) })
    expect([gone.status, gone.headers.location]).toEqual([303, `http://${lab.host()}/delete`])
    expect((await lab.send({ path: to, ...withCookie(cookie, { Referer: '' }) })).status).toBe(404)
    const socket = lab.webSocket({ Cookie: cookie })
    socket.on('error', () => {})
    const [, refused] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage]
    expect(refused.statusCode).toBe(404)
    refused.resume()
  })

  test('works over plain HTTP with an application that hides where its requests come from (issue 31, 6)', async () => {
    lab.serve = (_, response) => void response.writeHead(200, { 'Referrer-Policy': 'no-referrer' }).end()
    const { headers } = await lab.send(withCookie(await lab.cookie()))
    expect(headers['referrer-policy']).toBe('same-origin')
  })

  test('keeps a WebSocket open until its key is revoked', async () => {
    const { key } = await newKey(lab.owner, ['compute:write'])
    const open = async (cookie: string) => {
      const socket = lab.webSocket({ Cookie: cookie, Origin: `http://${lab.host()}` })
      await once(socket, 'open')
      return socket
    }
    const [lasting, ending] = [await open(await lab.cookie()), await open(await lab.cookie(PRIVATE, key.public_id))]
    const closed = once(ending, 'close')
    await transact(lab.database, (tx) => revokeApiKey(tx, lab.owner.actor, key.public_id))
    await closed
    lasting.send('still there')
    expect(String((await once(lasting, 'message'))[0])).toBe('still there')
    lasting.terminate()
  })
})

test('cookies and credentials of ours never reach the application, whether they are valid or not', async () => {
  const cookie = await lab.cookie()
  const { text: token } = await newToken()
  const ours = `berth_session=secret1; ${cookie}; __Host-berth_port=secret2`
  await lab.send(withCookie(`a=1; ${ours}; b=2`, { Authorization: 'Basic dXNlcjpwYXNz' }))
  await lab.send({ headers: { Authorization: `Bearer ${token}`, Cookie: ours } })
  await lab.send(
    { headers: { Authorization: `bearer  ${lab.owner.keyText}`, Cookie: 'berth_session=secret1' } },
    PUBLIC,
  )
  await lab.send({ headers: { Authorization: 'Bearer sk-of-the-app', 'X-Api-Key': lab.owner.keyText } }, PUBLIC)
  const socket = lab.webSocket({ Cookie: `${ours}; c=3`, Authorization: `Bearer ${token}` })
  await once(socket, 'open')
  socket.terminate()
  const seen = lab.heads.map(({ headers }) => [headers.cookie, headers.authorization])
  expect(seen).toEqual([
    ['a=1; b=2', 'Basic dXNlcjpwYXNz'],
    [undefined, undefined],
    [undefined, undefined],
    [undefined, 'Bearer sk-of-the-app'],
    ['c=3', undefined],
  ])
  const all = JSON.stringify(lab.heads.map(({ rawHeaders }) => rawHeaders))
  for (const secret of ['secret1', 'secret2', token, lab.owner.keyText, cookie]) expect(all).not.toContain(secret)
})

test('the application cannot set our cookies, nor clear those of its neighbours', async () => {
  lab.serve = (_, response) => {
    const cookies = [
      'app=1',
      'berth_session=x; Domain=localhost',
      'berth_port=x',
      '__Host-berth_port=x; Secure; Path=/',
    ]
    response.writeHead(200, { 'Set-Cookie': cookies, 'Clear-Site-Data': '"cookies"' }).end()
  }
  const { headers } = await lab.send({}, PUBLIC)
  expect([headers['set-cookie'], headers['clear-site-data']]).toEqual([['app=1'], undefined])
})

test("the application cannot give orders to the operator's proxy (issue 31, 6)", async () => {
  const orders = {
    'X-Accel-Redirect': '/internal/secret',
    'x-accel-buffering': 'yes',
    'X-ACCEL-Expires': '9',
    'X-Sendfile': '/etc/passwd',
    'X-Sendfile-Type': 'X-Accel-Redirect',
    'X-SENDFILE2': '/etc/passwd 0-',
    'X-Lighttpd-Send-File': '/etc/passwd',
    'X-Reproxy-URL': 'http://127.0.0.1:1/',
    'X-LiteSpeed-Location': '/etc/passwd',
  }
  lab.serve = (_, response) => void response.writeHead(200, { ...orders, 'X-App': 'kept' }).end()
  const { headers } = await lab.send({}, PUBLIC)
  expect(headers).toMatchObject({ 'x-app': 'kept' })
  for (const name of Object.keys(orders)) expect(headers).not.toHaveProperty(name.toLowerCase())
})

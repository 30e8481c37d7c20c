/** The HTTP client of clouds: what is repeated, what is not, limits, and what an error may say. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { outboundAgent } from '../../base/outbound.ts'
import { manualClock } from '../../sim/clock.ts'
import { SimServer, type SimAnswer } from '../../sim/clouds/server.ts'
import { Breaker } from './breaker.ts'
import { CloudHttp, vendorText, type CloudError } from './http.ts'
import { Pacer } from './pacer.ts'

const { signal } = new AbortController()
const clock = manualClock()
const anything = z.object({ n: z.number().optional() }).optional()
const pages = z.object({ items: z.array(z.number()), total: z.number() })
const agents: Array<ReturnType<typeof outboundAgent>> = []
let server: SimServer
let baseUrl: string
let token = 'token-1'
let listed: number

beforeAll(async () => {
  const described = z.any()
  server = new SimServer({
    clock,
    routes: [
      { operation: 'get', method: 'GET', path: '/thing', handle: () => ({ status: 200, body: { n: 1 } }) },
      { operation: 'make', method: 'POST', path: '/thing', handle: () => ({ status: 200, body: { n: 2 } }) },
      {
        operation: 'page',
        method: 'GET',
        path: '/page',
        handle: ({ query }) => page(Number(query.get('offset') ?? 0)),
      },
    ],
    description: Object.fromEntries(
      ['get', 'make', 'page'].map((name) => [
        name,
        { body: described, query: described, answers: { 200: described, 401: described, 404: described } },
      ]),
    ),
    authorize: ({ headers }) => (headers.authorization === token ? undefined : { status: 401, body: 'no' }),
    notFound: { status: 404 },
  })
  baseUrl = await server.listen()
})
afterAll(async () => {
  await Promise.all(agents.map((agent) => agent.destroy()))
  await server.close()
})
beforeEach(() => {
  token = 'token-1'
  listed = 5
  server.requests.length = 0
  server.down = false
})

function page(offset: number): SimAnswer {
  const items = [0, 1].map((n) => offset + n).filter((n) => n < listed)
  return { status: 200, body: { items, total: listed } }
}

function client(
  options: Partial<{ allowPrivate: boolean; breaker: Breaker; authorize: () => string; timeoutMs: number }> = {},
) {
  const { allowPrivate = true, breaker = new Breaker(clock), authorize = () => 'token-1', timeoutMs = 2_000 } = options
  const agent = outboundAgent({ allowPrivate, timeoutMs })
  agents.push(agent)
  return new CloudHttp({
    baseUrl,
    agent,
    clock,
    pacer: new Pacer({ everyMs: 0 }),
    breaker,
    timeoutMs,
    retryMs: 0,
    secrets: ['token-1', 'hunter22'],
    authorize: async () => ({ authorization: authorize() }),
  })
}

describe('a read', () => {
  test('is repeated after a broken connection, a 5xx and a 429 that asks for a short pause', async () => {
    server.arm('get', { kind: 'lost' })
    server.arm('get', { kind: 'answer', answer: { status: 503 } })
    expect(await client().read(anything, { path: '/thing', signal })).toEqual({ n: 1 })
    server.arm('get', { kind: 'answer', answer: { status: 429, headers: { 'retry-after': '0' } } })
    expect(await client().read(anything, { path: '/thing', signal })).toEqual({ n: 1 })
    expect(server.requests).toHaveLength(5)
  })

  test('is not repeated for longer than the vendor asks to wait, or after a refusal', async () => {
    server.arm('get', { kind: 'answer', answer: { status: 429, headers: { 'retry-after': '3600' } } })
    await expect(client().read(anything, { path: '/thing', signal })).rejects.toMatchObject({ status: 429 })
    server.arm('get', { kind: 'answer', answer: { status: 404 } })
    await expect(client().read(anything, { path: '/thing', signal })).rejects.toMatchObject({
      status: 404,
      isRefusal: true,
    })
    expect(server.requests).toHaveLength(2)
  })

  test('of an answer with another shape is an error that names the field', async () => {
    server.arm('get', { kind: 'answer', answer: { status: 200, body: { n: 'one' } } })
    await expect(client().read(anything, { path: '/thing', signal })).rejects.toThrow(/ at n/)
  })

  test('of all pages ends with the last one, and a list without an end is an error', async () => {
    const http = client()
    const next = (_: unknown, all: readonly unknown[]) =>
      all.length * 2 < listed ? { offset: all.length * 2 } : undefined
    const found = await http.readPages(pages, { path: '/page', signal }, next)
    expect(found.flatMap(({ items }) => items)).toEqual([0, 1, 2, 3, 4])
    const endless = http.readPages(pages, { path: '/page', signal }, () => ({ offset: 0 }))
    await expect(endless).rejects.toThrow(/without an end/)
  })
})

describe('a write', () => {
  test.each(['lost', 'late'] as const)(
    'whose connection broke (%s) is sent once and has an unknown outcome',
    async (kind) => {
      server.arm('make', { kind })
      const failed = await client().write(anything, { method: 'POST', path: '/thing', body: {}, signal }).catch(asError)
      expect(failed).toMatchObject({ status: undefined, isRefusal: false })
      expect(server.requests).toEqual(['make'])
    },
  )

  test('without an answer times out with an unknown outcome', async () => {
    server.arm('make', { kind: 'hang' })
    const http = client({ timeoutMs: 50 })
    const failed = await http.write(anything, { method: 'POST', path: '/thing', body: {}, signal }).catch(asError)
    expect(failed).toMatchObject({ status: undefined, isRefusal: false })
  })

  test('that was rejected for its token is sent again with a new one, once', async () => {
    token = 'token-2'
    const tokens = ['token-1', 'token-2']
    const http = client({ authorize: () => tokens.shift() ?? 'token-3' })
    expect(await http.write(anything, { method: 'POST', path: '/thing', body: {}, signal })).toEqual({ n: 2 })
    await expect(client().write(anything, { method: 'POST', path: '/thing', body: {}, signal })).rejects.toMatchObject({
      status: 401,
    })
    expect(server.requests).toHaveLength(3)
  })
})

test('errors contain no credentials, even if the vendor repeats them', async () => {
  server.arm('get', { kind: 'answer', answer: { status: 404, body: { error: 'no user token-1:hunter22' } } })
  const failed = await client()
    .read(anything, { path: '/thing', signal })
    .then(() => '', String)
  expect(failed).toMatch(/404/)
  expect(failed).not.toMatch(/token-1|hunter22/)
})

test('private addresses are refused unless the server allows them', async () => {
  const failed = await client({ allowPrivate: false })
    .read(anything, { path: '/thing', signal })
    .then(() => '', String)
  expect(failed).toMatch(/no public address/)
  expect(server.requests).toEqual([])
})

test('a vendor that keeps failing is left alone, tried again, and trusted after one success', async () => {
  const breaker = new Breaker(clock)
  const http = client({ breaker })
  const ask = () =>
    http.write(anything, { method: 'POST', path: '/thing', body: {}, signal }).then(
      () => 'ok',
      () => 'failed',
    )
  server.down = true
  for (let n = 0; n < 6; n += 1) expect(await ask()).toBe('failed')
  server.down = false
  expect(await ask()).toBe('failed')
  expect(breaker.openUntil).toBeDefined()
  expect(server.requests).toEqual([])
  clock.advance(60_000)
  expect(await ask()).toBe('ok')
  expect(await ask()).toBe('ok')
  expect(breaker.openUntil).toBeUndefined()
})

test('requests of one account are kept apart, and a route with a limit of its own does not hold up the others', async () => {
  const pacer = new Pacer({ everyMs: 20, routes: { launch: 200 } })
  const startedAt = performance.now()
  const order: string[] = []
  const turn = (name: string, route?: string) => pacer.turn(route, signal).then(() => order.push(name))
  await Promise.all([turn('launch 1', 'launch'), turn('launch 2', 'launch'), turn('read 1'), turn('read 2')])
  expect(order).toEqual(['launch 1', 'read 1', 'read 2', 'launch 2'])
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(195)
  await expect(pacer.turn(undefined, AbortSignal.abort())).rejects.toThrow(/abort/)
})

function asError(error: unknown): CloudError {
  return error as CloudError
}

test.each([
  [{ error: { code: 'global/quota-exceeded', message: 'Quota exceeded.' } }, 'Quota exceeded.'],
  [{ errors: [{ code: 'REFUSED', title: 'Refused', detail: 'No such plan.' }] }, 'No such plan.'],
  [{ code: 'x', message: 'Not enough credit.' }, 'Not enough credit.'],
  [{ error: 'invalid_grant' }, 'invalid_grant'],
  ['Bad Gateway', 'Bad Gateway'],
  [undefined, 'no reason'],
  [{ code: 7 }, '{"code":7}'],
])('%#: an error says what the vendor said, without its JSON', (body, said) => {
  expect(vendorText(body)).toBe(said)
})

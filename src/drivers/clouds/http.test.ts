/** The HTTP client of clouds: what is repeated, what is not, limits, and what an error may say. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { outboundAgent } from '../../base/net/outbound.ts'
import { systemClock } from '../../base/instant.ts'
import { signalWithin } from '../../base/signal-within.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { SimServer, type SimAnswer } from '../../../test/sim/clouds/server.ts'
import { Breaker } from './breaker.ts'
import { memoryTurns } from '../../../test/harness/cloud-world.ts'
import { CloudHttp, vendorText, type CloudError } from './http.ts'
import { Pacer } from './pacer.ts'
import { bearerTokens } from './token.ts'

const { signal } = new AbortController()
const clock = manualClock()
const anything = z.object({ n: z.number().optional() }).optional()
const pages = z.object({ items: z.array(z.number()), total: z.number() })
const agents: Array<ReturnType<typeof outboundAgent>> = []
let server: SimServer
let baseUrl: string
let token = 'token-1'
let listed: number
const warnings: string[] = []

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
  options: Partial<{
    allowPrivate: boolean
    breaker: Breaker
    authorize: (renew: boolean) => string | Promise<string>
    timeoutMs: number
    pacer: Pacer
  }> = {},
) {
  const { allowPrivate = true, breaker = new Breaker(clock), authorize = () => 'token-1', timeoutMs = 2_000 } = options
  const { pacer = new Pacer({ everyMs: 0 }, clock, memoryTurns(clock)) } = options
  const agent = outboundAgent({ allowPrivate, timeoutMs })
  agents.push(agent)
  return new CloudHttp({
    baseUrl,
    agent,
    clock,
    pacer,
    breaker,
    timeoutMs,
    secrets: ['token-1', 'hunter22'],
    warn: (error) => void warnings.push(String(error)),
    authorize: async (_sent, renew) => ({ authorization: await authorize(renew) }),
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
    const pageValues = await http.readPages(pages, { path: '/page', signal }, next)
    expect(pageValues.flatMap(({ items }) => items)).toEqual([0, 1, 2, 3, 4])
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

test('an entry of a list that cannot be read is left out and reported once (issue 31, 8: S-8)', () => {
  const http = client()
  const entries = [{ n: 1 }, { n: 'token-1' }, 'x', { n: 3 }]
  for (let n = 0; n < 2; n += 1)
    expect(http.readable(z.object({ n: z.number() }), entries, '/list')).toEqual([{ n: 1 }, { n: 3 }])
  expect(warnings).toHaveLength(2)
  expect(warnings.join()).not.toContain('token-1')
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

describe('a vendor that was away for longer than a token lives (issue 31, 8: S-1)', () => {
  const ask = { method: 'POST', path: '/thing', body: {}, signal } as const
  const open = () => {
    const breaker = new Breaker(clock)
    const anonymous = client({ breaker })
    const tokens = bearerTokens(clock, async (signal) => {
      await anonymous.read(anything, { path: '/thing', signal })
      return { text: 'x', lifetimeMs: 600_000 }
    })
    const http = client({
      breaker,
      authorize: async (renew) => {
        await tokens({ method: 'GET', path: '', body: '' }, renew, signal)
        return token
      },
    })
    return { breaker, http }
  }

  test('is asked for a token, and used again', async () => {
    const { breaker, http } = open()
    await http.write(anything, ask)
    server.down = true
    for (let n = 0; n < 6; n += 1) await expect(http.write(anything, ask)).rejects.toBeInstanceOf(Error)
    clock.advance(3_600_000)
    await expect(http.write(anything, ask)).rejects.toBeInstanceOf(Error)
    server.down = false
    server.requests.length = 0
    clock.advance(600_000)
    expect(await http.write(anything, ask)).toEqual({ n: 2 })
    expect(server.requests).toEqual(['get', 'make'])
    expect(breaker.openUntil).toBeUndefined()
  })

  test('may reject the old token first', async () => {
    const { breaker, http } = open()
    await http.write(anything, ask)
    server.down = true
    for (let n = 0; n < 6; n += 1) await expect(http.write(anything, ask)).rejects.toBeInstanceOf(Error)
    server.down = false
    clock.advance(60_000)
    server.arm('make', { kind: 'answer', answer: { status: 401, body: 'expired' } })
    await http.write(anything, ask).catch(asError)
    expect(await http.write(anything, ask)).toEqual({ n: 2 })
    expect(breaker.openUntil).toBeUndefined()
  })
})

test('the timeout of a request begins when it is sent: seven at once are all sent (issue 31, 8: S-2)', async () => {
  const breaker = new Breaker(clock)
  const timeoutMs = 1_500
  // The first pause is longer than the timeout.
  const patience = signalWithin(signal, timeoutMs + 500)
  const over = new Promise<void>((resolve) => patience.addEventListener('abort', () => resolve()))
  const slow = { now: () => clock.now(), wait: () => over }
  const http = client({
    breaker,
    pacer: new Pacer({ everyMs: 5, routes: { launch: 60 } }, slow, memoryTurns(clock)),
    timeoutMs,
  })
  const ask = { method: 'POST', path: '/thing', route: 'launch', body: {}, signal } as const
  const answers = await Promise.all(Array.from({ length: 7 }, () => http.write(anything, ask)))
  expect(answers).toEqual(Array.from({ length: 7 }, () => ({ n: 2 })))
  expect(server.requests).toHaveLength(7)
  expect(breaker.openUntil).toBeUndefined()
})

test('a request that is given up while it waits takes no turn from the others', async () => {
  const turns = memoryTurns(clock)
  const reserved: string[] = []
  const reserve: typeof turns.reserve = async (route, everyMs) => {
    reserved.push(route)
    return turns.reserve(route, everyMs)
  }
  let goOn = (): void => {}
  const held = new Promise<void>((resolve) => (goOn = resolve))
  const pacer = new Pacer({ everyMs: 1_000 }, { now: () => clock.now(), wait: () => held }, { ...turns, reserve })
  await pacer.turn(undefined, signal)
  const first = pacer.turn(undefined, signal)
  const givenUp = new AbortController()
  const others = Array.from({ length: 5 }, () => pacer.turn(undefined, givenUp.signal).catch((error: unknown) => error))
  givenUp.abort(new Error('given up'))
  expect(await Promise.all(others)).toEqual(others.map(() => new Error('given up')))
  goOn()
  await first
  await pacer.turn(undefined, signal)
  expect(reserved).toHaveLength(3)
})

test('requests of one account are kept apart, and a route with a limit of its own does not hold up the others', async () => {
  const pacer = new Pacer({ everyMs: 20, routes: { launch: 200 } }, systemClock, memoryTurns(systemClock))
  const startedAt = performance.now()
  const order: string[] = []
  const turn = (name: string, route?: string) => pacer.turn(route, signal).then(() => order.push(name))
  await Promise.all([turn('launch 1', 'launch'), turn('launch 2', 'launch'), turn('read 1'), turn('read 2')])
  expect(order.at(-1)).toBe('launch 2')
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
])('%#: an error says what the vendor said, without its JSON', (body, message) => {
  expect(vendorText(body)).toBe(message)
})

/** What an agent holds for a while, to the millisecond: quotes for five minutes, and consent for ten. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { addMs, instantOf, MINUTE_MS, toDate } from '../src/base/instant.ts'
import { callTool } from './harness/agent-client.ts'
import { succeed } from './harness/journey.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { manualClock } from './sim/clock.ts'

const START = instantOf(Date.parse('2026-11-18T12:00:00Z'))
const QUOTE_MS = 5 * MINUTE_MS
const CONSENT_MS = 10 * MINUTE_MS
const MACHINE = 'mock-sin-a100-01'
/** Above $10, so that the user is asked. */
const dear = { spendingLimitUsd: 200, hours: 100 }
const accept = { inputResponses: { confirm: { action: 'accept', content: { confirm: true } } } }

const clock = manualClock(START)
let server: TestServer
let customer: Awaited<ReturnType<TestServer['account']>>

beforeAll(async () => {
  server = await testServer({ clock, runLoops: false })
})
afterAll(() => server.close())
beforeEach(async () => {
  customer = await server.account({ usd: '1000' })
})
afterEach(async () => {
  // The machine has GPUs for a few of them.
  for (const { name } of await rentals()) await succeed(customer.call, 'DELETE', `/v2/rentals/${name}`)
})

type Result = Awaited<ReturnType<typeof callTool>>

const call = (name: string, args: object, more: object = {}, key = customer.key): Promise<Result> =>
  callTool(server.url, key, name, args, more)
const reasonOf = ({ content }: { content: Array<{ text: string }> }): string =>
  JSON.parse(content[0]?.text ?? '{}').error
const rentals = async (): Promise<Array<{ name: string; state: string }>> =>
  (await succeed(customer.call, 'GET', '/v2/rentals?ended=include')).rentals

async function quoteFor(more: object = {}): Promise<{ quote: string; expiresAt: string }> {
  const args = { machineId: MACHINE, image: 'busybox:1', spendingLimitUsd: 9, hours: 1, ...more }
  return (await call('get_quote', args)).structuredContent
}

async function keyOf(account: typeof customer): Promise<string> {
  const scopes = ['inference', 'compute:read', 'compute:write', 'billing:read']
  return (await succeed(account.call, 'POST', '/v2/api-keys', { name: 'an agent', scopes })).key
}

describe('P53: a quote', () => {
  test('orders until the last millisecond of its five minutes', async () => {
    const issuedAt = clock.now()
    const { quote, expiresAt } = await quoteFor()
    expect(expiresAt).toBe(toDate(addMs(issuedAt, QUOTE_MS)).toISOString())
    clock.advance(QUOTE_MS - 1)
    const rented = await call('rent', { quote })
    expect(rented.structuredContent.rental).toEqual(expect.any(String))
    expect(await rentals()).toHaveLength(1)
  })

  test('orders nothing at the end of its five minutes, or later', async () => {
    const { quote } = await quoteFor()
    for (const later of [QUOTE_MS, 1, 24 * 60 * MINUTE_MS]) {
      clock.advance(later)
      expect(reasonOf(await call('rent', { quote }))).toBe('quote_expired')
    }
    expect(await rentals()).toEqual([])
  })

  test('that has ordered gives the same machine again, and nothing once it has expired', async () => {
    const { quote } = await quoteFor()
    const first = await call('rent', { quote })
    clock.advance(QUOTE_MS - 1)
    const again = await call('rent', { quote })
    expect(again.structuredContent.rental).toBe(first.structuredContent.rental)
    clock.advance(1)
    expect(reasonOf(await call('rent', { quote }))).toBe('quote_expired')
    expect((await rentals()).map(({ name }) => name)).toEqual([first.structuredContent.rental])
  })

  test('is of no use to another key of the account, or to another account, while it is valid', async () => {
    const { quote } = await quoteFor()
    const stranger = await server.account({ usd: '1000' })
    for (const key of [await keyOf(customer), stranger.key, await keyOf(stranger)]) {
      expect(reasonOf(await call('rent', { quote }, {}, key))).toBe('quote_of_other_key')
    }
    expect(await rentals()).toEqual([])
    expect((await succeed(stranger.call, 'GET', '/v2/rentals?ended=include')).rentals).toEqual([])
    // Nor does a call by its own key for something else.
    expect(reasonOf(await call('create_volume', { quote }))).toBe('quote_invalid')
    expect(reasonOf(await call('deploy_model', { quote }))).toBe('quote_invalid')
  })

  test('that expires while its user is asked orders nothing', async () => {
    const { quote } = await quoteFor(dear)
    const { requestState } = await call('rent', { quote })
    expect(requestState).toEqual(expect.any(String))
    clock.advance(QUOTE_MS)
    expect(reasonOf(await call('rent', { quote }, { ...accept, requestState }))).toBe('quote_expired')
    expect(await rentals()).toEqual([])
  })
})

describe('P54: consent', () => {
  async function rented(): Promise<string> {
    const { quote } = await quoteFor()
    return (await call('rent', { quote })).structuredContent.rental
  }

  test('counts until the last millisecond of its ten minutes', async () => {
    const rental = await rented()
    const { requestState } = await call('terminate', { rental })
    clock.advance(CONSENT_MS - 1)
    const ended = await call('terminate', { rental }, { ...accept, requestState })
    expect(ended.structuredContent).toMatchObject({ rental, state: expect.stringMatching(/^Terminat/) })
  })

  test('counts for nothing at the end of its ten minutes, or later', async () => {
    const rental = await rented()
    const { requestState } = await call('terminate', { rental })
    for (const later of [CONSENT_MS, 1, 24 * 60 * MINUTE_MS]) {
      clock.advance(later)
      const refused = await call('terminate', { rental }, { ...accept, requestState })
      expect(reasonOf(refused)).toBe('confirmation_invalid')
    }
    expect(await rentals()).toMatchObject([{ name: rental, state: 'Pending' }])
  })

  test('to an order gives one machine, however often it is repeated', async () => {
    const { quote } = await quoteFor(dear)
    const { requestState } = await call('rent', { quote })
    const repeats = Array.from({ length: 5 }, () => call('rent', { quote }, { ...accept, requestState }))
    const names = (await Promise.all(repeats)).map(({ structuredContent }) => structuredContent?.rental)
    expect(new Set(names).size).toBe(1)
    expect((await rentals()).map(({ name }) => name)).toEqual([names[0]])
    // Another quote with the same terms is another order, which was not agreed to.
    const other = (await quoteFor(dear)).quote
    expect(reasonOf(await call('rent', { quote: other }, { ...accept, requestState }))).toBe('confirmation_invalid')
    expect(await rentals()).toHaveLength(1)
  })

  test('to the end of a machine ends no other, and is of no use to another key or account', async () => {
    const [rental, other] = [await rented(), await rented()]
    const { requestState } = await call('terminate', { rental })
    const stranger = await server.account({ usd: '1000' })
    const answer = { ...accept, requestState }
    expect(reasonOf(await call('terminate', { rental }, answer, await keyOf(customer)))).toBe('confirmation_invalid')
    expect(reasonOf(await call('terminate', { rental }, answer, stranger.key))).toBe('rental_not_found')
    expect(reasonOf(await call('terminate', { rental: other }, answer))).toBe('confirmation_invalid')
    expect((await rentals()).map(({ state }) => state)).toEqual(['Pending', 'Pending'])
    // The state of a question is no quote, and a quote is no state.
    expect(reasonOf(await call('rent', { quote: requestState }))).toBe('quote_invalid')
    const { quote } = await quoteFor()
    const mixed = await call('terminate', { rental }, { ...accept, requestState: quote })
    expect(reasonOf(mixed)).toBe('confirmation_invalid')
    expect((await call('terminate', { rental }, answer)).structuredContent.rental).toBe(rental)
    expect((await rentals()).find(({ name }) => name === other)?.state).toBe('Pending')
  })
})

/** The client against a complete server; a custom `fetch` simulates faults that a server cannot produce. */
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest'
import { startReceiver, status } from '../../test/harness/receiver.ts'
import { testServer, type TestServer } from '../../test/harness/server.ts'
import { makeClient, type CallInput, type Client, type Reply } from './client.ts'
import { ApiError, isClientError, TransportError } from './error.ts'

let server: TestServer
let client: Client
let operator: Client

beforeAll(async () => {
  server = await testServer()
  client = makeClient({ url: server.url, key: server.demoKey })
  operator = makeClient({ url: `${server.url}/`, key: server.operatorKey })
})
afterAll(() => server.close())

async function failureOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error,
  )
}

describe('the types follow the contract', () => {
  test('require only the parts that an operation needs', () => {
    expectTypeOf<CallInput<'getRental'>['params']>().toEqualTypeOf<{ id: string }>()
    expectTypeOf<NonNullable<CallInput<'listAccounts'>['query']>['limit']>().toEqualTypeOf<number | undefined>()
    expectTypeOf<NonNullable<CallInput<'listAllRentals'>['query']>['stuck']>().toEqualTypeOf<boolean | undefined>()
    expectTypeOf<Reply<'getCustomerBalance'>['emptyAt']>().toEqualTypeOf<string | null>()
  })

  test('reject parts that an operation does not have', () => {
    const wrong = [
      // @ts-expect-error the ID of the rental is missing
      () => client.call('getRental'),
      // @ts-expect-error the body is missing
      () => client.call('createApiKey', {}),
      // @ts-expect-error the scope does not exist
      () => client.call('createApiKey', { body: { name: 'x', scopes: ['all'] } }),
      // @ts-expect-error this operation has no body
      () => client.call('getMe', { body: {} }),
      // @ts-expect-error a stream is followed, not called
      () => client.call('followEvents'),
    ]
    expect(wrong).toHaveLength(5)
  })
})

describe('a call', () => {
  test('returns the response of the operation', async () => {
    const me = await client.call('getMe')
    expect(me.account).toMatchObject({ id: 'demo', name: 'Demo' })
    expect(await client.call('getCustomerBalance')).toMatchObject({ availableUsd: '20000.000000000' })
  })

  test('fills and encodes the path, and sends query and body', async () => {
    const odd = await failureOf(operator.call('getAccount', { params: { id: 'a/../b?c=d' } }))
    expect(odd).toMatchObject({ kind: 'api', status: 404, reason: 'account_not_found' })
    const account = await operator.call('getAccount', { params: { id: 'demo' } })
    expect(account.name).toBe('Demo')
    const page = await operator.call('listAccounts', { query: { limit: 1 } })
    expect(page.accounts).toHaveLength(1)
    const next = await operator.call('listAccounts', { query: { limit: 1, cursor: page.nextCursor ?? '' } })
    expect(next.accounts[0]?.id).not.toBe(page.accounts[0]?.id)
    const stuck = await operator.call('listAllRentals', { query: { stuck: true } })
    expect(stuck.rentals).toEqual([])
  })

  test.each(['', '.', '..'])('rejects the ID "%s", which would reach another operation', async (id) => {
    await expect(operator.call('getAccount', { params: { id } })).rejects.toThrow(TypeError)
  })

  test('returns a page as text', async () => {
    const { invoices } = await client.call('listInvoices')
    const month = invoices[0]?.month ?? ''
    expect(await client.call('getInvoicePage', { params: { month } })).toContain('<!doctype html>')
  })

  test('needs no key for a public operation', async () => {
    const anyone = makeClient({ url: server.url })
    expect(await anyone.call('listRentalOptions')).not.toHaveLength(0)
    expect(await anyone.ready()).toEqual({ ok: true, checks: { database: 'ok', mock: 'ok', journal: 'ok' } })
  })

  test('rejects an idempotency key that the operation would ignore', async () => {
    await expect(client.call('getMe', { idempotencyKey: 'once' })).rejects.toThrow('takes no idempotency key')
  })

  test.each(['', 'ftp://host', 'localhost:8420', 'http://'])('rejects the URL "%s"', (url) => {
    expect(() => makeClient({ url })).toThrow('is not an http or https URL')
  })
})

describe('an error response is an ApiError', () => {
  test('in v2, with every fault in the message', async () => {
    const error = await failureOf(client.call('createApiKey', { body: { name: '', scopes: [] } }))
    expect(error).toBeInstanceOf(ApiError)
    expect(error).toMatchObject({
      kind: 'api',
      status: 400,
      code: 'BAD_REQUEST',
      requestId: expect.stringMatching(/^req_/),
    })
    expect((error as ApiError).issues.map((issue) => issue.path)).toEqual([['name'], ['scopes']])
    expect((error as ApiError).message).toMatch(/^Input validation failed: name: .+; scopes: .+/)
  })

  test('in v1, with the same fields', async () => {
    const body = { cluster_name: 'x', node_name: 'y', gpu_count: 0 }
    const error = await failureOf(client.call('createInstance', { body }))
    expect(error).toMatchObject({ kind: 'api', status: 400, code: 'invalid_request_error' })
    expect((error as ApiError).issues[0]?.path).toEqual(['gpu_count'])
    expect((error as ApiError).message).toContain('gpu_count')
  })

  test('with the reason for an invalid key', async () => {
    const anonymous = makeClient({ url: server.url })
    expect(await failureOf(anonymous.call('getMe'))).toMatchObject({ status: 401, reason: 'missing_key' })
    expect(await failureOf(client.call('verifyLedger'))).toMatchObject({ status: 403, reason: 'missing_scope' })
  })

  test('even with the body of a proxy', async () => {
    const page = { fetch: () => Promise.resolve(new Response('<h1>Teapot</h1>', { status: 418 })) }
    const error = await failureOf(makeClient({ url: server.url, ...page }).call('getMe'))
    expect(error).toMatchObject({ kind: 'api', status: 418, code: 'HTTP_418' })
  })
})

describe('a call without a valid response', () => {
  test('is unreachable if the port is closed', async () => {
    const receiver = await startReceiver()
    await receiver.close()
    const error = await failureOf(makeClient({ url: receiver.url }).call('getMe'))
    expect(error).toBeInstanceOf(TransportError)
    expect(error).toMatchObject({
      kind: 'unreachable',
      message: `Cannot reach ${receiver.url}: the connection was refused`,
    })
  })

  test('is garbled if another program responds', async () => {
    const receiver = await startReceiver()
    receiver.answer = (_, response) => void response.end('<html>')
    const other = makeClient({ url: receiver.url })
    expect(await failureOf(other.call('getMe'))).toMatchObject({ kind: 'garbled' })
    expect(await failureOf(other.ready())).toMatchObject({ kind: 'garbled' })
    expect(await failureOf(other.follow({ after: '1' }).next())).toMatchObject({ kind: 'garbled' })
    await receiver.close()
  })

  test('ends at its timeout, and with its signal', async () => {
    const receiver = await startReceiver()
    const arrival = new Promise<void>((resolve) => (receiver.answer = () => resolve()))
    const silent = makeClient({ url: receiver.url })
    const timeout = await failureOf(silent.call('getMe', { timeoutMs: 20 }))
    expect(timeout).toMatchObject({ kind: 'timeout', message: `${receiver.url} did not respond within 0.02 s` })
    const { signal, ...controller } = abortable()
    const work = failureOf(silent.call('getMe', { signal }))
    await arrival
    controller.abort()
    expect(isClientError(await work)).toBe(true)
    expect(await work).toMatchObject({ kind: 'aborted' })
    expect(await failureOf(silent.call('getMe', { signal }))).toMatchObject({ kind: 'aborted' })
    await receiver.close()
  })
})

function abortable(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}

/** A lost connection: `before` the request arrives, or `after` the server has handled it. */
function badLine(cuts: ReadonlyArray<'before' | 'after'>): { fetch: typeof fetch; sent: () => number } {
  let sent = 0
  const cutting: typeof fetch = async (input, init) => {
    const cut = cuts[sent]
    sent += 1
    const response = cut === 'before' ? undefined : await fetch(input, init)
    if (cut === undefined && response !== undefined) return response
    await response?.text()
    throw new TypeError('fetch failed', { cause: Object.assign(new Error('cut'), { code: 'ECONNRESET' }) })
  }
  return { fetch: cutting, sent: () => sent }
}

describe('a lost connection', () => {
  const cutTwice = ['before', 'after'] as const

  test('is retried for a read, three attempts in total', async () => {
    const line = badLine(cutTwice)
    expect(await makeClient({ url: server.url, key: server.demoKey, ...line }).call('getMe')).toHaveProperty('email')
    expect(line.sent()).toBe(3)
    const worse = badLine([...cutTwice, 'before', 'before'])
    const error = await failureOf(makeClient({ url: server.url, key: server.demoKey, ...worse }).call('getMe'))
    expect(error).toMatchObject({ kind: 'unreachable' })
    expect(worse.sent()).toBe(3)
  })

  test('never credits twice with an idempotency key', async () => {
    const { id } = await server.account()
    const line = badLine(cutTwice)
    const cut = makeClient({ url: server.url, key: server.operatorKey, ...line })
    const body = { amountUsd: '5', reason: 'a cut line' }
    const credited = await cut.call('creditAccount', { params: { id }, body, idempotencyKey: `cut ${id}` })
    expect(line.sent()).toBe(3)
    expect(credited.availableUsd).toBe('5.000000000')
  })

  test('is not retried for a create without an idempotency key', async () => {
    const line = badLine(cutTwice)
    const cut = makeClient({ url: server.url, key: server.demoKey, ...line })
    const error = await failureOf(cut.call('createApiKey', { body: { name: 'cut', scopes: ['inference'] } }))
    expect(error).toMatchObject({ kind: 'unreachable' })
    expect(line.sent()).toBe(1)
  })

  test('is treated like a server that is briefly busy', async () => {
    const receiver = await startReceiver()
    const codes = [503, 502]
    receiver.answer = (request, response) => {
      const code = codes.shift()
      if (code === undefined) response.end('{"id":"usr_1"}')
      else void status(code)(request, response)
    }
    expect(await makeClient({ url: receiver.url }).call('getMe')).toEqual({ id: 'usr_1' })
    await receiver.close()
  })
})

/** An event stream that is cut, ended and reopened, against a complete server. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { EventRecord } from '../contract/event.ts'
import { testServer, type TestServer } from '../../test/harness/server.ts'
import { waitFor } from '../../test/harness/wait.ts'
import { makeClient, type Client } from './client.ts'

let server: TestServer
let client: Client

beforeAll(async () => {
  server = await testServer()
  client = makeClient({ url: server.url, key: server.demoKey })
})
afterAll(() => server.close())

async function emit(count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    await client.call('createApiKey', { body: { name: `key ${n}`, scopes: ['inference'] } })
  }
}

async function take(events: AsyncGenerator<EventRecord, void>, count: number): Promise<string[]> {
  const ids: string[] = []
  while (ids.length < count) {
    const { value, done } = await events.next()
    if (done === true || value === undefined) break
    ids.push(value.id)
  }
  return ids
}

async function readToEnd(events: AsyncGenerator<EventRecord, void>): Promise<IteratorResult<EventRecord, void>> {
  for (;;) {
    const next = await events.next()
    if (next.done === true) return next
  }
}

async function newest(count: number): Promise<string[]> {
  const { events } = await client.call('listEvents', { query: { limit: count } })
  return events.map((event) => event.id).toReversed()
}

test('starts after the given event', async () => {
  await emit(3)
  const [first = '', ...rest] = await newest(3)
  const events = client.follow({ after: first })
  expect(await take(events, 2)).toEqual(rest)
  await events.return()
})

test('resumes after the last event when the stream is cut, without gaps', async () => {
  let opened = 0
  // Cuts each stream after its first event, while more are in flight.
  const cutting: typeof fetch = async (input, init) => {
    const line = new AbortController()
    init?.signal?.addEventListener('abort', () => line.abort())
    const response = await fetch(input, { ...init, signal: line.signal })
    if (response.headers.get('content-type') !== 'text/event-stream') return response
    opened += 1
    return new Response(response.body?.pipeThrough(cutAfterFirstEvent(() => line.abort())), response)
  }
  await emit(4)
  const [first = '', ...rest] = await newest(4)
  const events = makeClient({ url: server.url, key: server.demoKey, fetch: cutting }).follow({ after: first })
  expect(await take(events, 3)).toEqual(rest)
  await events.return()
  expect(opened).toBeGreaterThanOrEqual(3)
})

test('reports when the stream opens, once when it is lost, and when it reopens', async () => {
  await emit(2)
  const [first = '', second = ''] = await newest(2)
  const line = new AbortController()
  let refused = 0
  // Cut once, then unreachable for three attempts.
  const dying: typeof fetch = (input, init) => {
    if (!line.signal.aborted)
      return fetch(input, { ...init, signal: AbortSignal.any([line.signal, ...signalOf(init)]) })
    refused += 1
    return refused > 3 ? fetch(input, init) : Promise.reject(new TypeError('fetch failed'))
  }
  const calls: string[] = []
  const events = makeClient({ url: server.url, key: server.demoKey, fetch: dying }).follow({
    after: first,
    onOpen: (after) => calls.push(`open after ${after}`),
    onLost: () => calls.push('lost'),
  })
  expect(await take(events, 1)).toEqual([second])
  expect(calls).toEqual([`open after ${first}`])
  const coming = take(events, 1)
  line.abort()
  await emit(1)
  expect(await coming).toEqual(await newest(1))
  expect(calls).toEqual([`open after ${first}`, 'lost', `open after ${second}`])
  await events.return()
})

test('starts at the newest event by default', async () => {
  await emit(1)
  const events = client.follow()
  const controller = new AbortController()
  const quiet = client.follow({ signal: controller.signal })
  const [before = ''] = await newest(1)
  let isHeard = false
  const coming = Promise.all([take(events, 1), quiet.next()]).finally(() => (isHeard = true))
  // Events before both have started do not count.
  await waitFor('both to hear of it', async () => {
    await emit(1)
    return isHeard
  })
  const [[after = ''], met] = await coming
  expect(BigInt(after)).toBeGreaterThan(BigInt(before))
  expect(met.value).toMatchObject({ type: 'key.created' })
  expect(BigInt(met.value?.id ?? '0')).toBeGreaterThan(BigInt(before))
  // It may have received more than one meanwhile.
  const ended = readToEnd(quiet)
  controller.abort()
  expect(await ended).toEqual({ done: true, value: undefined })
  await events.return()
})

test('an operator follows the events of every account, from now on or after one', async () => {
  const operator = makeClient({ url: server.url, key: server.operatorKey })
  const { events: before } = await operator.call('listAllEvents', { query: { limit: 1 } })
  await emit(1)
  const { id } = await server.account({ usd: '1' })
  const events = operator.followAll({ after: before[0]?.id ?? '0' })
  const received = [await events.next(), await events.next(), await events.next()].map(({ value }) => value)
  await events.return()
  expect(received).toMatchObject([
    { accountId: 'demo', type: 'key.created' },
    { accountId: id, type: 'key.created' },
    { accountId: id, type: 'balance.credited' },
  ])
  await expect(client.followAll().next()).rejects.toMatchObject({ kind: 'api', status: 403 })
})

test('ends when the key is rejected', async () => {
  const refused = makeClient({ url: server.url, key: 'bk_wrong' }).follow().next()
  await expect(refused).rejects.toMatchObject({ kind: 'api', status: 401 })
})

function cutAfterFirstEvent(cut: () => void): TransformStream<Uint8Array, Uint8Array> {
  return new TransformStream({
    transform: (chunk, controller) => {
      const text = new TextDecoder().decode(chunk)
      const end = text.indexOf('\n\n', text.indexOf('id: '))
      if (!text.includes('id: ') || end === -1) return controller.enqueue(chunk)
      controller.enqueue(new TextEncoder().encode(text.slice(0, end + 2)))
      controller.terminate()
      cut()
    },
  })
}

function signalOf(init: RequestInit | undefined): AbortSignal[] {
  return init?.signal === undefined || init.signal === null ? [] : [init.signal]
}

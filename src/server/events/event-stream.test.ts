import http from 'node:http'
import { once } from 'node:events'
import net, { type AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { startWebhookTest, type WebhookTest } from '../../../test/harness/webhook.ts'
import type { Actor } from '../../app/app.ts'
import { limits } from '../../base/limits.ts'
import type { AccountEvent, EventRecord } from '../../contract/event.ts'
import type { NewEvent } from '../../domain/event.ts'
import { transact } from '../../store/platform/database.ts'
import { listEventsAfter, recordEvent } from '../../store/notice/event.ts'
import { makeEventStreams, resumeAfter, type EventStreams } from './event-stream.ts'

let house: WebhookTest
let actor: Actor
const servers: Array<() => Promise<unknown>> = []

beforeEach(async () => {
  house = await startWebhookTest()
  actor = await house.account()
})
afterEach(async () => {
  for (const close of servers.splice(0)) await close()
  await house.close()
})

interface Served {
  readonly url: string
  readonly streams: EventStreams
  /** The clients' sockets on the side of the server. */
  readonly sockets: net.Socket[]
}

async function serve(
  options: Parameters<typeof makeEventStreams>[1] & {
    of?: 'account' | 'everyone'
    stillValid?: () => Promise<boolean>
    woken?: boolean
  } = {},
): Promise<Served> {
  const { of = 'account', stillValid = () => Promise.resolve(true), woken = true, ...settings } = options
  const streams = makeEventStreams(house.app, { pollMs: 60_000, ...settings })
  if (woken) house.database.onCommit = (wake) => wake.forEach((name) => streams.wake(name.replace(/^events:/, '')))
  const sockets: net.Socket[] = []
  const server = http.createServer((request, response) => {
    sockets.push(request.socket)
    const after = resumeAfter(request.headers['last-event-id'] as string | undefined, undefined)
    void streams.open(actor, { of, after, stillValid }, response).then((opened) => {
      if (!opened.ok) response.writeHead(429).end(opened.reason)
      return undefined
    })
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  servers.push(async () => {
    await streams.close()
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`, streams, sockets }
}

const PATH = '/v2/events/stream'

async function connect(url: string, lastId?: string): Promise<http.IncomingMessage> {
  const request = http.get(url, { headers: lastId === undefined ? {} : { 'last-event-id': lastId } })
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  return response
}

/** The events of a stream, until it ends or is cut. */
async function* eventsOf(response: http.IncomingMessage): AsyncGenerator<EventRecord> {
  let text = ''
  try {
    for await (const chunk of response.setEncoding('utf8')) {
      text += chunk
      const messages = text.split('\n\n')
      text = messages.pop() ?? ''
      for (const message of messages) {
        const { id, event, data } = Object.fromEntries(message.split('\n').map((line) => line.split(/: (.*)/s)))
        if (data === undefined) continue
        const record = JSON.parse(data) as EventRecord
        expect([id, event]).toEqual([record.id, record.type])
        yield record
      }
    }
  } catch (error) {
    if (!(error instanceof Error && error.message === 'aborted')) throw error
  }
}

async function take(response: http.IncomingMessage, count: number): Promise<EventRecord[]> {
  const taken: EventRecord[] = []
  for await (const event of eventsOf(response)) if (taken.push(event) === count) break
  return taken
}

/** Takes an id and is rolled back. */
async function emitForNobody({ accountId }: Actor): Promise<void> {
  const good: NewEvent = { accountId, type: 'rental.changed', subject: { kind: 'rental', id: '1' }, data: {} }
  const bad = { ...good, subject: { kind: 'rental', id: null } } as unknown as NewEvent
  const work = transact(house.database, async (tx) => [good, bad].forEach((event) => recordEvent(tx, event)))
  await expect(work).rejects.toThrow('null value in column')
}

async function emitLarge(count: number): Promise<void> {
  const data = { filling: 'x'.repeat(15_000) }
  const { accountId } = actor
  await transact(house.database, async (tx) => {
    for (let n = 0; n < count; n += 1) {
      recordEvent(tx, { accountId, type: 'rental.changed', subject: { kind: 'rental', id: '1' }, data: { ...data, n } })
    }
  })
}

test('sends new events as they happen, and none of another account', async () => {
  const { url } = await serve()
  await house.emit(actor, 3)
  const response = await connect(url)
  expect(response.headers).toMatchObject({
    'content-type': 'text/event-stream',
    'cache-control': 'no-store, no-transform',
  })
  await house.emit(await house.account())
  await house.emit(actor, 2)
  const [first, second] = await take(response, 2)
  expect([first?.data, second?.data]).toEqual([{ n: 1 }, { n: 2 }])
  expect(first).toMatchObject({ type: 'rental.running', subject: { kind: 'rental', id: '17' } })
})

test('with many writers, a reader that is cut and resumes sees each event once, in order', async () => {
  const { url } = await serve()
  const writers = Array.from({ length: 12 }, async (_, writer) => {
    for (let n = 0; n < 40; n += 1) await house.emit(actor, 1 + ((writer + n) % 3))
  })
  const expected = 12 * 40 * 2
  const seen: string[] = []
  for (let cut = 7; seen.length < expected; cut = (cut * 31) % 97) {
    const response = await connect(url, seen.at(-1) ?? '0')
    seen.push(...(await take(response, Math.min(cut, expected - seen.length))).map((event) => event.id))
  }
  await Promise.all(writers)
  const written = await listEventsAfter(house.database.db, actor.accountId, 0n, 10_000)
  expect(seen).toEqual(written.map((event) => event.id))
})

test('across all accounts and with many writers, a reader that is cut and resumes sees each event once, in order', async () => {
  const { url } = await serve({ of: 'everyone' })
  const others = await Promise.all(Array.from({ length: 8 }, () => house.account()))
  const writers = others.map(async (other, writer) => {
    for (let n = 0; n < 40; n += 1) {
      await house.emit(other, 1 + ((writer + n) % 3))
      // Ids that are never committed.
      if (n % 4 === 0) await emitForNobody(other)
    }
  })
  const expected = others.flatMap((_, writer) => Array.from({ length: 40 }, (__, n) => 1 + ((writer + n) % 3)))
  const count = expected.reduce((sum, one) => sum + one, 0)
  const seen: EventRecord[] = []
  for (let cut = 7; seen.length < count; cut = (cut * 31) % 97) {
    const response = await connect(url, seen.at(-1)?.id ?? '0')
    seen.push(...(await take(response, Math.min(cut, count - seen.length))))
  }
  await Promise.all(writers)
  const written = await house.database.db.selectFrom('event').select(['id', 'account_id']).orderBy('id').execute()
  expect(seen.map((event) => [event.id, (event as AccountEvent).accountId])).toEqual(
    written.map((row) => [row.id.toString(), row.account_id]),
  )
})

test('wakes a stream over all accounts for anyone’s events, and counts it like any other', async () => {
  const { url } = await serve({ of: 'everyone', perAccount: 1 })
  await house.emit(actor)
  const response = await connect(url)
  expect((await connect(url)).statusCode).toBe(429)
  const other = await house.account()
  await house.emit(other)
  expect(await take(response, 1)).toMatchObject([{ accountId: other.accountId, type: 'rental.running' }])
})

test('a lost wake-up delays an event but does not lose it', async () => {
  const { url } = await serve({ woken: false, pollMs: 20 })
  const response = await connect(url)
  await house.emit(actor)
  expect(await take(response, 1)).toHaveLength(1)
})

test('limits the streams of an account, and frees the place of one that ends', async () => {
  const { url } = await serve({ perAccount: 3 })
  const responses = await Promise.all([connect(url), connect(url), connect(url), connect(url), connect(url)])
  const statuses = responses.map((response) => response.statusCode ?? 0).sort((a, b) => a - b)
  expect(statuses).toEqual([200, 200, 200, 429, 429])
  for (const response of responses) response.destroy()
  let again = await connect(url)
  while (again.statusCode === 429) again = await connect(url)
  expect(again.statusCode).toBe(200)
})

test('a quiet stream has heartbeats, and ends when the key is no longer valid', async () => {
  let questions = 0
  const { url } = await serve({ heartbeatMs: 10, stillValid: () => Promise.resolve((questions += 1) < 4) })
  let text = ''
  for await (const chunk of (await connect(url)).setEncoding('utf8')) text += chunk
  expect(text).toBe(': still here\n\n'.repeat(4))
})

test('a key that cannot be checked ends the stream', async () => {
  const { url } = await serve({ heartbeatMs: 10, stillValid: () => Promise.reject(new Error('no database')) })
  expect(await take(await connect(url), 1)).toEqual([])
})

test('drops a client that does not read, without buffering more than the limit', async () => {
  const { url, sockets } = await serve({ heartbeatMs: 100 })
  await emitLarge(1_500)
  const client = net.connect(Number(new URL(url).port), '127.0.0.1')
  client.pause()
  client.write(`GET ${PATH} HTTP/1.1\r\nHost: berth\r\nLast-Event-ID: 0\r\n\r\n`)
  await waitFor('the request', () => sockets.length === 1)
  let most = 0
  await vi.waitUntil(
    () => {
      most = Math.max(most, sockets[0]?.writableLength ?? 0)
      return sockets[0]?.destroyed
    },
    { timeout: 30_000, interval: 5 },
  )
  expect(most).toBeGreaterThan(0)
  expect(most).toBeLessThan(limits.sseBufferedBytes + 65_536)
  client.destroy()
})

test('a client that closes its side ends the stream', async () => {
  const { url, sockets } = await serve({ perAccount: 1 })
  const client = net.connect(Number(new URL(url).port), '127.0.0.1')
  client.write(`GET ${PATH} HTTP/1.1\r\nHost: berth\r\n\r\n`)
  await once(client, 'data')
  client.end()
  await waitFor('the server closes its side', () => sockets[0]?.destroyed === true)
  expect((await connect(url)).statusCode).toBe(200)
})

test('a slow client gets everything in order', async () => {
  const { url } = await serve({ heartbeatMs: 5_000, bufferedBytes: 65_536 })
  await emitLarge(1_000)
  const seen: unknown[] = []
  for await (const event of eventsOf(await connect(url, '0'))) {
    if (seen.length % 50 === 0) await new Promise((soon) => setTimeout(soon, 1))
    if (seen.push(event.data['n']) === 1_000) break
  }
  expect(seen).toEqual(Array.from({ length: 1_000 }, (_, n) => n))
})

test('at shutdown, ends all streams and accepts no more', async () => {
  const { url, streams } = await serve()
  const response = await connect(url)
  const rest = take(response, 1)
  await streams.close()
  expect(await rest).toEqual([])
  expect((await connect(url)).statusCode).toBe(429)
})

test('Last-Event-ID wins over the after parameter', () => {
  expect([resumeAfter('7', '3'), resumeAfter(undefined, '3'), resumeAfter('nonsense', '3')]).toEqual([7n, 3n, 3n])
  expect([resumeAfter(undefined, undefined), resumeAfter('', undefined)]).toEqual([undefined, undefined])
})

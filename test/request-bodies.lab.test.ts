/**
 * Request bodies in flight never hold more memory than the budget, no matter who sends them and how. Only callers with a
 * valid key and money get a share, every exit path returns it, and other requests are answered meanwhile.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import net, { type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { serveModel, type TestModel } from './harness/inference.ts'
import { succeed } from './harness/journey.ts'
import { startServerLab, type ServerLab } from './lab/server-lab.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('build')

const MB = 1_000_000
const CONNECTIONS = 100
const BUDGET_MB = 96
const ACCOUNT_MB = 64
const SLACK_BYTES = 64 * MB
const LARGEST_BODY = 16_777_216
/** All but the last byte, which never comes. */
const sent = Buffer.alloc(LARGEST_BODY - 1, 'x')

type Account = Awaited<ReturnType<ServerLab['account']>>

let server: ServerLab
let model: TestModel
let poor: Account
let rich: Account
let other: Account

beforeAll(async () => {
  server = await startServerLab({
    BERTH_DRIVERS: 'mock',
    BERTH_ALLOW_PRIVATE_ADDRESSES: 'true',
    BERTH_BODY_MEMORY_MB: String(BUDGET_MB),
    BERTH_BODY_MEMORY_PER_ACCOUNT_MB: String(ACCOUNT_MB),
  })
  model = await serveModel(server, { model: { contextTokens: 4_000_000 } })
  ;[poor, rich, other] = await Promise.all([
    server.account(),
    server.account({ usd: '50' }),
    server.account({ usd: '50' }),
  ])
  // From here on both keys and purses are known to the fast path.
  for (const account of [rich, other]) await succeed(account.call, 'POST', '/v1/chat/completions', chatBody('Hello'))
})
afterAll(async () => {
  await model?.upstream.close()
  await server?.close()
})

function chatBody(content: string) {
  return { model: model.name, max_tokens: 5, messages: [{ role: 'user', content }] }
}

function chat(account: Account, content: string) {
  return account.call('POST', '/v1/chat/completions', chatBody(content))
}

interface Sender {
  readonly socket: Socket
  /** The bytes received so far. */
  answer: string
}

function connect(head: readonly string[], body: readonly Buffer[]): Sender {
  const { hostname, port } = new URL(server.url)
  const socket = net.connect(Number(port), hostname)
  const sender: Sender = { socket, answer: '' }
  socket.on('data', (bytes: Buffer) => (sender.answer += bytes.toString('latin1')))
  // A server that has already answered may close the connection while the body is still being sent.
  socket.on('error', () => {})
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  for (const piece of body) socket.write(piece)
  return sender
}

function headOf(account: Account | undefined, path: string, length: string): string[] {
  return [
    `POST ${path} HTTP/1.1`,
    'Host: berth',
    ...(account === undefined ? [] : [`Authorization: Bearer ${account.key}`]),
    'Content-Type: application/json',
    length,
  ]
}

function announce(account: Account): Sender {
  return connect(headOf(account, '/v1/chat/completions', `Content-Length: ${LARGEST_BODY}`), [sent])
}

function leave(senders: readonly Sender[]): void {
  for (const { socket } of senders) socket.destroy()
}

async function heldBytes(): Promise<number> {
  const { body } = await server.operator('GET', '/metrics')
  return Number(/^berth_request_body_bytes (\d+)$/m.exec(body as string)?.[1])
}

function noRoomIsHeld(): Promise<unknown> {
  return waitFor('all memory to be released', async () => (await heldBytes()) === 0)
}

function memory(field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${server.pid()}/status`, 'utf8')
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) * 1_024
}

/** Peak growth of resident memory. */
async function peakOf(work: () => Promise<void>): Promise<number> {
  writeFileSync(`/proc/${server.pid()}/clear_refs`, '5')
  const before = memory('VmRSS')
  await work()
  return memory('VmHWM') - before
}

const statusOf = ({ answer }: Sender): string => /^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? ''
const statusesOf = (senders: readonly Sender[]): Set<string> => new Set(senders.map(statusOf).filter(Boolean))
/** A client that keeps sending after the answer may be cut off before it reads it. */
const isSettled = (sender: Sender): boolean => statusOf(sender) !== '' || sender.socket.destroyed

describe(`${CONNECTIONS} connections that send 16.7 MB each and never finish`, () => {
  test('from an account without money are refused after the headers', async () => {
    const risen = await peakOf(async () => {
      const senders = Array.from({ length: CONNECTIONS }, () => announce(poor))
      expect((await chat(other, 'Hello')).status).toBe(200)
      await waitFor('every refusal', () => senders.every(isSettled))
      // A balance lookup that times out is a refusal too.
      expect([...statusesOf(senders)].filter((status) => status !== '503')).toEqual(['402'])
      expect(await heldBytes()).toBe(0)
      expect((await chat(other, 'x'.repeat(MB))).status).toBe(200)
      leave(senders)
    })
    expect(risen).toBeLessThan(BUDGET_MB * MB + SLACK_BYTES)
    await noRoomIsHeld()
  })

  test('from an account with money hold no more than its share, and the rest get a retryable error', async () => {
    const risen = await peakOf(async () => {
      const senders = Array.from({ length: CONNECTIONS }, () => announce(rich))
      expect((await chat(other, 'Hello')).status).toBe(200)
      // Those that got a share wait for their last byte.
      const waiting = Math.floor((ACCOUNT_MB * MB) / LARGEST_BODY)
      await waitFor('every refusal', () => senders.filter(isSettled).length >= CONNECTIONS - waiting)
      expect(statusesOf(senders)).toEqual(new Set(['503']))
      for (const { answer } of senders.filter((one) => statusOf(one) !== ''))
        expect(answer).toMatch(/\r\nRetry-After: 1\r\n[^]*"reason":"server_busy"/i)
      expect(await heldBytes()).toBeLessThanOrEqual(ACCOUNT_MB * MB)
      expect((await chat(other, 'x'.repeat(MB))).status).toBe(200)
      leave(senders)
    })
    expect(risen).toBeLessThan(BUDGET_MB * MB + SLACK_BYTES)
    await noRoomIsHeld()
  })
})

describe('bodies without Content-Length', () => {
  const MIB = Buffer.alloc(1_048_576, 'x')
  const chunk = Buffer.concat([Buffer.from('100000\r\n'), MIB, Buffer.from('\r\n')])

  test('are counted as they arrive, and refused when the budget is used up', async () => {
    const head = headOf(rich, '/v1/embeddings', 'Transfer-Encoding: chunked')
    const senders = Array.from({ length: 10 }, () => connect(head, Array<Buffer>(15).fill(chunk)))
    await waitFor('a refusal', () => senders.some((one) => statusOf(one) !== ''))
    const refused = senders.filter((one) => statusOf(one) !== '')
    expect(new Set(refused.map(statusOf))).toEqual(new Set(['503']))
    for (const { answer } of refused) expect(answer).toContain('"reason":"server_busy"')
    expect(await heldBytes()).toBeLessThanOrEqual(ACCOUNT_MB * MB)
    leave(senders)
    await noRoomIsHeld()
  })

  test('are refused above the operation’s limit', async () => {
    const head = headOf(rich, '/v2/ssh-keys', 'Transfer-Encoding: chunked')
    const sender = connect(head, [chunk, chunk])
    await waitFor('the refusal', () => statusOf(sender) !== '')
    expect([statusOf(sender), sender.answer]).toEqual(['413', expect.stringContaining('"reason":"body_too_large"')])
    leave([sender])
    await noRoomIsHeld()
  })

  test('are charged for the memory they hold when they arrive byte by byte', async () => {
    const bytes = Buffer.from('1\r\nx\r\n'.repeat(100_000))
    const risen = await peakOf(async () => {
      const senders = Array.from({ length: 8 }, () =>
        connect(headOf(rich, '/v1/embeddings', 'Transfer-Encoding: chunked'), [bytes]),
      )
      await waitFor('the bytes', async () => (await heldBytes()) >= 8 * 100_000)
      leave(senders)
    })
    expect(risen).toBeLessThan(SLACK_BYTES)
    await noRoomIsHeld()
  })
})

test('answers a Content-Length above every limit with 413, not a retryable error', async () => {
  for (const path of ['/v1/chat/completions', '/v2/ssh-keys']) {
    const sender = connect(headOf(rich, path, 'Content-Length: 900000000'), [])
    await waitFor('the refusal', () => statusOf(sender) !== '')
    expect([statusOf(sender), sender.answer]).toEqual(['413', expect.stringContaining('"reason":"body_too_large"')])
    leave([sender])
  }
})

test('accepts only a small body without a key', async () => {
  const sender = connect(headOf(undefined, '/v1/chat/completions', `Content-Length: ${LARGEST_BODY}`), [])
  await waitFor('the refusal', () => statusOf(sender) !== '')
  expect([statusOf(sender), sender.answer]).toEqual(['401', expect.stringContaining('"reason":"missing_key"')])
  leave([sender])
  const join = await server.anonymous('POST', '/v2/agent/join', { token: 'x'.repeat(100_000) })
  expect([join.status, join.body.reason]).toEqual([413, 'body_too_large'])
})

test('returns a body’s share after the answer and when the client disconnects', async () => {
  const large = 'x'.repeat(MB)
  expect((await chat(rich, large)).status).toBe(200)
  await noRoomIsHeld()
  // A header that the fast path does not handle sends this chat to the full path.
  const full = await rich.call('POST', '/v1/chat/completions', chatBody(large), { TE: 'trailers' })
  expect(full.status).toBe(200)
  await noRoomIsHeld()
  const senders = [announce(rich), announce(rich)]
  await waitFor('memory to be reserved', async () => (await heldBytes()) > 0)
  leave(senders)
  await noRoomIsHeld()
})

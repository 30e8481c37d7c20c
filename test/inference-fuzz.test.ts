/**
 * Differential test of the fast and the full path: both get the same bytes, with a strict engine behind them. No
 * malformed body may reach the engine, and a client's answer and charge may not depend on the path.
 */
import { createHash, randomInt } from 'node:crypto'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fuzzedBody, randomFrom } from './harness/chat-fuzz.ts'
import { readLedgerOf } from './harness/inference-ledger.ts'
import { testPrices } from './harness/inference.ts'
import { RawChatClient, type RawAnswer } from './harness/raw-chat.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { parseStrictly } from './harness/strict-json.ts'
import { waitFor } from './harness/wait.ts'

/** Others in each run: the seed is random, and a failure prints it. */
const BODIES = Number.parseInt(process.env['BERTH_TEST_FUZZ_BODIES'] ?? '3000', 10)
const SEED = Number.parseInt(process.env['BERTH_TEST_FUZZ_SEED'] ?? String(randomInt(2 ** 31)), 10)
const CLIENTS = 16
/** Takes a quarter of a minute of CPU time, which is long on a busy machine. */
const FUZZ_MS = 900_000
const MODEL = 'test/strict'

let server: TestServer
let engine: http.Server
let account: { id: string; key: string }
/** Bodies the engine received that a strict engine rejects. */
const malformed: string[] = []
let received = 0

beforeAll(async () => {
  engine = http.createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      if (request.method === 'GET') return void response.end('{}')
      received += 1
      answerStrictly(Buffer.concat(chunks), response)
    })
  })
  await new Promise<void>((done) => engine.listen(0, '127.0.0.1', done))
  server = await testServer({ runLoops: false })
  await served(server, (engine.address() as AddressInfo).port)
  account = await server.account({ usd: '1000' })
  const plenty = { requestsPerMinute: 100_000_000, tokensPerMinute: 1_000_000_000, streams: 10_000 }
  await operated('PATCH', `/v2/operator/accounts/${account.id}`, { quota: plenty, reason: 'for the test' })
  const key = await server.as(account.key)('POST', '/v2/api-keys', {
    name: 'fuzz',
    scopes: ['inference'],
    requestsPerMinute: 1_000_000,
  })
  account = { id: account.id, key: String(key.body.key) }
})
afterAll(async () => {
  await server.close()
  engine.closeAllConnections()
  engine.close()
})

async function operated(method: string, path: string, body: object): Promise<void> {
  const reply = await server.operator(method, path, body)
  expect([reply.status, reply.body]).toEqual([200, expect.anything()])
}

async function served(at: TestServer, port: number): Promise<void> {
  const limits = { contextTokens: 8_192, maxOutputTokens: 4_096, supportsTools: true }
  await operated('POST', '/v2/operator/models', { name: MODEL, kind: 'chat', ...limits, ...testPrices })
  const url = `http://127.0.0.1:${port}`
  await operated('POST', '/v2/operator/deployments', { model: MODEL, url, upstreamModel: 'theirs', concurrency: 64 })
  await waitFor('the model to be ready', async () => {
    const { body } = await at.demo('GET', '/v1/models')
    return (body.data as Array<{ id: string; status: string }>).some(
      ({ id, status }) => id === MODEL && status === 'ready',
    )
  })
}

interface Sent {
  readonly model: string
  readonly messages: ReadonlyArray<{ role: string; content?: unknown }>
  readonly stream?: boolean
}

/** The answer is derived from the request, so bodies with different meanings get different answers. */
function answerStrictly(bytes: Buffer, response: http.ServerResponse): void {
  let sent: Sent
  try {
    sent = parseStrictly(bytes) as Sent
    checkShape(sent)
  } catch (error) {
    malformed.push(`${String(error)}: ${bytes.toString('latin1')}`)
    return void response.writeHead(500).end('{"error":"malformed"}')
  }
  const text = JSON.stringify(sorted(sent))
  const digest = createHash('sha1').update(text).digest('hex')
  // Some engines do not report usage; then the gateway counts.
  const usage =
    text.length % 3 === 0 ? {} : { usage: { prompt_tokens: text.length, completion_tokens: 2, total_tokens: 0 } }
  const common = { id: 'x', created: 1, model: 'theirs', ...usage }
  if (sent.stream !== true) {
    const choices = [{ index: 0, message: { role: 'assistant', content: digest }, finish_reason: 'stop' }]
    response.writeHead(200, { 'content-type': 'application/json' })
    return void response.end(JSON.stringify({ ...common, object: 'chat.completion', choices }))
  }
  const choices = [{ index: 0, delta: { role: 'assistant', content: digest }, finish_reason: 'stop' }]
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.end(`data: ${JSON.stringify({ ...common, object: 'chat.completion.chunk', choices })}\n\ndata: [DONE]\n\n`)
}

/** The rules for messages in the OpenAI API that an engine would fail on. */
function checkShape({ model, messages }: Sent): void {
  if (model !== 'theirs' || !Array.isArray(messages) || messages.length === 0) throw new Error('not a chat')
  for (const { role, content } of messages) {
    const isText = typeof content === 'string' || Array.isArray(content)
    if (typeof role !== 'string' || !(isText || role === 'assistant')) throw new Error('not a message')
  }
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).map(([name, inside]) => [name, sorted(inside)] as const)
  return members.sort(([a], [b]) => (a < b ? -1 : 1))
}

/** The parts of an answer that do not vary between runs. */
function meaningOf({ status, body }: RawAnswer): unknown {
  if (status !== 200) {
    const { message, reason, detail } = JSON.parse(body) as { message: string; reason?: string; detail?: unknown }
    return { status, message, reason, detail }
  }
  return { status, digest: /[0-9a-f]{40}/.exec(body)?.[0], usage: /"usage":\{[^}]*\}/.exec(body)?.[0] }
}

test(
  `${BODIES} fuzzed chats get the same answer and charge on both paths, and none reaches an engine malformed`,
  async () => {
    const random = randomFrom(SEED)
    const differing: object[] = []
    const pairs: Array<{ body: Buffer; fast: RawAnswer; full: RawAnswer }> = []
    let next = 0
    const work = async (): Promise<void> => {
      const fast = new RawChatClient(server.url, account.key, 'fast')
      const full = new RawChatClient(server.url, account.key, 'full')
      while (next < BODIES) {
        next += 1
        const body = fuzzedBody(random, MODEL)
        const [a, b] = await Promise.all([fast.send(body), full.send(body)])
        const [one, other] = [meaningOf(a), meaningOf(b)]
        if (JSON.stringify(one) !== JSON.stringify(other)) differing.push({ body: body.toString('latin1'), one, other })
        if (a.status === 200) pairs.push({ body, fast: a, full: b })
      }
      fast.close()
      full.close()
    }
    await Promise.all(Array.from({ length: CLIENTS }, work))
    expect({ seed: SEED, malformed: malformed.slice(0, 5) }).toEqual({ seed: SEED, malformed: [] })
    expect({ seed: SEED, differing: differing.slice(0, 5) }).toEqual({ seed: SEED, differing: [] })
    // A generator that makes only valid or only invalid bodies would prove nothing.
    expect(pairs.length).toBeGreaterThan(BODIES / 10)
    expect(pairs.length).toBeLessThan(BODIES / 2)
    expect(received).toBe(2 * pairs.length)
    expect(pairs.filter(({ fast }) => !/^date:/im.test(fast.head)).length).toBeGreaterThan(pairs.length * 0.8)

    const ledger = readLedgerOf(server.databaseUrl)
    const { billed } = await waitFor('all answers in the ledger', async () => {
      const read = await ledger.read(account.id)
      return read.billed.size >= 2 * pairs.length && read
    })
    await ledger.close()
    const costs = pairs.map(({ body, fast, full }) => ({
      body: body.toString('latin1'),
      fast: billed.get(fast.requestId)?.cost,
      full: billed.get(full.requestId)?.cost,
    }))
    const unlike = costs.filter(({ fast, full }) => fast === undefined || fast !== full)
    expect({ seed: SEED, unlike: unlike.slice(0, 5) }).toEqual({ seed: SEED, unlike: [] })
  },
  FUZZ_MS,
)

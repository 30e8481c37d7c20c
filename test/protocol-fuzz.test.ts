/**
 * Fuzzed requests of the protocols beside chats: each is answered or refused in the form of its protocol, none causes a
 * server error or reaches an engine malformed, and each answer is charged once, at its price.
 */
import { randomInt } from 'node:crypto'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { request } from 'undici'
import { api } from '../src/contract/api.ts'
import { errorFormOf } from '../src/contract/error-form.ts'
import type { Endpoint } from '../src/contract/endpoint.ts'
import { fuzzedBody, randomFrom, type ValidBody } from './harness/chat-fuzz.ts'
import { readLedgerOf } from './harness/inference-ledger.ts'
import { testPrices } from './harness/inference.ts'
import { validMessages, validRanking, validResponse } from './harness/protocol-fuzz.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { parseStrictly } from './harness/strict-json.ts'
import { waitFor } from './harness/wait.ts'

/** Others in each run: the seed is random, and a failure prints it. A third as many as of chats. */
const BODIES = Math.ceil(Number.parseInt(process.env['BERTH_TEST_FUZZ_BODIES'] ?? '3000', 10) / 3)
const SEED = Number.parseInt(process.env['BERTH_TEST_FUZZ_SEED'] ?? String(randomInt(2 ** 31)), 10)
const CLIENTS = 8
const FUZZ_MS = 900_000
const PROMPT_TOKENS = 7
const OUTPUT_TOKENS = 2

let server: TestServer
let engine: http.Server
let account: { id: string; key: string }
/** Bodies that a strict engine rejects. */
const malformed: string[] = []
let received = 0

beforeAll(async () => {
  engine = http.createServer((incoming, response) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      if (incoming.method === 'GET') return void response.end('{}')
      answerStrictly(incoming.url ?? '', Buffer.concat(chunks), response)
    })
  })
  await new Promise<void>((done) => engine.listen(0, '127.0.0.1', done))
  server = await testServer({ runLoops: false })
  const url = `http://127.0.0.1:${(engine.address() as AddressInfo).port}`
  for (const kind of ['chat', 'rerank']) {
    const limits = kind === 'chat' ? { contextTokens: 8_192, maxOutputTokens: 4_096, supportsTools: true } : {}
    await operate('POST', '/v2/operator/models', { name: `test/${kind}`, kind, ...limits, ...testPrices })
    await operate('POST', '/v2/operator/deployments', { model: `test/${kind}`, url, upstreamModel: 'theirs' })
  }
  account = await server.account({ usd: '1000' })
  const plenty = { requestsPerMinute: 100_000_000, tokensPerMinute: 1_000_000_000, streams: 10_000 }
  await operate('PATCH', `/v2/operator/accounts/${account.id}`, { quota: plenty, reason: 'for the test' })
  const often = { name: 'fuzz', scopes: ['inference'], requestsPerMinute: 1_000_000 }
  const made = await server.as(account.key)('POST', '/v2/api-keys', often)
  account = { id: account.id, key: String(made.body.key) }
  await waitFor('the models to be ready', async () => {
    const { body } = await server.as(account.key)('GET', '/v1/models')
    return body.data.filter(({ status }: { status: string }) => status === 'ready').length === 2
  })
})
afterAll(async () => {
  await server.close()
  engine.closeAllConnections()
  engine.close()
})

async function operate(method: string, path: string, body: object): Promise<void> {
  const reply = await server.operator(method, path, body)
  expect([reply.status, reply.body]).toEqual([200, expect.anything()])
}

interface Given {
  readonly model: string
  readonly messages?: ReadonlyArray<{
    readonly role: string
    readonly content?: unknown
    readonly tool_calls?: unknown
  }>
  readonly documents?: readonly unknown[]
  readonly stream?: boolean
}

function answerStrictly(path: string, bytes: Buffer, response: http.ServerResponse): void {
  let given: Given
  try {
    given = parseStrictly(bytes) as Given
    checkShape(given, path)
  } catch (error) {
    malformed.push(`${String(error)}: ${bytes.toString('latin1')}`)
    return void response.writeHead(500).end('{"error":"malformed"}')
  }
  if (path.endsWith('/tokenize')) return void response.end(`{"count":${PROMPT_TOKENS}}`)
  received += 1
  const usage = { prompt_tokens: PROMPT_TOKENS, completion_tokens: OUTPUT_TOKENS, total_tokens: PROMPT_TOKENS }
  response.setHeader('content-type', given.stream === true ? 'text/event-stream' : 'application/json')
  if (given.documents !== undefined) {
    const results = given.documents.map((_, index) => ({ index, relevance_score: 1 / (index + 1) }))
    return void response.end(JSON.stringify({ results, usage }))
  }
  const said = { role: 'assistant', content: 'Aye.' }
  const choice = given.stream === true ? { index: 0, delta: said } : { index: 0, message: said }
  const answer = JSON.stringify({ id: 'x', model: 'theirs', choices: [{ ...choice, finish_reason: 'stop' }], usage })
  response.end(given.stream === true ? `data: ${answer}\n\ndata: [DONE]\n\n` : answer)
}

/** Rules that an engine would fail on. */
function checkShape({ model, messages, documents }: Given, path: string): void {
  if (model !== 'theirs') throw new Error('another model')
  if (path.endsWith('/rerank')) {
    if (documents?.every((one) => typeof one === 'string' && /\S/.test(one)) !== true) throw new Error('no documents')
    return
  }
  if (!Array.isArray(messages) || messages.length === 0) throw new Error('no messages')
  for (const { role, content, tool_calls: calls } of messages as NonNullable<Given['messages']>) {
    const isText = typeof content === 'string' || Array.isArray(content)
    const isCall = role === 'assistant' && Array.isArray(calls)
    if (!['system', 'user', 'assistant', 'tool'].includes(role) || !(isText || isCall)) throw new Error('not a message')
  }
}

const doors: ReadonlyArray<readonly [operation: keyof typeof api, model: string, ValidBody]> = [
  ['createMessage', 'test/chat', validMessages],
  ['countMessageTokens', 'test/chat', validMessages],
  ['createResponse', 'test/chat', validResponse],
  ['countResponseTokens', 'test/chat', validResponse],
  ['rerank', 'test/rerank', validRanking],
]

test.each(doors)(
  `P64: ${BODIES} fuzzed bodies of %s are answered and charged once, or refused in its form`,
  async (operation, model, makeValid) => {
    const endpoint: Endpoint = api[operation]
    const random = randomFrom(SEED)
    const wrong: object[] = []
    const answered: string[] = []
    const before = received
    let accepted = 0
    let next = 0
    const work = async (): Promise<void> => {
      while (next < BODIES) {
        next += 1
        const body = fuzzedBody(random, model, makeValid)
        const reply = await request(`${server.url}${endpoint.path}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${account.key}`, 'content-type': 'application/json' },
          body,
        })
        const text = await reply.body.text()
        if (reply.statusCode === 200) {
          accepted += 1
          const id = reply.headers['x-inference-request-id']
          if (typeof id === 'string' && !operation.startsWith('count')) answered.push(id)
        } else if (reply.statusCode >= 500 || !isError(endpoint, reply.statusCode, text)) {
          wrong.push({ body: body.toString('latin1'), status: reply.statusCode, text })
        }
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, work))
    expect({ seed: SEED, malformed: malformed.slice(0, 5) }).toEqual({ seed: SEED, malformed: [] })
    expect({ seed: SEED, wrong: wrong.slice(0, 5) }).toEqual({ seed: SEED, wrong: [] })
    // A generator that makes only valid or only invalid bodies would prove nothing.
    expect(accepted).toBeGreaterThan(BODIES / 10)
    expect(accepted).toBeLessThan(BODIES * 0.9)
    expect(received - before).toBe(answered.length)
    expect(new Set(answered).size).toBe(answered.length)
    const output = operation === 'rerank' ? 0 : OUTPUT_TOKENS
    const ledger = readLedgerOf(server.databaseUrl)
    const { billed } = await waitFor('all answers in the ledger', async () => {
      const read = await ledger.read(account.id)
      return answered.every((id) => read.billed.has(id)) && read
    })
    await ledger.close()
    const costs = new Set(answered.map((id) => billed.get(id)?.cost))
    // One nano-dollar per token in, two per token out.
    expect(costs).toEqual(new Set(operation.startsWith('count') ? [] : [BigInt(PROMPT_TOKENS + 2 * output)]))
  },
  FUZZ_MS,
)

function isError(endpoint: Endpoint, status: number, text: string): boolean {
  return errorFormOf(endpoint).schemaOf(status).strict().safeParse(JSON.parse(text)).success
}

/**
 * PostgreSQL is stopped under load and restarted on the same data. Requests for text of accounts whose money is in a gateway's
 * purse are answered throughout; requests that need the database get a retryable error, never an invalid-key error;
 * afterwards everything that was answered is in the ledger once.
 */
import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { usd } from '../src/base/money.ts'
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../src/server/data/embedded-postgres.ts'
import { askChat, type ChatResult, type TokenPrices } from './harness/chat-client.ts'
import type { ChatAsk, ChatTarget } from './harness/chat-protocol.ts'
import { protocolMix, startChatLoad, type ChatLoad } from './harness/chat-load.ts'
import { expectBilledOnce, readLedgerOf, type LedgerReader } from './harness/inference-ledger.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { removeFolder } from './harness/leftover.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

const OUTAGE_MS = Number.parseInt(process.env.BERTH_TEST_OUTAGE_MS ?? '8000', 10)
/** The outage is checked in this many parts; requests must start and finish in each. */
const PARTS = 10
const ANSWERS_PER_PART = 10
const CLIENTS = 4
const MINUTE_MS = 60_000
/** No client gives up before that, even on a busy machine. */
const AT_ONCE_MS = 5_000

/** A request costs 0.001 cents: one lease of a gateway pays for tens of thousands. */
const prices: TokenPrices = { input: 10, cached: 5, output: 40 }
const plain: ChatAsk = { stream: false, maxTokens: 20, fullPath: false }

let dataDir: string
let postgres: EmbeddedPostgres
let server: TestServer
let model: TestModel
let ranker: TestModel
let ledger: LedgerReader
const cleanUp: Array<() => Promise<void>> = []
beforeAll(async () => {
  dataDir = await mkdtemp(path.join(os.tmpdir(), 'berth-outage-'))
  postgres = await startPostgres()
  server = await testServer({ databaseUrl: postgres.url, env: { BERTH_DRIVERS: '' } })
  ledger = readLedgerOf(postgres.url)
  model = await serveModel(server, {
    model: { inputUsdPerMillion: '0.01', cachedUsdPerMillion: '0.005', outputUsdPerMillion: '0.04' },
    deployment: { concurrency: 1_000, readsMetrics: true },
    behaviour: { words: 12, intervalMs: 5, latencyMs: 20, usage: 'continuous' },
  })
  ranker = await serveModel(server, { name: 'test/ranker', model: { kind: 'rerank' } })
}, 2 * MINUTE_MS)
afterAll(async () => {
  for (const step of cleanUp) await step()
  await ledger.close()
  await server.close()
  await model.upstream.close()
  await ranker.upstream.close()
  await postgres.stop()
  await removeFolder(dataDir)
})

/**
 * Always the same folder and therefore the same address. Only processes are killed, not the machine, so fsync is off.
 */
async function startPostgres(): Promise<EmbeddedPostgres> {
  return startEmbeddedPostgres({ dataDir, log: () => {}, settings: { fsync: 'off' } })
}

interface Customer {
  readonly id: string
  readonly call: Call
  readonly target: ChatTarget
  readonly paidIn: bigint
  readonly results: ChatResult[]
}

async function makeCustomer(money: string): Promise<Customer> {
  const { id, call, key } = await server.account({ usd: money, sshKey: false })
  return { id, call, target: { url: server.url, key, model: model.name }, paidIn: usd(money), results: [] }
}

async function ask({ target, results }: Customer): Promise<ChatResult> {
  const one = await askChat(target, plain, 'Say some words')
  results.push(one)
  return one
}

/** The error of requests that need the database. */
const retryableError = { status: 503, retryAfter: expect.stringMatching(/^[1-9]\d*$/) as unknown }

/** Stops PostgreSQL and checks that requests start and finish in every part of the outage. */
async function runWithoutPostgres(load: ChatLoad, each: () => Promise<void>): Promise<void> {
  await postgres.stop()
  const stoppedAt = performance.now()
  for (let part = 1; part <= PARTS; part += 1) {
    // More than the number of clients, because requests in flight at the start of a part do not count.
    const enough = load.results.length + CLIENTS + ANSWERS_PER_PART
    await waitFor(
      () => `${enough} answers; so far ${load.results.length}`,
      () => {
        expect(load.results.filter((one) => one.status !== 200)).toEqual([])
        return load.results.length >= enough
      },
      MINUTE_MS,
    )
    await each()
    const until = stoppedAt + (part * OUTAGE_MS) / PARTS
    await waitFor('the next part', () => performance.now() >= until, OUTAGE_MS)
  }
}

/** Creates a key, uses it, revokes it and checks that it is rejected. */
async function expectKeysWork(customer: Customer): Promise<void> {
  const made = await waitFor('a key to be made', async () => {
    const reply = await customer.call('POST', '/v2/api-keys', { name: 'after', scopes: ['inference'] })
    return reply.status === 200 && (reply.body as { key: string; publicId: string })
  })
  const holder: Customer = { ...customer, target: { ...customer.target, key: made.key } }
  expect((await ask(holder)).status).toBe(200)
  await customer.call('DELETE', `/v2/api-keys/${made.publicId}`)
  await waitFor('the revoked key to be refused', async () => (await ask(holder)).status === 401)
}

/** P68: a message, a ranking and a response that is not stored are answered; what needs storage gets a retryable error. */
async function expectProtocols({ call }: Customer): Promise<void> {
  const respond = (change: object) => call('POST', '/v1/responses', { model: model.name, input: 'Hi', ...change })
  const message = { model: model.name, messages: [{ role: 'user', content: 'Hi' }] }
  const answers = [
    await respond({ store: false }),
    await call('POST', '/v1/messages', { ...message, max_tokens: 20 }),
    await call('POST', '/v1/messages/count_tokens', message),
    await call('POST', '/v1/responses/input_tokens', { model: model.name, input: 'Hi' }),
    await call('POST', '/v1/rerank', { model: ranker.name, query: 'Hi', documents: ['one', 'two'] }),
  ]
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
  const needStorage = [
    () => respond({}),
    () => respond({ stream: true }),
    () => respond({ store: false, previous_response_id: 'resp_1' }),
    () => respond({ store: false, input: [{ type: 'item_reference', id: `msg_${'0'.repeat(33)}` }] }),
    () => call('GET', '/v1/responses/resp_1'),
    () => call('GET', '/v1/responses/resp_1?stream=true'),
    () => call('GET', '/v1/responses/resp_1/input_items'),
    () => call('DELETE', '/v1/responses/resp_1'),
    () => call('POST', '/v1/responses/input_tokens', { model: model.name, previous_response_id: 'resp_1' }),
  ]
  for (const [place, send] of needStorage.entries()) {
    const sentAt = performance.now()
    const { status, headers } = await send()
    const isAtOnce = performance.now() - sentAt < AT_ONCE_MS
    expect({ place, status, retryAfter: headers.get('retry-after'), isAtOnce }).toEqual({
      place,
      ...retryableError,
      isAtOnce: true,
    })
  }
}

test('P68: answers every protocol without PostgreSQL and loses no charge', { timeout: 5 * MINUTE_MS }, async () => {
  const warm = await makeCustomer('5')
  // The first request moves all of it into the purse; it pays for a few dozen requests.
  const thin = await makeCustomer('0.00002')
  // The first key was used, but only for free calls; the last one never was.
  const known = await makeCustomer('1')
  const cold = await makeCustomer('1')
  await waitFor('the model is served', async () => (await ask(warm)).status === 200)
  const talker = await makeCustomer('1')
  expect((await ask(talker)).status).toBe(200)
  expect((await ask(thin)).status).toBe(200)
  expect((await known.call('GET', '/v1/models')).status).toBe(200)
  const load = startChatLoad({
    clients: CLIENTS,
    // Storage needs the database.
    mix: protocolMix.map((one) => ({ ...one, isUnstored: true })),
    target: () => warm.target,
    onResult: (result) => warm.results.push(result),
  })
  cleanUp.push(() => load.stop())
  await waitFor('the load to run', () => load.answered >= 20)

  await runWithoutPostgres(load, async () => {
    expect(await ask(cold)).toMatchObject(retryableError)
    expect(await ask(known)).toMatchObject(retryableError)
    await expectProtocols(talker)
    const balance = await warm.call('GET', '/v2/customer/balance')
    expect({ status: balance.status, retryAfter: balance.headers.get('retry-after') }).toEqual(retryableError)
  })
  // An empty purse cannot be refilled during the outage, which is not the customer's fault.
  await waitFor('the thin purse to be empty', async () => (await ask(thin)).status !== 200)
  expect(thin.results.filter((one) => one.status === 200).length).toBeGreaterThan(5)
  expect(thin.results.at(-1)).toMatchObject(retryableError)

  const { url } = postgres
  postgres = await startPostgres()
  expect(postgres.url).toBe(url)
  await waitFor('the cold one to be served', async () => (await ask(cold)).status === 200)
  await waitFor('the known one to be served', async () => (await ask(known)).status === 200)
  await expectKeysWork(warm)
  const enough = load.answered + 20
  await waitFor('the load to continue', () => load.answered >= enough)
  await load.stop()
  expect(load.results.filter((one) => one.status !== 200 || (!one.isComplete && !one.isCut))).toEqual([])

  // Closing settles all pending charges and returns the purses.
  const { operatorKey } = server
  await server.close()
  for (const { id, results, paidIn } of [warm, thin, known, cold]) {
    expectBilledOnce(await ledger.read(id), results, { prices, paidIn })
  }
  expect(await ledger.inAnyPurse()).toBe(0n)
  server = await testServer({ databaseUrl: postgres.url, runLoops: false, env: { BERTH_DRIVERS: '' } })
  const verified = await server.as(operatorKey)('GET', '/v2/operator/ledger/verify')
  expect(verified.body).toMatchObject({ ok: true, findings: [] })
})

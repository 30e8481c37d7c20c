/**
 * PostgreSQL is stopped under load and started again on the same data. Chats of accounts whose money a gateway has in
 * its purse are answered all the while; whoever needs the database is told to come back, never that a key is wrong; and
 * afterwards everything that was answered is in the books, once.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { usd } from '../src/base/money.ts'
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../src/server/embedded-postgres.ts'
import { askChat, type ChatAsk, type ChatTarget, type ChatTold, type TokenPrices } from './harness/chat-client.ts'
import { startChatLoad, usualMix } from './harness/chat-load.ts'
import { expectBilledOnce, readBooksOf, type BooksReader } from './harness/inference-books.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

const OUTAGE_MS = Number.parseInt(process.env.BERTH_TEST_OUTAGE_MS ?? '20000', 10)
/** The outage is looked at in so many parts. In each of them requests begin and end. */
const PARTS = 10
const ANSWERS_A_PART = 10
const CLIENTS = 4
const MINUTE_MS = 60_000

/** A request costs a thousandth of a cent: what a gateway sets aside for an account lasts for tens of thousands. */
const prices: TokenPrices = { input: 10, cached: 5, output: 40 }
const plain: ChatAsk = { stream: false, maxTokens: 20, careful: false }

let dataDir: string
let postgres: EmbeddedPostgres
let server: TestServer
let model: TestModel
let books: BooksReader
beforeAll(async () => {
  dataDir = await mkdtemp(path.join(os.tmpdir(), 'berth-outage-'))
  postgres = await startPostgres()
  server = await testServer({ databaseUrl: postgres.url, env: { BERTH_ENGINES: '' } })
  books = readBooksOf(postgres.url)
  model = await serveModel(server, {
    model: { inputUsdPerMillion: '0.01', cachedUsdPerMillion: '0.005', outputUsdPerMillion: '0.04' },
    deployment: { concurrency: 1_000, readsMetrics: true },
    behaviour: { words: 12, intervalMs: 5, latencyMs: 20, usage: 'continuous' },
  })
}, 2 * MINUTE_MS)
afterAll(async () => {
  await books.close()
  await server.close()
  await model.upstream.close()
  await postgres.stop()
  await rm(dataDir, { recursive: true, force: true })
})

/** Always the same folder, and so the same address. Processes end here, not the machine: nothing needs fsync. */
async function startPostgres(): Promise<EmbeddedPostgres> {
  return startEmbeddedPostgres({ dataDir, log: () => {}, settings: { fsync: 'off' } })
}

interface Customer {
  readonly id: string
  readonly call: Call
  readonly target: ChatTarget
  readonly paidIn: bigint
  readonly told: ChatTold[]
}

async function makeCustomer(money: string): Promise<Customer> {
  const { id, call, key } = await server.account({ usd: money, sshKey: false })
  return { id, call, target: { url: server.url, key, model: model.name }, paidIn: usd(money), told: [] }
}

async function ask({ target, told }: Customer): Promise<ChatTold> {
  const one = await askChat(target, plain, 'Say some words')
  told.push(one)
  return one
}

/** What whoever needs the database is told. */
const comeBack = { status: 503, retryAfter: expect.stringMatching(/^[1-9]\d*$/) as unknown }

test(
  `chats go on without PostgreSQL for ${OUTAGE_MS / 1_000} s, and nothing of it is lost`,
  { timeout: 5 * MINUTE_MS },
  async () => {
    const warm = await makeCustomer('5')
    // All of it is in the purse with the first request, and lasts for some ten.
    const thin = await makeCustomer('0.00002')
    const known = await makeCustomer('1')
    const cold = await makeCustomer('1')
    await waitFor('the model is served', async () => (await ask(warm)).status === 200)
    expect((await ask(thin)).status).toBe(200)
    expect((await known.call('GET', '/v1/models')).status).toBe(200)
    const load = startChatLoad({
      clients: CLIENTS,
      mix: usualMix,
      target: () => warm.target,
      onTold: (told) => warm.told.push(told),
    })
    await waitFor('the load to run', () => load.answered >= 20)

    await postgres.stop()
    const stoppedAt = performance.now()
    const before = load.told.length
    for (let part = 1; part <= PARTS; part += 1) {
      // Twice the clients: those that are under way at the beginning of a part do not count for it.
      const enough = load.answered + 2 * CLIENTS + ANSWERS_A_PART
      await waitFor(`${enough} answers`, () => load.answered >= enough, MINUTE_MS)
      expect(await ask(cold)).toMatchObject(comeBack)
      expect(await ask(known)).toMatchObject(comeBack)
      const balance = await warm.call('GET', '/v2/customer/balance')
      expect([balance.status, balance.headers.get('retry-after')]).toEqual([503, expect.stringMatching(/^[1-9]\d*$/)])
      const until = stoppedAt + (part * OUTAGE_MS) / PARTS
      await waitFor('the next part', () => performance.now() >= until, OUTAGE_MS)
    }
    const during = load.told.slice(before)
    expect([...new Set(during.map((one) => one.status))]).toEqual([200])
    expect(during.filter((one) => !one.isComplete && !one.isCut)).toEqual([])
    // A purse that is used up cannot be filled: that is not the customer's fault either.
    await waitFor('the thin purse to be empty', async () => (await ask(thin)).status !== 200)
    expect(thin.told.filter((one) => one.status === 200).length).toBeGreaterThan(5)
    expect(thin.told.at(-1)).toMatchObject(comeBack)

    const { url } = postgres
    postgres = await startPostgres()
    expect(postgres.url).toBe(url)
    await waitFor('the cold one to be served', async () => (await ask(cold)).status === 200)
    await waitFor('the known one to be served', async () => (await ask(known)).status === 200)
    const made = await waitFor('keys to be made', async () => {
      const reply = await warm.call('POST', '/v2/api-keys', { name: 'after', scopes: ['inference'] })
      return reply.status === 200 && (reply.body as { key: string; publicId: string })
    })
    const after: Customer = { ...warm, target: { ...warm.target, key: made.key } }
    expect((await ask(after)).status).toBe(200)
    await warm.call('DELETE', `/v2/api-keys/${made.publicId}`)
    await waitFor('the revoked key to be refused', async () => (await ask(after)).status === 401)
    const enough = load.answered + 20
    await waitFor('the load to go on', () => load.answered >= enough)
    await load.stop()
    expect([...new Set(load.told.map((one) => one.status))]).toEqual([200])

    // Closing settles what is not settled yet, and gives the purses back.
    const { operatorKey } = server
    await server.close()
    process.stderr.write(
      JSON.stringify({
        all: load.told.length,
        during: during.length,
        answered: load.answered,
        thin: thin.told.length,
      }) + '\n',
    )
    for (const { id, told, paidIn } of [warm, thin, known, cold]) {
      expectBilledOnce(await books.read(id), told, { prices, paidIn })
    }
    expect(await books.inAnyPurse()).toBe(0n)
    server = await testServer({ databaseUrl: postgres.url, runLoops: false, env: { BERTH_ENGINES: '' } })
    const verified = await server.as(operatorKey)('GET', '/v2/operator/ledger/verify')
    expect(verified.body).toMatchObject({ ok: true, findings: [] })
  },
)

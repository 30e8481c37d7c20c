/**
 * Gateways are killed (SIGKILL) repeatedly under load and restarted on their journals. Afterwards every answer a client
 * received in full is billed once at its price, and no money is left in a purse.
 */
import { randomInt } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { usd } from '../src/base/money.ts'
import { askChat, type ChatResult, type TokenPrices } from './harness/chat-client.ts'
import { protocolMix, startChatLoad } from './harness/chat-load.ts'
import { makeGatewayProcess, type GatewayProcess } from './lab/gateway-process.ts'
import { expectBilledOnce, readLedgerOf, type LedgerReader } from './harness/inference-ledger.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('kills', 'build')

const KILLS = Number.parseInt(process.env.BERTH_TEST_GATEWAY_KILLS ?? '10', 10)
const GATEWAYS = 2
const CLIENTS = 12
/**
 * Each gateway start uses a different customer: a start takes a tenth of an account's rate limit for the minute and
 * does not return it when killed.
 */
const CUSTOMERS = 12
/** A gateway is killed after at least one and fewer than this many answers. */
const ANSWERS_BEFORE_DEATH = 20
/** Of the stored responses of an account, so many are read back. */
const MAX_READ_RESPONSES = 20
/** One in this many kills happens during a start. */
const AT_START_EVERY = 5
const MINUTE_MS = 60_000
const WORDS = 12
/** The events of a stream beside its words, in each protocol. */
const OTHER_EVENTS = { messages: 5, responses: 8 } as const
const SECRET_KEY = 'one secret key for all of the gateways'

const prices: TokenPrices = { input: 10, cached: 5, output: 40 }

/** Owns the database and the accounts, and answers no chats. Neither it nor the engine is killed. */
let house: TestServer
let ledger: LedgerReader
let model: TestModel
let gateways: GatewayProcess[]
const cleanUp: Array<() => Promise<void>> = []
beforeAll(async () => {
  house = await testServer({ runLoops: false, env: { BERTH_DRIVERS: '', BERTH_SECRET_KEY: SECRET_KEY } })
  ledger = readLedgerOf(house.databaseUrl)
  model = await serveModel(house, {
    model: { inputUsdPerMillion: '0.01', cachedUsdPerMillion: '0.005', outputUsdPerMillion: '0.04' },
    deployment: { concurrency: 1_000, readsMetrics: true },
    behaviour: { words: WORDS, intervalMs: 5, latencyMs: 20, usage: 'continuous' },
  })
  gateways = await Promise.all(
    Array.from({ length: GATEWAYS }, () =>
      makeGatewayProcess({ databaseUrl: house.databaseUrl, secretKey: SECRET_KEY }),
    ),
  )
})
afterAll(async () => {
  for (const step of cleanUp) await step()
  await Promise.all(gateways.map((gateway) => gateway.close()))
  await ledger.close()
  await house.close()
  await model.upstream.close()
})

interface Customer {
  readonly id: string
  readonly key: string
  readonly call: Call
  readonly paidIn: bigint
  readonly results: ChatResult[]
}

/** Every second key has a high spending limit, and therefore its own purses. */
async function makeCustomer(n: number): Promise<Customer> {
  const money = '10'
  const { id, call } = await house.account({ usd: money, sshKey: false })
  const limits = n % 2 === 0 ? {} : { totalLimitUsd: '5' }
  const made = await call('POST', '/v2/api-keys', { name: 'load', scopes: ['inference'], ...limits })
  return { id, key: made.body.key as string, call, paidIn: usd(money), results: [] }
}

/** Customer of a gateway's next requests, by the gateway's URL, which changes with each start. */
function makeTurns(customers: readonly Customer[]): (url: string) => Customer | undefined {
  const turns = new Map<string, Customer | undefined>()
  return (url) => {
    if (!turns.has(url)) turns.set(url, customers[turns.size % customers.length])
    return turns.get(url)
  }
}

/** Kills it this many times, each time after some answers, and restarts it. */
async function killOften(gateway: GatewayProcess, kills: number, answersOf: (url: string) => number): Promise<void> {
  for (let left = kills; left > 0; left -= 1) {
    const { url = '' } = gateway
    const enough = randomInt(1, ANSWERS_BEFORE_DEATH)
    await waitFor(`${enough} answers of ${url}`, () => answersOf(url) >= enough, 2 * MINUTE_MS)
    await gateway.kill()
    if (left % AT_START_EVERY === 0) {
      await gateway.killAtStart()
      left -= 1
    }
    await gateway.start()
  }
}

/** Whoever has the last event of a stored response can read it. */
async function expectStored(call: Call, results: readonly ChatResult[]): Promise<void> {
  const ids = results.flatMap(({ storedId }) => storedId ?? []).slice(-MAX_READ_RESPONSES)
  const replies = await Promise.all(ids.map((id) => call('GET', `/v1/responses/${id}`)))
  expect(replies.map(({ status, body }) => [status, body.id])).toEqual(ids.map((id) => [200, id]))
}

test(`P2: bills every answer once across ${KILLS} gateway kills under load`, { timeout: 8 * MINUTE_MS }, async () => {
  const customers: Customer[] = []
  for (let n = 0; n < CUSTOMERS; n += 1) customers.push(await makeCustomer(n))
  const byKey = new Map(customers.map((customer) => [customer.key, customer]))
  await Promise.all(gateways.map((gateway) => gateway.start()))

  const turnOf = makeTurns(customers)
  const answers = new Map<string, number>()
  const load = startChatLoad({
    clients: CLIENTS,
    mix: protocolMix,
    // Alternates between the gateways; while one is down the other gets all requests.
    target: (n) => {
      const up = gateways.flatMap(({ url }) => url ?? [])
      const url = up[n % up.length]
      const key = url === undefined ? undefined : turnOf(url)?.key
      return url === undefined || key === undefined ? undefined : { url, key, model: model.name }
    },
    onResult: (result, { url, key }) => {
      byKey.get(key)?.results.push(result)
      if (result.status === 200) answers.set(url, (answers.get(url) ?? 0) + 1)
    },
  })
  cleanUp.push(() => load.stop())
  await Promise.all(gateways.map((one) => killOften(one, Math.ceil(KILLS / GATEWAYS), (url) => answers.get(url) ?? 0)))
  await load.stop()
  // A gateway accounts for everything it holds before it exits.
  expect(await Promise.all(gateways.map((gateway) => gateway.stop()))).toEqual(gateways.map(() => 0))

  const records = await Promise.all(customers.map(({ id }) => ledger.read(id)))
  for (const [n, { results, paidIn, call }] of customers.entries()) {
    const record = records[n]
    if (record !== undefined) expectBilledOnce(record, results, { prices, paidIn })
    await expectStored(call, results)
  }
  expect(await ledger.inAnyPurse()).toBe(0n)
  const verified = await house.operator('GET', '/v2/operator/ledger/verify')
  expect(verified.body).toMatchObject({ ok: true, findings: [] })

  expect(new Set(load.results.map((one) => one.status))).toEqual(new Set([200, undefined]))
  expect(load.results.filter((one) => one.isLate)).toEqual([])
  const unfinished = load.results.filter((one) => !one.isComplete && !one.isCut)
  // Otherwise no kill interrupted anything.
  expect(unfinished.length).toBeGreaterThan(KILLS / 2)
  expect(load.answered).toBeGreaterThan(KILLS)
})

test.each(['messages', 'responses'] as const)(
  'P2: a kill at any event of a stream of %s loses no finished request, and charges none twice',
  { timeout: 8 * MINUTE_MS },
  async (protocol) => {
    const [gateway] = gateways
    if (gateway === undefined) throw new Error('there is no gateway')
    const kills: Array<{ customer: Customer; result: ChatResult; atEvent: number }> = []
    const events = WORDS + OTHER_EVENTS[protocol]
    await gateway.start()
    for (let kill = 0; kill < KILLS; kill += 1) {
      const customer = await makeCustomer(kill)
      // The last event and the one before it are always among them.
      const atEvent = kill < 2 ? events - kill : randomInt(1, events)
      const target = { url: gateway.url ?? '', key: customer.key, model: model.name }
      const ask = { protocol, stream: true, maxTokens: 100, fullPath: true } as const
      let dying: Promise<void> | undefined
      const result = await askChat(target, ask, `Kill ${kill}`, (count) => {
        if (count >= atEvent) dying ??= gateway.kill()
      })
      expect(dying, `${result.status} at event ${atEvent}`).toBeDefined()
      await dying
      await gateway.start()
      kills.push({ customer, result, atEvent })
    }
    expect(await gateway.stop()).toBe(0)
    for (const { customer, result } of kills) {
      const record = await ledger.read(customer.id)
      expectBilledOnce(record, [result], { prices, paidIn: customer.paidIn })
      expect([...record.billed.values()].every(({ operation }) => operation === protocol)).toBe(true)
      await expectStored(customer.call, [result])
    }
    const seenWhole = kills.filter(({ atEvent }) => atEvent === events)
    expect(seenWhole.map(({ result }) => [result.status, result.isComplete])).toContainEqual([200, true])
    expect(await ledger.inAnyPurse()).toBe(0n)
    const verified = await house.operator('GET', '/v2/operator/ledger/verify')
    expect(verified.body).toMatchObject({ ok: true, findings: [] })
  },
)

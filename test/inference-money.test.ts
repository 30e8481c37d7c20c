/**
 * Accounts with too little money for their load: none is overdrawn, every answer is charged to the nano-dollar, and the
 * last affordable request is served.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { usd } from '../src/base/money.ts'
import { forgetServer, worstCostOf, type ChatResult, type TokenPrices } from './harness/chat-client.ts'
import { startChatLoad, usualMix, type ChatLoad } from './harness/chat-load.ts'
import { expectBilledOnce, readLedgerOf, type LedgerReader, type InferenceLedger } from './harness/inference-ledger.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

const CLIENTS = 64
const WORDS = 12
/** After this many refusals in a row with nothing in flight, the account cannot afford another request. */
const DRY_AFTER = 20
/** The maximum for one call. */
const MAX_COSTS_PER_CALL = 100
const MINUTE_MS = 60_000
const inTime = { timeout: 4 * MINUTE_MS }

interface Offer extends TestModel {
  readonly prices: TokenPrices
}

/** Owns the database and the accounts, and answers no chats itself. */
let house: TestServer
let ledger: LedgerReader
/** A request costs about 0.0001 USD and at most six times that: 0.05 USD pays for a few hundred. */
let cheap: Offer
/** 64 concurrent clients need more than 0.1 USD in holds from the start. */
let dear: Offer
beforeAll(async () => {
  house = await testServer({ runLoops: false, env: { BERTH_DRIVERS: '' } })
  ledger = readLedgerOf(house.databaseUrl)
  cheap = await offer('test/cheap', { input: 1_500, cached: 750, output: 6_000 })
  dear = await offer('test/dear', { input: 6_000, cached: 3_000, output: 24_000 })
})
afterAll(async () => {
  await ledger.close()
  await house.close()
  await Promise.all([cheap, dear].map(({ upstream }) => upstream.close()))
})

/** 1 nano-USD per token is 0.001 USD per million tokens. */
async function offer(name: string, prices: TokenPrices): Promise<Offer> {
  const model = await serveModel(house, {
    name,
    model: {
      inputUsdPerMillion: String(prices.input / 1_000),
      cachedUsdPerMillion: String(prices.cached / 1_000),
      outputUsdPerMillion: String(prices.output / 1_000),
    },
    deployment: { concurrency: 1_000, readsMetrics: true },
    behaviour: { words: WORDS, intervalMs: 3, latencyMs: 5, usage: 'continuous' },
  })
  return { ...model, prices }
}

interface Customer {
  readonly id: string
  readonly call: Call
  readonly key: string
  readonly paidIn: bigint
}

async function makeCustomer(money: string, limits: { totalLimitUsd?: string } = {}): Promise<Customer> {
  const { id, call } = await house.account({ usd: money, sshKey: false })
  const made = await call('POST', '/v2/api-keys', {
    name: 'load',
    scopes: ['inference'],
    requestsPerMinute: 1_000_000,
    ...limits,
  })
  return { id, call, key: made.body.key as string, paidIn: usd(money) }
}

/** A server that only answers chats, on the main server's database. */
async function startGateway(): Promise<TestServer> {
  return testServer({
    databaseUrl: house.databaseUrl,
    runLoops: false,
    env: { BERTH_DRIVERS: '', BERTH_ROLE: 'gateway' },
  })
}

async function closeGateway(gateway: TestServer): Promise<void> {
  await gateway.close()
  forgetServer(gateway.url)
}

interface Spending extends ChatLoad {
  readonly customer: Customer
  readonly model: Offer
  /** Number of 200 responses by gateway URL. */
  readonly served: ReadonlyMap<string, number>
}

/** Alternates between all gateways that are running. */
function startSpending(customer: Customer, model: Offer, gateways: readonly TestServer[]): Spending {
  const served = new Map<string, number>()
  const load = startChatLoad({
    clients: CLIENTS,
    mix: usualMix,
    dryAfter: DRY_AFTER,
    target: (n) => {
      const url = gateways[n % gateways.length]?.url
      return url === undefined ? undefined : { url, key: customer.key, model: model.name }
    },
    onResult: (result, { url }) => {
      if (result.status === 200) served.set(url, (served.get(url) ?? 0) + 1)
    },
  })
  return Object.assign(load, { customer, model, served })
}

/** Polls the balance in the tables and through the API until the load has ended. */
async function watchBalance({ customer, ...load }: Pick<Spending, 'customer' | 'ended'>): Promise<void> {
  let last = customer.paidIn
  let isOver = false
  void load.ended.then(() => (isOver = true))
  await waitFor(
    'the load to end',
    async () => {
      const inTables = await ledger.balance(customer.id)
      const { body } = await customer.call('GET', '/v2/customer/balance')
      const shown = { available: usd(body.availableUsd as string), held: usd(body.heldUsd as string) }
      for (const { available, held } of [inTables, shown]) {
        // The balance only falls, and never below zero.
        const isRight = available >= 0n && held >= 0n && available + held <= last
        expect(isRight, `${available} and ${held} after ${last}`).toBe(true)
        last = available + held
      }
      return isOver
    },
    2 * MINUTE_MS,
  )
}

/** Statuses and reasons of all refusals. */
function refusalsOf(results: readonly ChatResult[]): string[] {
  const refused = results.filter((one) => one.status !== 200 && !isTooLate(one))
  return [...new Set(refused.map(({ status, body }) => `${status} ${(JSON.parse(body) as { reason: string }).reason}`))]
}

/** Whether the request reached a gateway that was stopping. */
function isTooLate({ status }: ChatResult): boolean {
  return status === undefined || status === 503
}

/** Maximum cost of one request of the load. */
function maxCostOf({ results, model }: Spending): bigint {
  return results.map((one) => worstCostOf(model.prices, one)).reduce((most, one) => (one > most ? one : most), 0n)
}

/** Once all gateways are closed, client responses, request log, ledger and balance agree. */
async function expectExactLedger(load: Spending): Promise<InferenceLedger> {
  const { results, model, customer } = load
  const record = await ledger.read(customer.id)
  expectBilledOnce(record, results, { prices: model.prices, paidIn: customer.paidIn })
  expectCutsBilled(record, load)
  await expectCostsReported(record, load)
  expect(await ledger.inAnyPurse()).toBe(0n)
  expect(results.filter((one) => one.isLate)).toEqual([])
  const verified = await house.operator('GET', '/v2/operator/ledger/verify')
  expect(verified.body).toMatchObject({ ok: true, findings: [] })
  return record
}

/** For a sample of requests, the API reports the cost that the ledger has. */
async function expectCostsReported(record: InferenceLedger, { results, customer }: Spending): Promise<void> {
  const answered = results.filter((one) => one.status === 200)
  const requestIds = answered.flatMap(({ requestId }) => requestId ?? []).slice(-MAX_COSTS_PER_CALL)
  const { body } = await customer.call('POST', '/v2/usage/request-cost', { requestIds })
  const costs = body.requests as Array<{ requestId: string; costNanoUsd: number }>
  const shown = new Map(costs.map(({ requestId, costNanoUsd }) => [requestId, BigInt(costNanoUsd)]))
  expect(shown).toEqual(new Map(requestIds.map((id) => [id, record.billed.get(id)?.cost])))
}

/** Clients that left a stream paid at least for the tokens they saw and at most for those the engine sent. */
function expectCutsBilled(record: InferenceLedger, { results, model }: Spending): void {
  const { input, cached, output } = model.prices
  const byTrace = new Map([...record.billed.values()].map((one) => [one.traceId, one]))
  const sentTo = new Map(
    model.upstream.requests.map((one) => [one.headers['traceparent']?.split('-')[1] ?? '', one.eventsSent]),
  )
  const cuts = results.filter((one) => one.isCut).map((one) => ({ ...one, billed: byTrace.get(one.traceId) }))
  const wrong = cuts.flatMap(({ requestId, traceId, message, words, billed }) => {
    if (billed === undefined) return [`${requestId}: not in the log`]
    // The first event of a stream and the last ones carry no text.
    const sent = Math.min(WORDS, (sentTo.get(traceId) ?? 0) - 1)
    const { inputUnits, cachedUnits, outputUnits, cost } = billed
    const isRight =
      inputUnits === Math.ceil(JSON.stringify(message).length / 4) &&
      outputUnits >= words &&
      outputUnits <= sent &&
      cost === BigInt((inputUnits - cachedUnits) * input + cachedUnits * cached + outputUnits * output)
    return isRight ? [] : [`${requestId}: saw ${words} of ${sent}, ${inputUnits} and ${outputUnits} billed as ${cost}`]
  })
  expect(wrong).toEqual([])
  // Some may leave after the last token, but not all.
  expect(cuts.filter(({ billed }) => billed?.outcome === 'cut').length).toBeGreaterThan(0)
}

test('64 clients spend 0.05 USD down to the last affordable request, and no more', inTime, async () => {
  const customer = await makeCustomer('0.05')
  const gateway = await startGateway()
  const load = startSpending(customer, cheap, [gateway])
  await watchBalance(load)
  await closeGateway(gateway)

  expect(refusalsOf(load.results)).toEqual(['402 insufficient_balance'])
  expect(load.results.filter(isTooLate)).toEqual([])
  expect(load.answered).toBeGreaterThan(200)
  expect(load.results.filter((one) => one.isCut).length).toBeGreaterThan(20)
  const { available } = await expectExactLedger(load)
  expect(available).toBeLessThan(maxCostOf(load))
})

test('two gateways never spend the same money twice', inTime, async () => {
  // More than one gateway leases at a time, so both get some.
  const customer = await makeCustomer('0.12')
  const gateways = await Promise.all([startGateway(), startGateway()])
  const load = startSpending(customer, dear, gateways)
  await watchBalance(load)
  await Promise.all(gateways.map(closeGateway))

  expect(gateways.map(({ url }) => (load.served.get(url) ?? 0) > 20)).toEqual([true, true])
  expect(load.results.filter(isTooLate)).toEqual([])
  expect(refusalsOf(load.results)).toEqual(['402 insufficient_balance'])
  const { available } = await expectExactLedger(load)
  // Each of the two may be left with slightly less than one request needs.
  expect(available).toBeLessThan(2n * maxCostOf(load))
})

test('money left unspent by a gateway stopped under load is spent by another', inTime, async () => {
  const customer = await makeCustomer('0.05')
  const [first, second] = await Promise.all([startGateway(), startGateway()])
  const gateways = [first]
  const load = startSpending(customer, dear, gateways)
  await waitFor('the first to have answered some', () => load.answered >= 30)
  // New requests go to the other gateway; requests in flight may finish where they are.
  gateways[0] = second
  await closeGateway(first)
  await watchBalance(load)
  await closeGateway(second)

  expect([first, second].map(({ url }) => (load.served.get(url) ?? 0) > 10)).toEqual([true, true])
  expect(refusalsOf(load.results)).toEqual(['402 insufficient_balance'])
  const { available } = await expectExactLedger(load)
  expect(available).toBeLessThan(maxCostOf(load))
  // Requests that reached the first gateway too late never reached the engine.
  const late = load.results.filter(isTooLate).map((one) => one.traceId)
  const begun = dear.upstream.requests.map((one) => one.headers['traceparent'] ?? '').join(' ')
  expect(late.filter((traceId) => begun.includes(traceId))).toEqual([])
})

test('a key cannot exceed its limit across two gateways, whatever the account balance', inTime, async () => {
  const limit = usd('0.01')
  const customer = await makeCustomer('5', { totalLimitUsd: '0.01' })
  const [first, second] = await Promise.all([startGateway(), startGateway()])
  const gateways = [first]
  const load = startSpending(customer, cheap, gateways)
  await waitFor('some answers', () => load.answered >= 10)
  gateways.push(second)
  await waitFor('some more', () => load.answered >= 25)
  // The first gateway has leased all that was left of the limit, and returns what it does not use.
  gateways.shift()
  await closeGateway(first)
  await watchBalance(load)
  await closeGateway(second)

  expect([first, second].map(({ url }) => (load.served.get(url) ?? 0) > 10)).toEqual([true, true])
  expect(refusalsOf(load.results)).toEqual(['402 key_spending_limit'])
  const { available } = await expectExactLedger(load)
  const spent = customer.paidIn - available
  expect(spent).toBeLessThanOrEqual(limit)
  expect(spent + maxCostOf(load)).toBeGreaterThan(limit)
})

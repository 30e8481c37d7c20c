/**
 * Accounts with little money under more load than it covers: nobody overdraws, whatever is answered is paid to the
 * nano-dollar, and the last request that fits is served.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { formatUsd, nanoUsdOf, usd } from '../src/base/money.ts'
import { worstCostOf, forgetServer, type ChatTarget, type ChatTold, type TokenPrices } from './harness/chat-client.ts'
import { startChatLoad, usualMix, type ChatLoad } from './harness/chat-load.ts'
import { expectBilledOnce, readBooksOf, type BooksReader, type InferenceBooks } from './harness/inference-books.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

const CLIENTS = 64
const WORDS = 20
/** Refused so often in a row, with nothing else under way: there is nothing left that a request could be paid from. */
const DRY_AFTER = 20
const LOAD_MS = 60_000

/** A request costs some 0.0001 USD, and could cost five times as much: 0.05 USD pay for some hundreds. */
const prices: TokenPrices = { input: 1_000, cached: 500, output: 4_000 }

/** Has the books and the accounts, and answers no chats itself. */
let house: TestServer
let books: BooksReader
let model: TestModel
beforeAll(async () => {
  house = await testServer({ runLoops: false, env: { BERTH_ENGINES: '' } })
  books = readBooksOf(house.databaseUrl)
  model = await serveModel(house, {
    model: { inputUsdPerMillion: '1', cachedUsdPerMillion: '0.5', outputUsdPerMillion: '4' },
    deployment: { concurrency: 1_000, readsMetrics: true },
    behaviour: { words: WORDS, intervalMs: 2, latencyMs: 5, usage: 'continuous' },
  })
})
afterAll(async () => {
  await books.close()
  await house.close()
  await model.upstream.close()
})

interface Customer {
  readonly id: string
  readonly call: Call
  readonly key: string
  readonly keyId: string
}

async function makeCustomer(money: string, limits: { totalLimitUsd?: string } = {}): Promise<Customer> {
  const { id, call } = await house.account({ usd: money, sshKey: false })
  const made = await call('POST', '/v2/api-keys', {
    name: 'load',
    scopes: ['inference'],
    requestsPerMinute: 1_000_000,
    ...limits,
  })
  return { id, call, key: made.body.key as string, keyId: made.body.publicId as string }
}

/** A server that only answers chats, on the database of the house. */
async function startGateway(customer: Customer): Promise<TestServer> {
  const gateway = await testServer({
    databaseUrl: house.databaseUrl,
    runLoops: false,
    env: { BERTH_ENGINES: '', BERTH_ROLE: 'gateway' },
  })
  const models = gateway.as(customer.key)
  await waitFor('the gateway to serve', async () => (await models('GET', '/v1/models')).body.data.length === 1)
  return gateway
}

async function closeGateway(gateway: TestServer): Promise<void> {
  await gateway.close()
  forgetServer(gateway.url)
}

function startLoad(customer: Customer, gateways: readonly TestServer[]): ChatLoad & { served: Map<string, number> } {
  const served = new Map<string, number>()
  const load = startChatLoad({
    clients: CLIENTS,
    mix: usualMix,
    dryAfter: DRY_AFTER,
    target: (n): ChatTarget | undefined => {
      const gateway = gateways[n % gateways.length]
      return gateway === undefined ? undefined : { url: gateway.url, key: customer.key, model: model.name }
    },
    onTold: (told, { url }) => {
      if (told.status === 200) served.set(url, (served.get(url) ?? 0) + 1)
    },
  })
  return Object.assign(load, { served })
}

/** Looks at the balance, in the tables and through the interface, until the load has ended. */
async function watchBalance(customer: Customer, load: ChatLoad, paidIn: bigint): Promise<void> {
  let last = paidIn
  let looks = 0
  await waitFor(
    'the load to end',
    async () => {
      const { available, held } = await books.balance(customer.id)
      const { body } = await customer.call('GET', '/v2/customer/balance')
      const shown = { available: usd(body.availableUsd as string), held: usd(body.heldUsd as string) }
      for (const one of [{ available, held }, shown]) {
        const whole = one.available + one.held
        // Money only goes, and never below nothing.
        expect(one.available >= 0n && one.held >= 0n && whole <= last, JSON.stringify(body)).toBe(true)
        last = whole
      }
      looks += 1
      return load.isOver
    },
    LOAD_MS,
  )
  await load.ended
  expect(looks).toBeGreaterThan(3)
}

function reasonsOf(told: readonly ChatTold[]): unknown[] {
  const refused = told.filter((one) => one.status !== 200).map((one) => [one.status, reasonIn(one.body)].join(' '))
  return [...new Set(refused)]
}

function reasonIn(body: string): string {
  return body === '' ? 'no answer' : String((JSON.parse(body) as { reason?: string }).reason)
}

/** The most that one of the requests of a load can cost. */
function dearest(told: readonly ChatTold[]): bigint {
  return told.map((one) => worstCostOf(prices, one)).reduce((most, one) => (one > most ? one : most), 0n)
}

function countAnswers(told: readonly ChatTold[]): { complete: number; cut: number } {
  return {
    complete: told.filter((one) => one.status === 200 && one.isComplete).length,
    cut: told.filter((one) => one.isCut).length,
  }
}

/** What a client that left has paid: at least what it saw, at most what the engine had sent. */
function expectCutsBilled(record: InferenceBooks, told: readonly ChatTold[]): void {
  const byTrace = new Map([...record.billed.values()].map((one) => [one.traceId, one]))
  const sentOf = new Map(
    model.upstream.requests.map((one) => [one.headers['traceparent']?.split('-')[1] ?? '', one.eventsSent]),
  )
  const cuts = told.filter((one) => one.isCut)
  const wrong = cuts.flatMap((one) => {
    const billed = byTrace.get(one.traceId)
    // The first event of a stream is no word, the last ones neither.
    const sent = Math.min(WORDS, (sentOf.get(one.traceId) ?? 0) - 1)
    if (billed === undefined) return [`${one.requestId}: not in the log`]
    const { inputUnits, cachedUnits, outputUnits, cost } = billed
    const due = (inputUnits - cachedUnits) * prices.input + cachedUnits * prices.cached + outputUnits * prices.output
    const isRight =
      inputUnits === Math.ceil(JSON.stringify(one.message).length / 4) &&
      outputUnits >= one.words &&
      outputUnits <= sent &&
      cost === BigInt(due)
    return isRight
      ? []
      : [`${one.requestId}: saw ${one.words}, sent ${sent}, ${JSON.stringify({ ...billed, cost: `${cost}` })}`]
  })
  expect(wrong).toEqual([])
  // Some may have been too late to leave anything out; not all of them.
  expect(cuts.filter((one) => byTrace.get(one.traceId)?.outcome === 'cut').length).toBeGreaterThan(cuts.length / 2)
}

async function expectBooksInBalance(): Promise<void> {
  const verified = await house.operator('GET', '/v2/operator/ledger/verify')
  expect(verified.body).toMatchObject({ ok: true, findings: [] })
}

test('64 clients spend 0.05 USD to the last request that fits, and no further', async () => {
  const paidIn = usd('0.05')
  const customer = await makeCustomer(formatUsd(paidIn))
  const gateway = await startGateway(customer)
  const load = startLoad(customer, [gateway])
  await watchBalance(customer, load, paidIn)
  await closeGateway(gateway)

  expect(reasonsOf(load.told)).toEqual(['402 insufficient_balance'])
  const { complete, cut } = countAnswers(load.told)
  expect(complete).toBeGreaterThan(200)
  expect(cut).toBeGreaterThan(20)
  const record = await books.read(customer.id)
  expectBilledOnce(record, load.told, { prices, paidIn })
  expectCutsBilled(record, load.told)
  expect(record.inPurses).toBe(0n)
  expect(record.available).toBeLessThan(dearest(load.told))
  await expectBooksInBalance()
})

test('over two gateways at once the same money is not spent twice', async () => {
  // More than a gateway takes at a time, so that both have some.
  const paidIn = usd('0.12')
  const customer = await makeCustomer(formatUsd(paidIn))
  const gateways = await Promise.all([startGateway(customer), startGateway(customer)])
  const load = startLoad(customer, gateways)
  await watchBalance(customer, load, paidIn)
  await Promise.all(gateways.map(closeGateway))

  expect(reasonsOf(load.told)).toEqual(['402 insufficient_balance'])
  expect(gateways.map(({ url }) => (load.served.get(url) ?? 0) > 50)).toEqual([true, true])
  const record = await books.read(customer.id)
  expectBilledOnce(record, load.told, { prices, paidIn })
  expectCutsBilled(record, load.told)
  expect(record.inPurses).toBe(0n)
  // Each of the two may have been left with a little less than a request needs.
  expect(record.available).toBeLessThan(2n * dearest(load.told))
  await expectBooksInBalance()
})

test('what a gateway has not spent when it is stopped under load, another one spends', async () => {
  const paidIn = usd('0.05')
  const customer = await makeCustomer(formatUsd(paidIn))
  const [first, second] = await Promise.all([startGateway(customer), startGateway(customer)])
  const gateways = [first]
  const load = startLoad(customer, gateways)
  await waitFor('the first to have answered some', () => load.answered >= 100)
  // New requests go to the other, those under way end where they are.
  gateways[0] = second
  await closeGateway(first)
  await watchBalance(customer, load, paidIn)
  await closeGateway(second)

  expect([first, second].map(({ url }) => (load.served.get(url) ?? 0) > 50)).toEqual([true, true])
  expect(reasonsOf(load.told)).toEqual(['402 insufficient_balance'])
  const record = await books.read(customer.id)
  expectBilledOnce(record, load.told, { prices, paidIn })
  expect(record.inPurses).toBe(0n)
  expect(record.available).toBeLessThan(dearest(load.told))
  await expectBooksInBalance()
})

test('a key spends its limit and no more, over two gateways, however rich the account is', async () => {
  const paidIn = usd('5')
  const limit = usd('0.01')
  const customer = await makeCustomer(formatUsd(paidIn), { totalLimitUsd: formatUsd(limit) })
  const [first, second] = await Promise.all([startGateway(customer), startGateway(customer)])
  const gateways = [first, second]
  const load = startLoad(customer, gateways)
  await waitFor('some answers', () => load.answered >= 20)
  gateways.shift()
  await closeGateway(first)
  await watchBalance(customer, load, paidIn)
  await closeGateway(second)

  expect(reasonsOf(load.told).filter((one) => one !== ' no answer')).toEqual(['402 key_spending_limit'])
  const record = await books.read(customer.id)
  expectBilledOnce(record, load.told, { prices, paidIn })
  expect(record.inPurses).toBe(0n)
  const spent = nanoUsdOf(paidIn - record.available)
  expect(spent).toBeLessThanOrEqual(limit)
  expect(spent + dearest(load.told)).toBeGreaterThan(limit)
  const { keys } = (await customer.call('GET', '/v2/api-keys')).body as { keys: Array<Record<string, unknown>> }
  expect(keys.find((key) => key['publicId'] === customer.keyId)).toMatchObject({ totalLimitUsd: '0.010000000' })
  // The account itself has money, and another key of it is served.
  await expectBooksInBalance()
})

/**
 * Gateways are killed (SIGKILL) again and again under load, and started again on their journals. Afterwards every
 * answer that a client has in full is billed once and at its price, and no money is left behind in a purse.
 */
import { randomInt } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { usd } from '../src/base/money.ts'
import type { ChatTold, TokenPrices } from './harness/chat-client.ts'
import { startChatLoad, usualMix, type ChatLoad } from './harness/chat-load.ts'
import { makeGatewayProcess, type GatewayProcess } from './harness/gateway-process.ts'
import { expectBilledOnce, readBooksOf, type BooksReader, type InferenceBooks } from './harness/inference-books.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

const KILLS = Number.parseInt(process.env.BERTH_TEST_GATEWAY_KILLS ?? '50', 10)
const GATEWAYS = 2
const CLIENTS = 16
/** A gateway dies after some answers: at least one, and fewer than this many. */
const ANSWERS_BEFORE_DEATH = 40
/** Every so many deaths are in the middle of a start. */
const AT_START_EVERY = 5
const MINUTE_MS = 60_000
const SECRET_KEY = 'one secret key for all of the gateways'

const prices: TokenPrices = { input: 10, cached: 5, output: 40 }

/** Has the books and the accounts, answers no chats, and is not killed; nor is the engine. */
let house: TestServer
let books: BooksReader
let model: TestModel
let gateways: GatewayProcess[]
beforeAll(async () => {
  house = await testServer({ runLoops: false, env: { BERTH_ENGINES: '', BERTH_SECRET_KEY: SECRET_KEY } })
  books = readBooksOf(house.databaseUrl)
  model = await serveModel(house, {
    model: { inputUsdPerMillion: '0.01', cachedUsdPerMillion: '0.005', outputUsdPerMillion: '0.04' },
    deployment: { concurrency: 1_000, readsMetrics: true },
    behaviour: { words: 12, intervalMs: 3, latencyMs: 5, usage: 'continuous' },
  })
  gateways = await Promise.all(
    Array.from({ length: GATEWAYS }, () =>
      makeGatewayProcess({ databaseUrl: house.databaseUrl, secretKey: SECRET_KEY }),
    ),
  )
})
afterAll(async () => {
  await Promise.all(gateways.map((gateway) => gateway.close()))
  await books.close()
  await house.close()
  await model.upstream.close()
})

interface Customer {
  readonly id: string
  readonly key: string
  readonly paidIn: bigint
}

/** With a limit far off, a key has purses of its own. */
async function makeCustomer(limits: { totalLimitUsd?: string } = {}): Promise<Customer> {
  const money = '10'
  const { id, call } = await house.account({ usd: money, sshKey: false })
  const wish = { name: 'load', scopes: ['inference'], requestsPerMinute: 1_000_000, ...limits }
  const made = await call('POST', '/v2/api-keys', wish)
  return { id, key: made.body.key as string, paidIn: usd(money) }
}

/** Requests go to the gateways in turn; while one is away the others have them. */
function startLoad({ key }: Customer, onAnswer: (url: string) => void): ChatLoad {
  return startChatLoad({
    clients: CLIENTS / 2,
    mix: usualMix,
    target: (n) => {
      const up = gateways.flatMap(({ url }) => url ?? [])
      const url = up[n % up.length]
      return url === undefined ? undefined : { url, key, model: model.name }
    },
    onTold: (told, { url }) => {
      if (told.status === 200) onAnswer(url)
    },
  })
}

function statusesOf(told: readonly ChatTold[]): Array<number | undefined> {
  return [...new Set(told.map((one) => one.status))].toSorted()
}

test(`every answer is billed once over ${KILLS} kills of gateways under load`, { timeout: 8 * MINUTE_MS }, async () => {
  const customers = [await makeCustomer(), await makeCustomer({ totalLimitUsd: '5' })]
  await Promise.all(gateways.map((gateway) => gateway.start()))
  const answers = new Map<string, number>()
  const loads = customers.map((customer) => startLoad(customer, (url) => answers.set(url, (answers.get(url) ?? 0) + 1)))

  const killOften = async (gateway: GatewayProcess): Promise<void> => {
    for (let kill = 1; kill <= KILLS / GATEWAYS; kill += 1) {
      const { url = '' } = gateway
      const enough = randomInt(1, ANSWERS_BEFORE_DEATH)
      await waitFor(`${enough} answers of ${url}`, () => (answers.get(url) ?? 0) >= enough, 2 * MINUTE_MS)
      await gateway.kill()
      if (kill % AT_START_EVERY === 0 && kill < KILLS / GATEWAYS) {
        await gateway.killAtStart()
        kill += 1
      }
      await gateway.start()
    }
  }
  await Promise.all(gateways.map(killOften))
  await Promise.all(loads.map((load) => load.stop()))
  // The last that a gateway does is to account for everything it holds.
  expect(await Promise.all(gateways.map((gateway) => gateway.stop()))).toEqual(gateways.map(() => 0))

  const records: InferenceBooks[] = []
  for (const [n, { id, paidIn }] of customers.entries()) {
    const told = loads[n]?.told ?? []
    const record = await books.read(id)
    records.push(record)
    expectBilledOnce(record, told, { prices, paidIn })
    expect(told.filter((one) => one.isLate)).toEqual([])
    expect(statusesOf(told)).toEqual([200, undefined])
  }
  expect(await books.inAnyPurse()).toBe(0n)
  const told = loads.flatMap((load) => load.told)
  const unfinished = told.filter((one) => !one.isComplete && !one.isCut)
  process.stderr.write(
    JSON.stringify({
      told: told.length,
      complete: told.filter((o) => o.isComplete).length,
      unfinished: unfinished.length,
      nohead: unfinished.filter((o) => o.status === undefined).length,
      billed: records.map((r) => r.billed.size),
      unfinishedBilled: unfinished.filter((o) =>
        records.some((r) => [...r.billed.values()].some((b) => b.traceId === o.traceId && b.cost > 0n)),
      ).length,
    }) + '\n',
  )
  // Or nothing was killed in the middle of anything.
  expect(unfinished.length).toBeGreaterThan(KILLS / 2)
  const verified = await house.operator('GET', '/v2/operator/ledger/verify')
  expect(verified.body).toMatchObject({ ok: true, findings: [] })
})

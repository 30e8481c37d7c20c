/**
 * A budget that is set or lowered while gateways hold money of the account: from its answer on, no server and no worker
 * spends more than it leaves.
 */
import { afterEach, expect, test } from 'vitest'
import { usd } from '../src/base/money.ts'
import { askChat, forgetServer, type ChatResult } from './harness/chat-client.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { succeed } from './harness/journey.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

/** Ten words cost $0.0001; the most that a chat can cost is little more. */
const prices = { inputUsdPerMillion: '0', outputUsdPerMillion: '10' }
const WORDS = 10
const COST = usd('0.0001')
const MAX_CHATS = 600

const cleanUp: Array<() => Promise<unknown>> = []
afterEach(async () => {
  for (const step of cleanUp.splice(0).toReversed()) await step()
})

async function start(options: { databaseUrl?: string; env?: Record<string, string> } = {}): Promise<TestServer> {
  const { env, ...more } = options
  const server = await testServer({ ...more, runLoops: false, env: { BERTH_DRIVERS: '', ...env } })
  cleanUp.push(() => server.close())
  return server
}

async function sell(server: TestServer, behaviour: object = {}): Promise<TestModel> {
  const model = await serveModel(server, { model: prices, behaviour: { words: WORDS, ...behaviour } })
  cleanUp.push(() => model.upstream.close())
  return model
}

/** On a connection of its own, which the next worker gets. */
function chat(url: string, key: string): Promise<ChatResult> {
  forgetServer(url)
  return ask(url, key, WORDS)
}

function ask(url: string, key: string, maxTokens: number): Promise<ChatResult> {
  return askChat({ url, key, model: 'test/model' }, { stream: false, maxTokens, fullPath: false }, 'Hello')
}

const reasonOf = ({ status, body }: ChatResult): unknown => (status === 200 ? 'answered' : JSON.parse(body).reason)

/** Until each of the servers refuses. Answers the number of chats that were answered. */
async function chatUntilRefused(urls: readonly string[], key: string): Promise<number> {
  let answered = 0
  for (const url of urls) {
    for (let n = 0; ; n += 1) {
      const result = await chat(url, key)
      if (reasonOf(result) === 'budget_exceeded') break
      if (result.status !== 200 || n > MAX_CHATS) throw new Error(`${n} chats, then ${result.body}`)
      answered += 1
    }
  }
  return answered
}

test('holds on two servers that have money of the account (issue 31, 3)', async () => {
  const first = await start()
  const second = await start({ databaseUrl: first.databaseUrl })
  await sell(first)
  const { key, call } = await first.account({ usd: '10' })
  const urls = [first.url, second.url]
  let answered = 0
  for (const url of urls) {
    await waitFor('it to serve the model', async () => (await chat(url, key)).status === 200)
    answered += 1
  }
  const monthlyUsd = '0.003'
  const budget = await succeed(call, 'POST', '/v2/budgets', { name: 'All', monthlyUsd, action: 'block' })
  answered += await chatUntilRefused(urls, key)
  expect(await spentFor(first, answered)).toBeLessThanOrEqual(usd(monthlyUsd))

  // Raised, used, and lowered below what is spent: nothing more is answered anywhere.
  await succeed(call, 'PATCH', `/v2/budgets/${budget.id}`, { monthlyUsd: '1' })
  for (const url of urls) expect(reasonOf(await chat(url, key))).toBe('answered')
  await succeed(second.as(key), 'PATCH', `/v2/budgets/${budget.id}`, { monthlyUsd })
  for (const url of urls) expect(reasonOf(await chat(url, key))).toBe('budget_exceeded')
  expect(await succeed(first.operator, 'GET', '/v2/operator/ledger/verify')).toMatchObject({ ok: true, findings: [] })
})

test('holds for workers, which have borrowed money (issue 31, 3)', async () => {
  const server = await start({ env: { BERTH_WORKERS: '2' } })
  await sell(server)
  const { key, call } = await server.account({ usd: '10' })
  for (let n = 0; n < 4; n += 1) expect(reasonOf(await chat(server.url, key))).toBe('answered')
  const monthlyUsd = '0.002'
  await succeed(call, 'POST', '/v2/budgets', { name: 'All', monthlyUsd, action: 'block' })
  const answered = 4 + (await chatUntilRefused([server.url, server.url], key))
  expect(await spentFor(server, answered)).toBeLessThanOrEqual(usd(monthlyUsd))
})

test('what a running request leaves of its money is not spent by the next one (issue 31, 3)', async () => {
  const server = await start()
  const model = await sell(server, { latencyMs: 2_000 })
  const { key, call } = await server.account({ usd: '10' })
  // It may cost $0.04 and costs $0.0001.
  const running = ask(server.url, key, 4_000)
  await waitFor('it to run', () => model.upstream.requests.length > 0)
  await succeed(call, 'POST', '/v2/budgets', { name: 'All', monthlyUsd: '0.00015', action: 'block' })
  expect(reasonOf(await ask(server.url, key, WORDS))).toBe('budget_exceeded')
  expect(reasonOf(await running)).toBe('answered')
  expect(reasonOf(await ask(server.url, key, WORDS))).toBe('budget_exceeded')
})

/** Waits until each answered chat is in the ledger, and answers their sum. */
async function spentFor(server: TestServer, answered: number): Promise<bigint> {
  const expected = BigInt(answered) * COST
  await waitFor('the charges', async () => {
    const { rows } = await server.app.database.pool.query<{ spent: string }>(
      'select coalesce(sum(spent_nano), 0)::text as spent from account_spend',
    )
    return rows[0]?.spent === expected.toString()
  })
  return expected
}

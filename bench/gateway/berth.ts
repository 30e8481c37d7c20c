/**
 * Berth as one side of a comparison: a server with an account, money, a key, priced models and a deployment each, set
 * up through the operator API. At the end the ledger must match the responses exactly, which proves that complete
 * requests were measured.
 */
import pg from 'pg'
import { call, readKey, startServer, type BenchServer } from '../harness.ts'
import { pause } from './child.ts'
import type { Side } from './side.ts'

export const BERTH = 'Berth'

/** A model and the engine behind it. */
export interface BenchModel {
  readonly name: string
  readonly upstreamPort: number
  /** 127.0.0.1 by default. */
  readonly upstreamHost?: string
}

export interface BerthSide extends Side {
  readonly pid: number
  readonly server: BenchServer
  readonly accountId: string
}

export const CREDIT_USD = 1_000
/** nano-USD per token, matching the prices below. */
export const INPUT_NANO = 100
export const OUTPUT_NANO = 400
export const prices = { inputUsdPerMillion: '0.1', outputUsdPerMillion: '0.4' }

/** The contract's maxima. */
const maxRates = { requestsPerMinute: 1_000_000, tokensPerMinute: 1_000_000_000 }
const maxQuota = { requestsPerMinute: 100_000_000, tokensPerMinute: 1_000_000_000, streams: 1_000_000 }
const CONTEXT_TOKENS = 2_000_000
const MAX_OUTPUT_TOKENS = 4_096
const CONCURRENCY = 10_000
const SERVED_WITHIN_MS = 15_000
const SETTLED_WITHIN_MS = 60_000

/** `program`: the Node that runs it. */
export async function startBerth(
  models: readonly BenchModel[],
  env: Readonly<Record<string, string>> = {},
  { name = BERTH, program = process.execPath } = {},
): Promise<BerthSide> {
  const server = await startServer(
    { BERTH_LOCAL_ENGINES: 'false', BERTH_ALLOW_PRIVATE_ADDRESSES: 'true', BERTH_DRIVERS: '', ...env },
    {},
    program,
  )
  try {
    const operatorKey = readKey(server, 'operator')
    const { accountId, key } = await openAccount(server, operatorKey)
    for (const model of models) await offerModel(server, operatorKey, model)
    await untilServed(server, key, models)
    const { hostname, port } = new URL(server.url)
    return {
      name,
      isOurs: true,
      host: hostname,
      port: Number.parseInt(port, 10),
      pid: server.pid,
      headers: { Authorization: `Bearer ${key}` },
      server,
      accountId,
      rest: () => untilSettled(server, operatorKey),
      stop: () => server.stop(),
    }
  } catch (error) {
    await server.stop()
    throw error
  }
}

async function openAccount(server: BenchServer, operatorKey: string): Promise<{ accountId: string; key: string }> {
  const made = await ask(server, operatorKey, 'POST', '/v2/operator/accounts', {
    name: 'Bench',
    ownerEmail: 'bench@example.test',
  })
  const { account, key: firstKey } = made as { account: { id: string }; key: string }
  const path = `/v2/operator/accounts/${account.id}`
  await ask(server, operatorKey, 'POST', `${path}/credit`, { amountUsd: String(CREDIT_USD), reason: 'bench' })
  await ask(server, operatorKey, 'PATCH', path, { quota: maxQuota, reason: 'bench' })
  const inference = await ask(server, firstKey, 'POST', '/v2/api-keys', {
    name: 'bench',
    scopes: ['inference'],
    ...maxRates,
  })
  return { accountId: account.id, key: (inference as { key: string }).key }
}

export async function offerModel(
  server: BenchServer,
  operatorKey: string,
  { name, upstreamPort, upstreamHost = '127.0.0.1' }: BenchModel,
): Promise<void> {
  await ask(server, operatorKey, 'POST', '/v2/operator/models', {
    name,
    kind: 'chat',
    contextTokens: CONTEXT_TOKENS,
    maxOutputTokens: MAX_OUTPUT_TOKENS,
    ...prices,
    reason: 'bench',
  })
  await ask(server, operatorKey, 'POST', '/v2/operator/deployments', {
    model: name,
    url: `http://${upstreamHost}:${upstreamPort}/v1`,
    upstreamModel: 'engine',
    concurrency: CONCURRENCY,
    reason: 'bench',
  })
}

/** Servers learn of new models shortly afterwards. */
export async function untilServed(
  server: BenchServer,
  key: string,
  models: readonly Pick<BenchModel, 'name'>[],
): Promise<void> {
  const giveUpAt = performance.now() + SERVED_WITHIN_MS
  for (;;) {
    const { data } = (await ask(server, key, 'GET', '/v1/models')) as { data: ReadonlyArray<{ id: string }> }
    const missing = models.filter(({ name }) => !data.some(({ id }) => id === name))
    if (missing.length === 0) return
    if (performance.now() > giveUpAt) throw new Error(`not served: ${missing.map(({ name }) => name).join(', ')}`)
    await pause(100)
  }
}

/** Each look costs the server and PostgreSQL a few milliseconds, so the first comes when all should be settled. */
const LOOK_AFTER_MS = 1_800
const LOOK_EVERY_MS = 500

async function untilSettled(server: BenchServer, operatorKey: string): Promise<void> {
  const giveUpAt = performance.now() + SETTLED_WITHIN_MS
  await pause(LOOK_AFTER_MS)
  for (;;) {
    const response = await fetch(`${server.url}/metrics`, { headers: { Authorization: `Bearer ${operatorKey}` } })
    const [, unsettled] = /^berth_meter_unsettled (\d+)$/m.exec(await response.text()) ?? []
    if (unsettled === undefined) throw new Error('the metrics lack the number of unsettled requests')
    if (unsettled === '0') return
    if (performance.now() > giveUpAt) throw new Error(`${unsettled} requests are still not in the ledger`)
    await pause(LOOK_EVERY_MS)
  }
}

export async function ask(
  server: BenchServer,
  key: string,
  method: 'GET' | 'POST' | 'PATCH',
  path: string,
  body?: unknown,
): Promise<unknown> {
  const reply = await call(server.url, key, method, path, body)
  if (reply.status === 200) return reply.body
  throw new Error(`${method} ${path} was answered with ${reply.status}: ${JSON.stringify(reply.body)}`)
}

/** Expected cost of each answer in nano-USD, by model; a missing model may cost anything. */
export type ExpectedCosts = Readonly<Record<string, number>>

/**
 * Waits until the ledger has all answered requests, then compares request costs, ledger charges and the balance.
 * Returns the number of requests; throws on a difference of a single nano-dollar.
 */
export async function checkLedger(berth: BerthSide, answered: number, costs: ExpectedCosts): Promise<number> {
  const client = new pg.Client({ connectionString: berth.server.databaseUrl })
  client.on('error', () => {})
  await client.connect()
  try {
    const giveUpAt = performance.now() + SETTLED_WITHIN_MS
    let found = await countAnswered(client, berth.accountId)
    while (found < answered && performance.now() < giveUpAt) {
      await pause(200)
      found = await countAnswered(client, berth.accountId)
    }
    if (found !== answered) throw new Error(`${answered} requests were answered, but ${found} are in the ledger`)
    await compareSums(client, berth.accountId, costs)
  } finally {
    await client.end()
  }
  const verdict = await ask(berth.server, readKey(berth.server, 'operator'), 'GET', '/v2/operator/ledger/verify')
  const { ok, findings } = verdict as { ok: boolean; findings: unknown[] }
  if (!ok) throw new Error(`the ledger does not verify: ${JSON.stringify(findings.slice(0, 5))}`)
  return answered
}

async function countAnswered(client: pg.Client, accountId: string): Promise<number> {
  const { rows } = await client.query<{ n: number }>(
    `select count(*)::integer as n from request where account_id = $1 and outcome = 'answered'`,
    [accountId],
  )
  return rows[0]?.n ?? 0
}

async function compareSums(client: pg.Client, accountId: string, costs: ExpectedCosts): Promise<void> {
  const { rows: models } = await client.query<{ model: string; least: string; most: string }>(
    `select model, min(cost_nano) as least, max(cost_nano) as most
     from request where account_id = $1 and outcome = 'answered' group by 1`,
    [accountId],
  )
  for (const { model, least, most } of models) {
    const expected = costs[model]
    if (expected !== undefined && (least !== String(expected) || most !== String(expected)))
      throw new Error(`answers of ${model} cost ${least} to ${most} nano-USD, and should cost ${expected}`)
  }
  const { rows } = await client.query<{ cost: string; charged: string; gone: string }>(
    `select (select coalesce(sum(cost_nano), 0) from request where account_id = $1) as cost,
            (select coalesce(sum(t.amount_nano), 0) from posting p join transfer t on t.posting_id = p.id
             where p.account_id = $1 and p.kind = 'charge') as charged,
            (select $2::bigint * 1000000000 - sum(balance_nano) from ledger_account
             where account_id = $1 and kind in ('available', 'held')) as gone`,
    [accountId, CREDIT_USD],
  )
  const { cost, charged, gone } = rows[0] ?? { cost: '?', charged: '?', gone: '?' }
  if (cost !== charged || cost !== gone)
    throw new Error(`requests cost ${cost} nano-USD, ${charged} were charged, and ${gone} are gone from the balance`)
}

/**
 * A server with two workers in front of one model: connections are spread, limits and money are exact across the
 * workers, and a worker that is killed under load loses no finished request and disturbs nobody else.
 */
import { readFileSync } from 'node:fs'
import net from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../src/base/instant.ts'
import { usd } from '../src/base/money.ts'
import { askChat, costOfUsage, forgetServer, type ChatResult, type TokenPrices } from './harness/chat-client.ts'
import type { ChatAsk } from './harness/chat-protocol.ts'
import { protocolMix, startChatLoad } from './harness/chat-load.ts'
import { expectBilledOnce, readLedgerOf, type LedgerReader } from './harness/inference-ledger.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { succeed } from './harness/journey.ts'
import { descendants } from './lab/process.ts'
import { RawChatClient } from './harness/raw-chat.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('build')

const WORKERS = 2
const KILLS = 2
const MAX_KILLS = 5 * KILLS
const CLIENTS = 8
const prices: TokenPrices = { input: 10, cached: 5, output: 40 }
const plain: ChatAsk = { stream: false, maxTokens: 20, fullPath: false }

let server: TestServer
let ledger: LedgerReader
let model: TestModel
beforeAll(async () => {
  server = await testServer({ runLoops: false, env: { BERTH_DRIVERS: '', BERTH_WORKERS: String(WORKERS) } })
  ledger = readLedgerOf(server.databaseUrl)
  model = await serveModel(server, {
    model: { inputUsdPerMillion: '0.01', cachedUsdPerMillion: '0.005', outputUsdPerMillion: '0.04' },
    deployment: { concurrency: 1_000 },
    behaviour: { words: 12, intervalMs: 5, latencyMs: 20, usage: 'continuous' },
  })
}, 60_000)
afterAll(async () => {
  await server.close()
  await ledger.close()
  await model.upstream.close()
})

function workerPids(): number[] {
  return descendants(process.pid).filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('worker-main'))
}

async function customer(money: string, limits: object = {}): Promise<{ id: string; key: string; paidIn: bigint }> {
  const { id, call } = await server.account({ usd: money, sshKey: false })
  const made = await call('POST', '/v2/api-keys', { name: 'load', scopes: ['inference'], ...limits })
  return { id, key: made.body.key as string, paidIn: usd(money) }
}

async function metric(name: string): Promise<number> {
  const reply = await fetch(`${server.url}/metrics`, { headers: { Authorization: `Bearer ${server.operatorKey}` } })
  const lines = (await reply.text()).split('\n').filter((line) => line.startsWith(name))
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

/** Each on a connection of its own, which the next worker gets. */
async function askOnNewConnection(key: string, ask: ChatAsk = plain): Promise<ChatResult> {
  forgetServer(server.url)
  return askChat({ url: server.url, key, model: model.name }, ask, 'Hello')
}

const ANSWERED = 'berth_inference_requests_total{model="test/model",deployment='

test('a model is answered right after it was created, by whichever process gets the request', async () => {
  const { key } = await customer('1')
  const { host, port } = model.upstream
  await succeed(server.operator, 'POST', '/v2/operator/models', {
    name: 'test/new',
    kind: 'chat',
    contextTokens: 8_192,
  })
  const deployment = { model: 'test/new', url: `http://${host}:${port}`, concurrency: 1_000 }
  await succeed(server.operator, 'POST', '/v2/operator/deployments', deployment)
  forgetServer(server.url)
  const asked = [1, 2, 3].map(() => askChat({ url: server.url, key, model: 'test/new' }, plain, 'Hello'))
  expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([200, 200, 200])
  const unknown = await askChat({ url: server.url, key, model: 'test/unknown' }, plain, 'Hello')
  expect([unknown.status, JSON.parse(unknown.body).reason]).toEqual([400, 'model_not_found'])
})

test('P68: bills every answer of every protocol once while workers are killed under load, and serves the others', async () => {
  const { id, key, paidIn } = await customer('10')
  expect(workerPids()).toHaveLength(WORKERS)
  const before = await metric(ANSWERED)
  const load = startChatLoad({
    clients: CLIENTS,
    mix: protocolMix,
    target: () => ({ url: server.url, key, model: model.name }),
  })
  const wereCut = (): ChatResult[] => load.results.filter((one) => !one.isComplete && !one.isCut)
  // A worker may be killed between two requests; one of them is killed during one, or workers answer nothing.
  let kills = 0
  for (; kills < KILLS || (wereCut().length === 0 && kills < MAX_KILLS); kills += 1) {
    const enough = load.answered + 30
    await waitFor(`${enough} answers`, () => load.answered >= enough)
    const [pid] = workerPids()
    process.kill(pid ?? 0, 'SIGKILL')
    await waitFor('another worker', async () => {
      const running = workerPids()
      const { body } = await server.anonymous('GET', '/readyz')
      return !running.includes(pid ?? 0) && running.length === WORKERS && body.checks?.workers === 'ok'
    })
  }
  await load.stop()
  // Only requests of the worker that died: at most as many as clients, for each kill.
  expect(wereCut().length).toBeLessThanOrEqual(kills * CLIENTS)
  expect(wereCut().length).toBeGreaterThan(0)
  expect(load.results.filter((one) => one.isLate)).toEqual([])
  await waitFor('all records in the ledger', async () => (await metric('berth_meter_unsettled')) === 0)
  await waitFor('every answer billed', async () => {
    const { billed } = await ledger.read(id)
    return load.results.every((one) => !one.isComplete || billed.has(one.requestId ?? ''))
  })
  expectBilledOnce(await ledger.read(id), load.results, { prices, paidIn })
  // Counters of killed workers are gone, as after any restart; those of the others add up.
  expect(await metric(ANSWERED)).toBeGreaterThan(before)
  expect((await server.operator('GET', '/v2/operator/ledger/verify')).body).toMatchObject({ ok: true, findings: [] })
})

test('allows exactly the limit of requests per minute across the workers', async () => {
  // The limit is per calendar minute, and the requests take seconds.
  await waitFor('a minute that has just begun', () => systemClock.now() % 60_000 < 40_000, 30_000)
  const { key } = await customer('1', { requestsPerMinute: 40 })
  const results: ChatResult[] = []
  for (let n = 0; n < 60; n += 1) results.push(await askOnNewConnection(key))
  expect(results.filter(({ status }) => status === 200)).toHaveLength(40)
  expect(results.filter(({ status }) => status === 429)).toHaveLength(20)
})

test('allows exactly the limit of concurrent requests across the workers', async () => {
  const { id, key } = await customer('1')
  await server.operator('PATCH', `/v2/operator/accounts/${id}`, { quota: { streams: 5 }, reason: 'test' })
  const stream: ChatAsk = { stream: true, maxTokens: 1_000, fullPath: false }
  Object.assign(model.upstream.behaviour, { words: 200, intervalMs: 10 })
  const asked = Array.from({ length: 12 }, () => askChat({ url: server.url, key, model: model.name }, stream, 'Hello'))
  const results = await Promise.all(asked)
  Object.assign(model.upstream.behaviour, { words: 12, intervalMs: 5 })
  expect(results.filter(({ status }) => status === 200)).toHaveLength(5)
  expect(results.filter(({ status }) => status === 429)).toHaveLength(7)
})

test('spends the whole balance through any worker, and no more', async () => {
  const { id, key, paidIn } = await customer('0.00003')
  const load = startChatLoad({
    clients: 6,
    mix: [plain],
    dryAfter: 12,
    target: () => ({ url: server.url, key, model: model.name }),
  })
  await load.ended
  await waitFor('all records in the ledger', async () => (await metric('berth_meter_unsettled')) === 0)
  const record = await ledger.read(id)
  expectBilledOnce(record, load.results, { prices, paidIn })
  expect(load.answered).toBeGreaterThan(10)
  // Less is left than one more request could cost.
  expect(record.available + record.held).toBeLessThan(3_000n)
})

test('refuses a revoked key immediately at every worker', async () => {
  const { call } = await server.account({ usd: '1', sshKey: false })
  for (let n = 0; n < 5; n += 1) {
    const made = await call('POST', '/v2/api-keys', { name: `k${n}`, scopes: ['inference'] })
    const key = made.body.key as string
    const clients = Array.from({ length: 4 }, () => new RawChatClient(server.url, key, 'fast'))
    const body = Buffer.from(JSON.stringify({ model: model.name, messages: [{ role: 'user', content: 'Hello' }] }))
    const first = await Promise.all(clients.map((client) => client.send(body)))
    expect(first.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect((await call('DELETE', `/v2/api-keys/${made.body.publicId as string}`)).status).toBe(200)
    const then = await Promise.all(clients.map((client) => client.send(body)))
    expect(then.map(({ status }) => status)).toEqual([401, 401, 401, 401])
    for (const client of clients) client.close()
  }
})

test('passes a long body on intact, whatever pieces it arrives in, and takes its connection back', async () => {
  const { key } = await customer('1')
  const content = 'x'.repeat(20_000)
  const body = JSON.stringify({ model: model.name, messages: [{ role: 'user', content }], max_tokens: 3 })
  const head =
    `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`
  const models = `GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n\r\n`
  const socket = net.connect(Number(new URL(server.url).port), '127.0.0.1').setNoDelay(true)
  let text = ''
  socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')))
  const closed = new Promise((resolve) => socket.once('close', resolve))
  const all = head + body + models
  for (let at = 0; at < all.length; at += 1_500) {
    await new Promise((resolve) => socket.write(all.slice(at, at + 1_500), resolve))
    await new Promise((resolve) => setImmediate(resolve))
  }
  await closed
  expect(text.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200'])
  expect(text).toContain('"object":"list"')
})

test('knows the cost of a request as soon as its answer has ended', async () => {
  const { key } = await customer('1')
  const { requestId, usage } = await askOnNewConnection(key)
  const costs = await server.as(key)('POST', '/v2/usage/request-cost', { requestIds: [requestId] })
  const cost = usage === undefined ? undefined : Number(costOfUsage(prices, usage))
  expect(costs.body).toEqual({ requests: [{ requestId, costNanoUsd: cost }] })
})

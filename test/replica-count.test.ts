/** How many replicas a deployment orders, through the whole server: never one more than it needs, whatever ends. */
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addMs, systemClock } from '../src/base/instant.ts'
import { SILENT_MS } from '../src/domain/host.ts'
import { readDoneAt } from '../src/store/platform/lease.ts'
import { testDatabase, type TestDatabase } from './harness/database.ts'
import { joinHost, type JoinedHost } from './harness/joined-host.ts'
import { succeed } from './harness/journey.ts'
import { caller, testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

const env = { BERTH_DRIVERS: 'host' }
let own: TestDatabase
let server: TestServer
let engine: http.Server
let host: JoinedHost
/** Where the host connects to. */
let place: Pick<TestServer, 'url' | 'operator' | 'anonymous'>
let key: string
let call: Call
/** Requests of customers wait for it. */
let gate: Promise<void> = Promise.resolve()

beforeAll(async () => {
  own = await testDatabase()
  server = await testServer({ databaseUrl: own.url, env })
  engine = http.createServer((request, response) => void answer(request, response))
  await once(engine.listen(0, '127.0.0.1'), 'listening')
  place = { url: server.url, operator: server.operator, anonymous: server.anonymous }
  host = await joinHost(place, (engine.address() as AddressInfo).port, { gpusTotal: 8 })
  ;({ key, call } = await server.account({ usd: '500' }))
})
afterAll(async () => {
  await host?.close()
  engine?.closeAllConnections()
  engine?.close()
  await server?.close()
  await own?.drop()
})

async function answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
  // It has no metrics.
  if (request.method === 'GET') return void response.writeHead(404).end()
  const { model } = (await json(request)) as { model: string }
  if (request.headers['user-agent'] !== 'berth-readiness-check') await gate
  const choice = { index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }
  const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 }
  const text = JSON.stringify({ id: 'x', object: 'chat.completion', created: 1, model, choices: [choice], usage })
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }).end(text)
}

async function deploy(name: string, replicas: object): Promise<{ id: string; model: string }> {
  const recipe = { name: 'custom', image: { name: 'lab/chat-engine' }, concurrency: 8 }
  return succeed(call, 'POST', '/v2/deployments', { name, recipe, gpus: { region: 'us-east' }, replicas })
}

interface Replica {
  readonly id: string
  readonly state: string
  readonly rentalName: string
}

const ready = async (id: string): Promise<Replica[]> =>
  ((await succeed(call, 'GET', `/v2/deployments/${id}`)).replicas as Replica[]).filter(({ state }) => state === 'ready')

/** All replicas that were ever ordered. */
async function ordered(id: string): Promise<number> {
  const { db } = server.app.database
  return (await db.selectFrom('replica').select('id').where('deployment_id', '=', id).execute()).length
}

/** Until the loop that orders replicas has looked at the counts of a later time. */
async function untilLookedAfter(ms: number): Promise<void> {
  const from = addMs(systemClock.now(), ms)
  await waitFor(
    'the loop to look again',
    async () => ((await readDoneAt(server.app.database.db, 'serve')) ?? 0) >= from,
    3 * SILENT_MS,
  )
}

test('eight clients at zero start one replica, which answers all of them (issue 31, 16)', async () => {
  const { id, model } = await deploy('zero', { min: 0, max: 4 })
  const messages = [{ role: 'user', content: 'Are you there?' }]
  let open = (): void => {}
  gate = new Promise((resolve) => (open = resolve))
  const answers = Promise.all(
    Array.from({ length: 8 }, () => call('POST', '/v1/chat/completions', { model, messages })),
  )
  await waitFor('a replica', async () => (await ready(id)).length === 1)
  await untilLookedAfter(1_000)
  expect(await ordered(id)).toBe(1)
  open()
  expect((await answers).map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200))
  expect(await ordered(id)).toBe(1)
  await succeed(call, 'DELETE', `/v2/deployments/${id}`)
})

test('a replica that ends is replaced by one, and a restart of the server orders none (issue 31, 16)', async () => {
  const { id } = await deploy('three', { min: 3, max: 5 })
  const three = await waitFor('three replicas', async () => {
    const replicas = await ready(id)
    return replicas.length === 3 && replicas
  })
  await succeed(call, 'POST', '/v1/marketplace/instances/terminate', { id: three[0]?.rentalName })
  await waitFor('three others', async () => {
    const now = await ready(id)
    return now.length === 3 && now.every((one) => one.id !== three[0]?.id)
  })
  expect(await ordered(id)).toBe(4)

  await server.close()
  server = await testServer({ databaseUrl: own.url, env })
  place = Object.assign(place, { url: server.url })
  call = caller(server.url, key)
  // Past the time in which hosts have to come back.
  await untilLookedAfter(SILENT_MS + 3_000)
  expect((await ready(id)).length).toBe(3)
  expect(await ordered(id)).toBe(4)
})

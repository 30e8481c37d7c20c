/** Two servers on one database share the work; when one is killed, the other takes over and nothing is lost. */
import { mkdtemp } from 'node:fs/promises'
import { readFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startModelServer } from './sim/model-server.ts'
import { testDatabase, type TestDatabase } from './harness/database.ts'
import { joinHost } from './harness/joined-host.ts'
import { succeed } from './harness/journey.ts'
import { removeFolder } from './harness/leftover.ts'
import { startLoad } from './harness/load.ts'
import { relayPorts } from './harness/own-port.ts'
import { startServerProcess, type ServerProcess } from './lab/process.ts'
import type { Reply } from './harness/exchange.ts'
import { caller, testSshKey, type Call } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('build')

/**
 * Far shorter than the lifetime of a cached key, so only a notification is this fast; far longer than a busy machine
 * needs.
 */
const SOON_MS = 10_000

let database: TestDatabase
let dirs: string[]
let servers: ServerProcess[]
let operatorKey: string

const shared = {
  BERTH_DRIVERS: 'mock,host',
  BERTH_SELL_SIMULATED: 'true',
  BERTH_STORAGE_OVERCOMMIT: '1000',
  BERTH_PEER_PORT: '0',
  BERTH_MOCK_BOOT_MS: '200',
  BERTH_MOCK_DESTROY_MS: '100',
  BERTH_SECRET_KEY: 'one secret key for both of the servers',
}

/** Its connections to the database have its name. */
const nameOf = (index: number): string => `server-${index}`

async function start(index: number): Promise<ServerProcess> {
  const url = new URL(database.url)
  url.searchParams.set('application_name', nameOf(index))
  return startServerProcess({
    ...shared,
    BERTH_DATA_DIR: dirs[index] ?? '',
    BERTH_RELAY_PORTS: relayPorts(),
    DATABASE_URL: url.href,
  })
}

beforeAll(async () => {
  database = await testDatabase()
  dirs = await Promise.all([0, 1].map(() => mkdtemp(path.join(os.tmpdir(), 'berth-two-'))))
  // Both start at once on an empty database.
  servers = await Promise.all(dirs.map((_, index) => start(index)))
  // Only the first server created the operator, and only it has a key file.
  const keys = dirs.flatMap((dir) => {
    try {
      return [readFileSync(path.join(dir, 'operator.key'), 'utf8').trim()]
    } catch {
      return []
    }
  })
  if (keys.length !== 1) throw new Error(`${keys.length} operator keys instead of one`)
  operatorKey = keys[0] ?? ''
})

afterAll(async () => {
  await Promise.all(servers.map((server) => server.killTree()))
  await database.drop()
  await Promise.all(dirs.map((dir) => removeFolder(dir)))
})

function on(index: number, key: string): Call {
  return caller(servers[index]?.url ?? '', key)
}

async function openAccount(): Promise<string> {
  const operator = on(0, operatorKey)
  const made = await operator('POST', '/v2/operator/accounts', { name: 'Two', ownerEmail: 'owner@example.test' })
  const { id } = made.body.account as { id: string }
  await operator('POST', `/v2/operator/accounts/${id}/credit`, { amountUsd: '50000', reason: 'for the test' })
  const key = made.body.key as string
  await on(0, key)('POST', '/v2/ssh-keys', { name: 'test', publicKey: testSshKey })
  return key
}

it('a key revoked on one server is rejected there immediately and on the other within seconds', async () => {
  const key = await openAccount()
  const made = await on(0, key)('POST', '/v2/api-keys', { name: 'short-lived', scopes: ['billing:read'] })
  const brief = made.body.key as string
  for (const server of [0, 1] as const) {
    expect((await on(server, brief)('GET', '/v2/customer/balance')).status).toBe(200)
  }
  await on(0, key)('DELETE', `/v2/api-keys/${made.body.publicId as string}`)
  expect((await on(0, brief)('GET', '/v2/customer/balance')).status).toBe(401)
  await waitFor(
    'the other server to refuse the key',
    async () => (await on(1, brief)('GET', '/v2/customer/balance')).status === 401,
    SOON_MS,
  )
})

it('a rate limit applies across both servers', async () => {
  const key = await openAccount()
  const made = await on(0, key)('POST', '/v2/api-keys', {
    name: 'slow',
    scopes: ['billing:read'],
    requestsPerMinute: 20,
  })
  const slow = made.body.key as string
  const replies = await Promise.all(
    Array.from({ length: 60 }, (_, i) => on(i % 2, slow)('GET', '/v2/customer/balance')),
  )
  const allowed = replies.filter((reply) => reply.status === 200).length
  // A new minute may start meanwhile, with a second budget.
  expect(allowed).toBeLessThanOrEqual(40)
  const refused = replies.find((reply) => reply.status === 429)
  expect(refused?.headers.get('retry-after')).toMatch(/^\d+$/)
  expect(refused?.headers.get('x-ratelimit-limit')).toBe('20')
})

it('share the work, and one takes over when the other is killed', { timeout: 240_000 }, async () => {
  const key = await openAccount()
  const loads = [0, 1].map((index) => startLoad({ url: () => servers[index]?.url ?? '', key }, 3))
  const counts = () => loads.map((load) => load.results.created.size)
  await waitFor('both servers to have made rentals', () => counts().every((count) => count >= 8))

  await servers[1]?.killTree()
  const made = loads[0]?.results.created.size ?? 0
  await waitFor('the other to continue', () => (loads[0]?.results.created.size ?? 0) >= made + 8)
  servers[1] = await start(1)
  await waitFor('the killed one to be back', () => (loads[1]?.results.answered ?? 0) > 0)
  await Promise.all(loads.map((load) => load.stop()))
  expect(loads.flatMap((load) => load.results.wrong)).toEqual([])

  const operator = on(0, operatorKey)
  type Row = { id: number; name: string; status: string; kind: string }
  const rows = await waitFor(
    'every rental to settle',
    async () => {
      const all = (await operator('GET', '/v2/operator/rentals?limit=1000')).body.rentals as Row[]
      return all.every((row) => ['Running', 'Stopped', 'Failed', 'Terminated'].includes(row.status)) && all
    },
    120_000,
  )
  const known = new Set(rows.map((row) => (row.kind === 'container' ? row.name : String(row.id))))
  const reported = loads.flatMap((load) => [...load.results.created.values()])
  expect(reported.filter((id) => !known.has(id))).toEqual([])
  expect(new Set(reported).size).toBe(reported.length)
  const verified = await operator('GET', '/v2/operator/ledger/verify')
  expect(verified.body.findings).toEqual([])
})

interface Replica {
  readonly id: string
  readonly state: string
}

it('drive one deployment together: no doubled replica, and one goes on when the other is killed in its turn', async () => {
  const key = await openAccount()
  const engine = await startModelServer({ behaviour: { words: 3 } })
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  // Its agent is connected to the server that will be killed, then to the other.
  let connected = 0
  const joining = {
    get url() {
      return servers[connected]?.url ?? ''
    },
    operator: on(0, operatorKey),
    anonymous: caller(servers[0]?.url ?? '', null),
  }
  const host = await joinHost(joining, engine.port, { clusterName: 'serving', region: 'serving', gpusTotal: 4 })
  try {
    const made = await succeed(on(0, key), 'POST', '/v2/deployments', {
      name: 'shared',
      recipe: { name: 'custom', image: { name: 'lab/chat-engine' }, concurrency: 8 },
      gpus: { region: 'serving' },
      replicas: { min: 0, max: 4 },
    })
    const ask = (index: number): Promise<Reply> =>
      on(index, key)('POST', '/v1/chat/completions', { model: made.model, messages: [{ role: 'user', content: 'hi' }] })
    const replicas = async (index: number): Promise<Replica[]> =>
      (await succeed(on(index, key), 'GET', `/v2/deployments/${made.id}`)).replicas
    const rentals = async (): Promise<number> =>
      (await client.query(`select 1 from rental where label = $1`, [made.model])).rows.length

    // The other server has not heard of the model when the first request arrives.
    const atZero = await Promise.all(Array.from({ length: 4 }, () => ask(1)))
    expect(atZero.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    const [first] = await replicas(0)
    expect(await replicas(0)).toMatchObject([{ state: 'ready' }])
    expect(await rentals()).toBe(1)
    expect((await ask(0)).status).toBe(200)

    await waitFor('the first server to take the turn', () => holdTurn(client, made.id, nameOf(0)))
    connected = 1
    await servers[0]?.killTree()
    await client.query('rollback')
    await waitFor('an answer through the other', async () => (await ask(1)).status === 200)
    await succeed(on(1, key), 'PATCH', `/v2/deployments/${made.id}`, { replicas: { min: 3, max: 4 } })
    await waitFor('three replicas', async () => {
      const found = await replicas(1)
      return found.filter(({ state }) => state === 'ready').length === 3
    })
    servers[0] = await start(0)
    expect((await ask(0)).status).toBe(200)
    const last = await replicas(0)
    expect(last.map(({ state }) => state)).toEqual(['ready', 'ready', 'ready'])
    expect(last.some(({ id }) => id === first?.id)).toBe(true)
    expect(await rentals()).toBe(3)

    await succeed(on(0, key), 'DELETE', `/v2/deployments/${made.id}`)
    await waitFor('the deployment to be gone', async () => {
      const { status } = await on(0, key)('GET', `/v2/deployments/${made.id}`)
      return status === 404
    })
    expect((await on(0, operatorKey)('GET', '/v2/operator/ledger/verify')).body.findings).toEqual([])
  } finally {
    await host.close()
    await client.end()
    await engine.close()
  }
}, 240_000)

/** Locks the deployment until this server waits for it, which it does in its turn only. False: the other one waited. */
async function holdTurn(client: pg.Client, deploymentId: string, name: string): Promise<boolean> {
  await client.query('begin')
  await client.query('select 1 from managed_deployment where id = $1 for update', [deploymentId])
  const waiting = await waitFor('a server to wait for the deployment', async () => {
    const found = await client.query<{ application_name: string }>(
      `select application_name from pg_stat_activity where pg_backend_pid() = any (pg_blocking_pids(pid))`,
    )
    return found.rows[0]?.application_name
  })
  if (waiting === name) return true
  await client.query('rollback')
  return false
}

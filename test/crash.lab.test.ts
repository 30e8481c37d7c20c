/**
 * Kills the server and its PostgreSQL (SIGKILL, the whole process tree) at random moments under mixed load and starts
 * them again. Afterwards the database, the engine, the customers' answers and the webhooks must agree to the last row.
 */
import { mkdtemp } from 'node:fs/promises'
import { readFileSync } from 'node:fs'
import { randomInt } from 'node:crypto'
import os from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { removeFolder } from './harness/leftover.ts'
import { startReceiver } from './harness/receiver.ts'
import { startLoad, type Load } from './harness/load.ts'
import { startServerProcess, type ServerProcess } from './lab/process.ts'
import { waitFor } from './harness/wait.ts'
import type { Reply } from './harness/exchange.ts'
import { needs } from './needs.ts'

needs('kills', 'build')

const KILLS = Number.parseInt(process.env.BERTH_TEST_KILLS ?? '10', 10)
const WORKERS = 6
const MINUTE_MS = 60_000

interface Rental {
  readonly id: number
  readonly name: string
  readonly status: string
  readonly kind: string
}

let server: ServerProcess
let keys: { readonly demo: string; readonly operator: string }
let load: Load
let eventsBefore: Set<string>
/** Ids of the events the webhook received. */
const received = new Set<string>()
const cleanUp: Array<() => Promise<unknown>> = []
afterAll(async () => {
  for (const step of cleanUp.toReversed()) await step()
})

describe(`${KILLS} kills of the whole process tree under load`, () => {
  test('every answer is correct, and work goes on between kills', { timeout: 12 * MINUTE_MS }, async () => {
    const env = await startServer()
    await raiseDemoLimits()
    await subscribeWebhook()
    eventsBefore = new Set((await listEvents()).map((event) => event.id))
    await orderReservedMachine()
    load = startLoad({ url: () => server.url, key: keys.demo }, WORKERS)
    for (let kill = 0; kill < KILLS; kill += 1) await killAndRestart(env, kill)
    await load.stop()
    expect(load.results.wrong).toEqual([])
    expect(load.results.answered).toBeGreaterThanOrEqual(Math.floor(KILLS / 2))
    expect(load.results.created.size).toBeGreaterThan(KILLS / 10)
  })

  test('every rental that a customer got a success response for exists once', { timeout: 3 * MINUTE_MS }, async () => {
    const rentals = await waitForStatus(['Running', 'Stopped', 'Failed', 'Terminated'])
    const known = new Set(rentals.map((rental) => (rental.kind === 'container' ? rental.name : String(rental.id))))
    const created = [...load.results.created.values()]
    expect(created.filter((id) => !known.has(id))).toEqual([])
    expect(new Set(created).size, 'two creates answered with one rental').toBe(created.length)
  })

  test('after all rentals end, no machine is left and every GPU is free', { timeout: 6 * MINUTE_MS }, async () => {
    for (const rental of await listRentals())
      if (rental.status === 'Running' || rental.status === 'Stopped') await terminate(rental)
    await waitForStatus(['Failed', 'Terminated'])
    await expect.poll(countMachinesAtEngine, { timeout: MINUTE_MS }).toBe(0)
    await expect.poll(countGpusInUse, { timeout: MINUTE_MS }).toBe(0)
  })

  test('the ledger adds up, including a reserved rental that ended early', async () => {
    const { body } = await call(keys.operator, 'GET', '/v2/operator/ledger/verify')
    expect(body.findings).toEqual([])
    expect(body.ok).toBe(true)
    const checks = body.checks as Array<{ name: string; rows: number }>
    expect(checks.find(({ name }) => name === 'early_end_is_rerated')?.rows).toBeGreaterThan(0)
  })

  test('the webhook receives every event', { timeout: 3 * MINUTE_MS }, async () => {
    const events = (await listEvents()).filter((event) => !eventsBefore.has(event.id))
    expect(events).not.toEqual([])
    const haveArrived = () => events.every((event) => received.has(event.id))
    await waitFor('every event to reach the webhook', haveArrived, 2 * MINUTE_MS)
  })
})

async function startServer(): Promise<Record<string, string>> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-crash-'))
  cleanUp.push(() => removeFolder(folder))
  const env = {
    BERTH_DATA_DIR: folder,
    BERTH_MOCK_BOOT_MS: '300',
    BERTH_MOCK_DESTROY_MS: '200',
    BERTH_ALLOW_PRIVATE_ADDRESSES: 'true',
  }
  server = await startServerProcess(env)
  cleanUp.push(() => server.killTree())
  const readKey = (name: string): string => readFileSync(path.join(folder, name), 'utf8').trim()
  keys = { demo: readKey('demo.key'), operator: readKey('operator.key') }
  return env
}

async function raiseDemoLimits(): Promise<void> {
  const account = '/v2/operator/accounts/demo'
  const reason = 'for the crash suite'
  await call(keys.operator, 'POST', `${account}/credit`, { amountUsd: '5000', reason })
  const quota = { gpus: 10_000, volumes: 10_000, volumeGb: 10_000_000 }
  // Most reserved orders are funded on credit, which every end and release repays.
  await call(keys.operator, 'PATCH', account, { quota, creditLineUsd: '500000', reason })
}

async function subscribeWebhook(): Promise<void> {
  const receiver = await startReceiver()
  cleanUp.push(() => receiver.close())
  receiver.answer = (request, response) => {
    received.add((JSON.parse(request.body) as { data: { id: string } }).data.id)
    response.end()
  }
  await call(keys.demo, 'POST', '/v2/webhooks', { url: receiver.url })
}

/** On a slow machine that handles few orders, this one still survives all kills and ends early. */
async function orderReservedMachine(): Promise<void> {
  const term = { termType: 'reserved', termPeriodDays: 365, discountPercentage: 30 }
  const order = { gpuCount: 1, region: 'mock-region', ...term }
  const { status } = await call(keys.demo, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals', order)
  expect(status).toBe(200)
}

async function killAndRestart(env: Record<string, string>, kill: number): Promise<void> {
  const { answered } = load.results
  // The kill happens at a random time on purpose: this is the only delay in the suite.
  await new Promise((resolve) => setTimeout(resolve, randomInt(10, 900)))
  // Every other run lasts long enough to answer something, even on a slow machine.
  if (kill % 2 === 1) await waitFor('an answer', () => load.results.answered > answered)
  await server.killTree()
  server = await startServerProcess(env)
}

async function waitForStatus(statuses: readonly string[]): Promise<Rental[]> {
  let others = ''
  return waitFor(
    () => `every rental to be ${statuses.join(' or ')}; others: ${others}`,
    async () => {
      const rentals = await listRentals()
      const rest = rentals.filter(({ status }) => !statuses.includes(status))
      others = JSON.stringify(rest)
      return rest.length === 0 && rentals
    },
    2 * MINUTE_MS,
  )
}

async function countMachinesAtEngine(): Promise<number> {
  const { body } = await call(keys.operator, 'GET', '/v2/operator/engines/audit')
  return body.engines[0].machines
}

async function countGpusInUse(): Promise<number> {
  const { body } = await call(keys.operator, 'GET', '/v2/operator/machines?limit=1000')
  return (body.machines as Array<{ gpusInUse: number }>).reduce((sum, machine) => sum + machine.gpusInUse, 0)
}

async function terminate({ kind, name, id }: Rental): Promise<void> {
  if (kind === 'container') await call(keys.demo, 'POST', '/v1/marketplace/instances/terminate', { id: name })
  else await call(keys.demo, 'POST', `/v2/alpha/on-demand/${kind}-rentals/terminate`, { rentalId: id })
}

const listRentals = (): Promise<Rental[]> => listAll(keys.operator, '/v2/operator/rentals', 'rentals')
const listEvents = (): Promise<Array<{ id: string }>> => listAll(keys.demo, '/v2/events', 'events')

async function listAll<T>(key: string, pathname: string, field: string): Promise<T[]> {
  const rows: T[] = []
  let cursor = ''
  for (;;) {
    const { body } = await call(key, 'GET', `${pathname}?limit=1000${cursor}`)
    rows.push(...body[field])
    if (body.nextCursor === null) return rows
    cursor = `&cursor=${body.nextCursor}`
  }
}

async function call(key: string, method: string, pathname: string, body?: unknown): Promise<Reply> {
  const json = body === undefined ? {} : { 'Content-Type': 'application/json' }
  const response = await fetch(`${server.url}${pathname}`, {
    method,
    headers: { Authorization: `Bearer ${key}`, ...json },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

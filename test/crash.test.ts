/**
 * The server and its PostgreSQL are killed (SIGKILL, the whole process tree) at random moments under a mixed load, and
 * started again. Afterwards the books, the engine and what customers and webhooks were told must agree to the last row.
 */
import { mkdtemp } from 'node:fs/promises'
import { readFileSync } from 'node:fs'
import { randomInt } from 'node:crypto'
import os from 'node:os'
import path from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { removeFolder } from './harness/leftover.ts'
import { startReceiver } from './harness/receiver.ts'
import { startLoad } from './harness/load.ts'
import { startServerProcess, type ServerProcess } from './harness/process.ts'
import { waitFor } from './harness/wait.ts'
import type { Reply } from './harness/server.ts'

const KILLS = Number.parseInt(process.env.BERTH_TEST_KILLS ?? '100', 10)
const WORKERS = 6
const MINUTES_MS = 60_000

let server: ServerProcess
const cleanUp: Array<() => Promise<unknown>> = []
afterAll(async () => {
  for (const step of cleanUp.toReversed()) await step()
})

async function call(key: string, method: string, pathname: string, body?: unknown): Promise<Reply> {
  const response = await fetch(`${server.url}${pathname}`, {
    method,
    headers: { Authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

async function allRentals(
  operatorKey: string,
): Promise<Array<{ id: number; name: string; status: string; accountId: string; kind: string }>> {
  const rows = []
  let cursor = ''
  for (;;) {
    const page = await call(operatorKey, 'GET', `/v2/operator/rentals?limit=1000${cursor}`)
    rows.push(...page.body.rentals)
    if (page.body.nextCursor === null) return rows
    cursor = `&cursor=${page.body.nextCursor}`
  }
}

async function allEvents(key: string): Promise<Array<{ id: string }>> {
  const rows = []
  let cursor = ''
  for (;;) {
    const page = await call(key, 'GET', `/v2/events?limit=1000${cursor}`)
    rows.push(...page.body.events)
    if (page.body.nextCursor === null) return rows
    cursor = `&cursor=${page.body.nextCursor}`
  }
}

it(
  `loses and doubles nothing over ${KILLS} kills of the whole process tree`,
  { timeout: 12 * MINUTES_MS },
  async () => {
    const dataDir = await mkdtemp(path.join(os.tmpdir(), 'berth-crash-'))
    cleanUp.push(() => removeFolder(dataDir))
    const env = {
      BERTH_DATA_DIR: dataDir,
      BERTH_MOCK_BOOT_MS: '300',
      BERTH_MOCK_DESTROY_MS: '200',
      BERTH_ALLOW_PRIVATE_ADDRESSES: 'true',
    }
    server = await startServerProcess(env)
    cleanUp.push(() => server.killTree())
    const demoKey = readFileSync(path.join(dataDir, 'demo.key'), 'utf8').trim()
    const operatorKey = readFileSync(path.join(dataDir, 'operator.key'), 'utf8').trim()
    await call(operatorKey, 'POST', '/v2/operator/accounts/demo/credit', {
      amountUsd: '5000',
      reason: 'for the crash suite',
    })
    await call(operatorKey, 'PATCH', '/v2/operator/accounts/demo', {
      quota: { gpus: 10_000, volumes: 10_000, volumeGb: 10_000_000 },
      // Most reserved orders are held on credit, which every end and every release repays.
      creditLineUsd: '500000',
      reason: 'for the crash suite',
    })

    const heard = new Set<string>()
    const receiver = await startReceiver()
    receiver.answer = (request, response) => {
      heard.add((JSON.parse(request.body) as { data: { id: string } }).data.id)
      response.end()
    }
    cleanUp.push(() => receiver.close())
    await call(demoKey, 'POST', '/v2/webhooks', { url: receiver.url })
    const before = new Set((await allEvents(demoKey)).map((event) => event.id))

    // However few orders a slow machine gets to, one reserved rental lives through all kills and is ended early.
    const reserved = { termType: 'reserved', termPeriodDays: 365, discountPercentage: 30 }
    const order = { gpuCount: 1, region: 'mock-region', ...reserved }
    expect(await call(demoKey, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals', order)).toMatchObject({
      status: 200,
    })

    const load = startLoad({ url: () => server.url, key: demoKey }, WORKERS)
    for (let kill = 0; kill < KILLS; kill += 1) {
      // The moment of death is the one thing that is meant to be a matter of time.
      const { answered } = load.told
      await new Promise((resolve) => setTimeout(resolve, randomInt(10, 900)))
      // Every other life is long enough for something, however slow the machine is.
      if (kill % 2 === 1) await waitFor('an answer', () => load.told.answered > answered)
      await server.killTree()
      server = await startServerProcess(env)
    }
    await load.stop()
    expect(load.told.wrong).toEqual([])
    expect(load.told.answered).toBeGreaterThanOrEqual(Math.floor(KILLS / 2))
    expect(load.told.created.size).toBeGreaterThan(KILLS / 10)

    // What was begun comes to its end by itself.
    const ends = ['Running', 'Failed', 'Terminated']
    let open = ''
    const settled = await waitFor(
      () => `every rental to leave Pending and Terminating; open: ${open}`,
      async () => {
        const rows = await allRentals(operatorKey)
        open = JSON.stringify(rows.filter((row) => !ends.includes(row.status)))
        return rows.every((row) => ends.includes(row.status)) && rows
      },
      2 * MINUTES_MS,
    )
    const known = new Set(settled.flatMap((row) => (row.kind === 'container' ? [row.name] : [String(row.id)])))
    const lost = [...load.told.created.values()].filter((id) => !known.has(id))
    expect(lost, 'rentals that a customer was told of and that are not in the books').toEqual([])
    expect(new Set(load.told.created.values()).size, 'two creates answered with one rental').toBe(
      load.told.created.size,
    )

    for (const row of settled.filter((one) => one.status === 'Running')) {
      if (row.kind === 'container') await call(demoKey, 'POST', '/v1/marketplace/instances/terminate', { id: row.name })
      else await call(demoKey, 'POST', `/v2/alpha/on-demand/${row.kind}-rentals/terminate`, { rentalId: row.id })
    }
    let left = ''
    await waitFor(
      () => `the engine to show nothing of ours; left: ${left}`,
      async () => {
        const rows = await allRentals(operatorKey)
        const engines = await call(operatorKey, 'GET', '/v2/operator/engines/audit')
        left = JSON.stringify([engines.body, rows.filter((row) => !['Failed', 'Terminated'].includes(row.status))])
        return (
          rows.every((row) => ['Failed', 'Terminated'].includes(row.status)) && engines.body.engines[0].machines === 0
        )
      },
      3 * MINUTES_MS,
    )
    const fleet = await call(operatorKey, 'GET', '/v2/operator/machines?limit=1000')
    await waitFor('every GPU to be back on sale', async () => {
      const now = await call(operatorKey, 'GET', '/v2/operator/machines?limit=1000')
      return (now.body.machines as Array<{ gpusInUse: number }>).every((machine) => machine.gpusInUse === 0)
    })
    expect(fleet.status).toBe(200)

    const verified = await call(operatorKey, 'GET', '/v2/operator/ledger/verify')
    expect(verified.body.findings).toEqual([])
    expect(verified.body.ok).toBe(true)
    const checked = (verified.body.checks as Array<{ name: string; rows: number }>).find(
      ({ name }) => name === 'early_end_is_rerated',
    )
    expect(checked?.rows, 'reserved rentals that ended').toBeGreaterThan(0)

    const events = (await allEvents(demoKey)).filter((event) => !before.has(event.id))
    await waitFor(
      'every event to have reached the webhook',
      () => events.every((event) => heard.has(event.id)),
      2 * MINUTES_MS,
    )
  },
)

/**
 * Thousands of rentals on one server with the mock engine at zero latency: create → Running, then the cost of keeping
 * them. BERTH_BENCH_RENTALS sets how many.
 */
import pg from 'pg'
import { call, cpuMs, inParallel, median, readKey, startServer, type Bench, type BenchServer } from './harness.ts'
import { openAccounts } from './fixtures.ts'
import { pause } from './gateway/child.ts'
import { watchMemory } from './gateway/memory.ts'
import { copyRentals } from './rental-copies.ts'

const RENTALS = Number.parseInt(process.env.BERTH_BENCH_RENTALS ?? '5000', 10)
/** The simulated fleet has room for this many virtual machines with one GPU per copy. */
const RENTALS_PER_COPY = 125
const ACCOUNTS = 64
const WIDTH = 32
/** So many are ordered; the others are copies of them (rental-copies.ts). */
const ORDERED = Math.min(RENTALS, 1_000)
const SETTLE_MS = 10_000
const WATCH_MS = 30_000

export const rentals: Bench = {
  name: 'rentals',
  about: `${RENTALS} active rentals on one server`,
  run: async () => {
    const server = await startServer({
      BERTH_DRIVERS: 'mock',
      BERTH_MOCK_SCALE: String(Math.ceil(RENTALS / RENTALS_PER_COPY)),
      BERTH_MOCK_BOOT_MS: '0',
      BERTH_MOCK_DESTROY_MS: '0',
    })
    const client = new pg.Client({ connectionString: server.databaseUrl })
    try {
      await client.connect()
      const operatorKey = readKey(server, 'operator')
      const keys = await openAccounts(server, operatorKey, ACCOUNTS)
      const shapes = await readShapes(server)
      const startedAt = performance.now()
      const cpuBefore = cpuMs(server.pid)
      const createMs = await inParallel(range(ORDERED), WIDTH, (n) =>
        createOne(server, keys[n % keys.length] ?? '', shapes, n),
      )
      await untilRunning(client, ORDERED)
      const runningMs = performance.now() - startedAt
      const cpuPerRentalUs = ((cpuMs(server.pid) - cpuBefore) * 1_000) / ORDERED
      await copyRentals(client, RENTALS)
      await untilRunning(client, RENTALS)
      // The first lists with all of them.
      await new Promise((resolve) => setTimeout(resolve, SETTLE_MS))

      const passesBefore = await observePasses(server, operatorKey)
      const chargedBefore = await countCharged(client)
      const idleCpuBefore = cpuMs(server.pid)
      const databaseCpuBefore = cpuMs(server.postgresPid)
      // It rises and falls with the garbage of the passes, so one look says little.
      const { samples } = await watchMemory(server.pid, pause(WATCH_MS))
      const idleCpuMs = cpuMs(server.pid) - idleCpuBefore
      const databaseCpuMs = cpuMs(server.postgresPid) - databaseCpuBefore
      const passes = await observePasses(server, operatorKey)
      const charged = await countCharged(client)
      await verify(server, operatorKey)
      const passSeconds = (passes.seconds - passesBefore.seconds) / Math.max(1, passes.count - passesBefore.count)
      return [
        { name: 'creates a second', value: (ORDERED * 1_000) / createMs, unit: '/s' },
        { name: 'all Running after', value: runningMs / 1_000, unit: 's' },
        { name: 'CPU of the server a rental, create to Running', value: cpuPerRentalUs, unit: 'µs' },
        { name: `full reconcile pass over ${RENTALS}`, value: passSeconds, unit: 's', against: 'to reach: ≤ 2 s' },
        { name: 'resident memory, median', value: median(samples), unit: 'MB', against: 'to reach: ≤ 600 MB' },
        { name: 'resident memory, highest', value: Math.max(...samples), unit: 'MB' },
        {
          name: 'CPU while they run',
          value: (idleCpuMs / WATCH_MS) * 100,
          unit: '% of one core',
          against: 'to reach: ≤ 30 %; dstack states 1,000 active a replica',
        },
        { name: 'CPU of PostgreSQL while they run', value: (databaseCpuMs / WATCH_MS) * 100, unit: '% of one core' },
        {
          name: 'charges a second',
          value: ((charged - chargedBefore) * 1_000) / WATCH_MS,
          unit: '/s',
          against: `due: ${(RENTALS / 300).toFixed(1)}`,
        },
      ]
    } finally {
      await client.end()
      await server.stop()
    }
  },
}

function range(length: number): number[] {
  return Array.from({ length }, (_, n) => n)
}

interface Shape {
  readonly region: string
  readonly gpuType: string
  readonly networkType: string
}

/** The fleet's virtual machine options with one GPU. */
async function readShapes(server: BenchServer): Promise<Shape[]> {
  const reply = await call(server.url, null, 'GET', '/v2/alpha/on-demand/rental-options')
  type Option = { machineType: string; gpuCount: number; region: string; gpuType: string; connectionType: string }
  return (reply.body as Option[])
    .filter((option) => option.machineType === 'virtual-machine' && option.gpuCount === 1)
    .map(({ region, gpuType, connectionType }) => ({ region, gpuType, networkType: connectionType }))
}

/** Starts with its own shape and moves to the next when one is full. */
async function createOne(server: BenchServer, key: string, shapes: readonly Shape[], n: number): Promise<void> {
  for (let tried = 0; tried < shapes.length; tried += 1) {
    const shape = shapes[(n + tried) % shapes.length]
    const reply = await call(server.url, key, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals', {
      gpuCount: 1,
      ...shape,
    })
    if (reply.status === 200) return
    if (reply.status !== 400) throw new Error(`unexpected answer ${reply.status}: ${JSON.stringify(reply.body)}`)
  }
  throw new Error('the simulated fleet is full')
}

async function untilRunning(client: pg.Client, count: number): Promise<void> {
  for (;;) {
    const { rows } = await client.query<{ n: number }>(
      `select count(*)::integer as n from rental where status = 'Running'`,
    )
    if ((rows[0]?.n ?? 0) >= count) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

async function countCharged(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ n: number }>(`select sum(settlements)::integer as n from segment`)
  return rows[0]?.n ?? 0
}

async function verify(server: BenchServer, operatorKey: string): Promise<void> {
  const reply = await call(server.url, operatorKey, 'GET', '/v2/operator/ledger/verify')
  const { ok, findings } = reply.body as { ok: boolean; findings: unknown[] }
  if (!ok) throw new Error(`the ledger does not verify: ${JSON.stringify(findings.slice(0, 5))}`)
}

/** Count and total time of the observe loop's passes, from the server's metrics. */
async function observePasses(server: BenchServer, operatorKey: string): Promise<{ count: number; seconds: number }> {
  const response = await fetch(`${server.url}/metrics`, { headers: { Authorization: `Bearer ${operatorKey}` } })
  const text = await response.text()
  const read = (name: string): number =>
    Number.parseFloat(
      new RegExp(`^berth_reconcile_seconds_${name}\\{loop="observe"\\} (\\S+)$`, 'm').exec(text)?.[1] ?? '0',
    )
  return { count: read('count'), seconds: read('sum') }
}

/**
 * Ten thousand followers of event streams on one server: memory of each, CPU while nothing happens (heartbeats included),
 * time until all have an event, and the memory that followers take which never read. BERTH_BENCH_FOLLOWERS sets their
 * number. Both sides need as many open files: `ulimit -Hn` must be above it.
 */
import { spawnSync } from 'node:child_process'
import pg from 'pg'
import { limits } from '../../src/base/limits.ts'
import { freePort, pause } from '../gateway/child.ts'
import { openHeapProbe, type HeapProbe } from '../gateway/heap-probe.ts'
import {
  call,
  cpuMs,
  inParallel,
  median,
  readKey,
  residentMb,
  startServer,
  type Bench,
  type BenchServer,
  type Figure,
} from '../harness.ts'
import { follow, type Followers } from './followers.ts'

const FOLLOWERS = Number(process.env['BERTH_BENCH_FOLLOWERS'] ?? 10_000)
const PER_ACCOUNT = limits.sseConnectionsPerAccount
const ACCOUNTS = Math.ceil(FOLLOWERS / PER_ACCOUNT)
/** Files of the server besides the streams. */
const OTHER_FILES = 500
/** Two heartbeats of every follower. */
const IDLE_MS = 2 * limits.sseHeartbeatMs
const WIDTH = 16
const ROUNDS = 5
const STALLED = 20
/** More than the kernel buffers of a connection hold: 20 MB. */
const STALLED_EVENTS = 40_000
const EVENT_BYTES = 500

interface Account {
  readonly id: string
  readonly key: string
}

export const events: Bench = {
  name: 'events',
  about: `${FOLLOWERS.toLocaleString('en')} followers of event streams, ${PER_ACCOUNT} per account`,
  run: async () => {
    checkOpenFiles()
    const inspector = await freePort()
    const server = await startServer({ BERTH_DRIVERS: '', NODE_OPTIONS: `--inspect=127.0.0.1:${inspector}` })
    try {
      const probe = await openHeapProbe(inspector)
      const accounts = await openAccounts(server)
      const keys = Array.from({ length: FOLLOWERS }, (_, n) => accounts[n % ACCOUNTS]?.key ?? '')
      // Compiled code and caches of keys are not part of a follower's cost.
      const warmUp = await follow(server.url, keys.slice(0, FOLLOWERS / 10))
      await creditAll(server, accounts)
      await warmUp.untilAllHave(1)
      warmUp.close()
      await pause(1_000)
      const before = await memoryOf(server, probe)
      const quietPercent = await cpuPercent(server)
      const openedAt = performance.now()
      const followers = await follow(server.url, keys)
      const openMs = performance.now() - openedAt
      const after = await memoryOf(server, probe)
      const idlePercent = await cpuPercent(server)
      const deliveries = await measureDelivery(server, accounts, followers)
      followers.close()
      await pause(1_000)
      const stalledMb = await measureStalled(server, probe, accounts[0] ?? fail())
      probe.close()
      const perFollower = (mb: number): number => (mb * 1_024) / FOLLOWERS
      return [
        {
          name: 'heap per follower',
          value: perFollower(after.heapMb - before.heapMb),
          unit: 'KB',
          against: 'to reach: ≤ 12 KB',
        },
        {
          name: 'resident memory per follower',
          value: perFollower(after.residentMb - before.residentMb),
          unit: 'KB',
          against: 'to reach: ≤ 12 KB',
        },
        {
          name: 'CPU of the server, idle',
          value: idlePercent - quietPercent,
          unit: '% of one core',
          against: `to reach: ≤ 1 %; without followers ${quietPercent.toFixed(2)} %`,
        },
        { name: 'streams opened per second', value: (FOLLOWERS * 1_000) / openMs, unit: '/s' },
        ...deliveries,
        {
          name: 'memory per follower that never reads',
          value: (stalledMb * 1_024) / STALLED,
          unit: 'KB',
          against: `limit: ${limits.sseBufferedBytes / 1_024} KB; ${Math.round((STALLED_EVENTS * EVENT_BYTES) / 1e6)} MB of events`,
        },
      ]
    } finally {
      await server.stop()
    }
  },
}

function fail(): never {
  throw new Error('no account was opened')
}

/** Node raises its own soft limit to the hard one. */
function checkOpenFiles(): void {
  const { stdout } = spawnSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' })
  const most = Number.parseInt(stdout, 10)
  if (most < FOLLOWERS + OTHER_FILES) {
    throw new Error(
      `${FOLLOWERS} followers need ${FOLLOWERS + OTHER_FILES} open files, and \`ulimit -Hn\` allows ${most}`,
    )
  }
}

async function openAccounts(server: BenchServer): Promise<Account[]> {
  const accounts: Account[] = []
  const operatorKey = readKey(server, 'operator')
  await inParallel(
    Array.from({ length: ACCOUNTS }, (_, n) => n),
    WIDTH,
    async (n) => {
      const body = { name: `Bench ${n}`, ownerEmail: `bench-${n}@example.test` }
      const made = await call(server.url, operatorKey, 'POST', '/v2/operator/accounts', body)
      const { account, key } = made.body as { account: { id: string }; key: string }
      accounts.push({ id: account.id, key })
    },
  )
  return accounts
}

/** One event for each account. */
async function creditAll(server: BenchServer, accounts: readonly Account[]): Promise<void> {
  const operatorKey = readKey(server, 'operator')
  await inParallel(accounts, WIDTH, async ({ id }) => {
    const body = { amountUsd: '1', reason: 'bench' }
    const reply = await call(server.url, operatorKey, 'POST', `/v2/operator/accounts/${id}/credit`, body)
    if (reply.status !== 200) throw new Error(`no credit: ${JSON.stringify(reply.body)}`)
  })
}

async function memoryOf(server: BenchServer, probe: HeapProbe): Promise<{ heapMb: number; residentMb: number }> {
  const heapMb = await probe.heapMb()
  return { heapMb, residentMb: residentMb(server.pid) }
}

async function cpuPercent(server: BenchServer): Promise<number> {
  const before = cpuMs(server.pid)
  await pause(IDLE_MS)
  return ((cpuMs(server.pid) - before) * 100) / IDLE_MS
}

/** One event in every account at once, written by SQL, so that only the delivery is measured. */
async function measureDelivery(
  server: BenchServer,
  accounts: readonly Account[],
  followers: Followers,
): Promise<Figure[]> {
  const took: number[] = []
  const cpu: number[] = []
  for (let round = 1; round <= ROUNDS; round += 1) {
    const cpuBefore = cpuMs(server.pid)
    const arrived = followers.untilAllHave(round)
    const startedAt = performance.now()
    const ids = accounts.map(({ id }) => id)
    await writeEvents(server, ids, 1)
    await arrived
    took.push(performance.now() - startedAt)
    cpu.push(((cpuMs(server.pid) - cpuBefore) * 1_000) / FOLLOWERS)
  }
  return [
    { name: 'all followers have their event after', value: median(took), unit: 'ms', rounds: took },
    { name: 'CPU of the server per event and follower', value: median(cpu), unit: 'µs', rounds: cpu },
  ]
}

/** The same number of events in each account, and the wake-up that a server sends after its commit. */
async function writeEvents(server: BenchServer, accountIds: readonly string[], count: number): Promise<void> {
  const client = new pg.Client({ connectionString: server.databaseUrl })
  await client.connect()
  await client.query(
    `insert into event (account_id, at, type, subject_kind, subject_id, data)
     select id, now(), 'balance.credited', 'balance', id, jsonb_build_object('note', repeat('x', $3::integer))
     from unnest($1::text[]) id, generate_series(1, $2::integer)`,
    [accountIds, count, EVENT_BYTES],
  )
  await client.query(`select pg_notify('berth_wake', 'events:' || id) from unnest($1::text[]) id`, [accountIds])
  await client.end()
}

/** Followers that read the head of their stream and then nothing. */
async function measureStalled(server: BenchServer, probe: HeapProbe, { id, key }: Account): Promise<number> {
  const stalled = await follow(
    server.url,
    Array.from({ length: STALLED }, () => key),
    { reads: false },
  )
  const before = await memoryOf(server, probe)
  await writeEvents(server, [id], STALLED_EVENTS)
  // Until the server has filled the buffers; a heartbeat later it may drop them.
  await pause(limits.sseHeartbeatMs / 2)
  const after = await memoryOf(server, probe)
  stalled.close()
  return after.residentMb - before.residentMb
}

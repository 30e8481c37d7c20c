/**
 * Months of settled requests: what customers read of them stays fast, and one more request costs the same, however many
 * there are. The table grows in time, at one rate, and is measured at a tenth, at half and at its full size; in a long run, the
 * figure for 100 million rows is a line through the three. BERTH_BENCH_REQUESTS sets the size; 20 million take 11 GB of
 * disk and a quarter of an hour.
 */
import { statfsSync } from 'node:fs'
import os from 'node:os'
import pg from 'pg'
import { startOfDay, systemClock } from '../../src/base/instant.ts'
import { openDatabase } from '../../src/store/platform/database.ts'
import { dropRequestPartition } from '../../src/store/request/request-log.ts'
import { openAccounts } from '../fixtures.ts'
import { call, readKey, startServer, type Bench, type BenchServer, type Figure } from '../harness.ts'
import { BURST, fillAccounts, fillDay, makePartitions, type KnownAccount } from './fill.ts'
import { measureReads, reads, takeSamples } from './reads.ts'
import { measureWrites } from './writes.ts'

const REQUESTS = Number(process.env['BERTH_BENCH_REQUESTS'] ?? 1_000_000)
const DAYS = 60
const STEPS = [0.1, 0.5, 1]
const KEPT_DAYS = 400
/** The busiest, and nine others of every size. */
const RANKS = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64]
const ROUNDS = 20
const TARGET_ROWS = 100_000_000
/** Smaller tables say nothing about TARGET_ROWS. */
const MIN_EXTRAPOLATED = 5_000_000
const MAX_DISK_BYTES = 12e9
/** A request with its share of the ledger, and the write-ahead log. */
const DISK_PER_REQUEST_BYTES = 560
/** With more rows, the check of the whole ledger takes minutes. */
const MAX_VERIFIED = 2_000_000

interface Step {
  readonly rows: number
  readonly p95: ReadonlyMap<string, number>
  readonly writeUs: number
}

export const history: Bench = {
  name: 'history',
  about: `reads and writes with ${REQUESTS.toLocaleString('en')} settled requests of ${DAYS} days`,
  run: async () => {
    checkDisk()
    // Vacuum runs between the measurements instead of during them.
    const server = await startServer({ BERTH_DRIVERS: '' }, { autovacuum: 'off', max_wal_size: '1GB' })
    const client = new pg.Client({ connectionString: server.databaseUrl })
    try {
      await client.connect()
      const keys = await openAccounts(server, readKey(server, 'operator'), RANKS.length)
      const known = RANKS.map((rank, n): KnownAccount => ({ rank, key: keys[n] ?? '' }))
      await fillAccounts(client, known)
      const today = startOfDay(systemClock.now())
      await makePartitions(client, today, KEPT_DAYS)
      const emptyUs = await measureWrites(server)
      const steps: Step[] = []
      let filled = 0
      for (const part of STEPS) {
        const days = Math.ceil(DAYS * part)
        for (let ago = days; ago > filled; ago -= 1) await fillDay(client, today, ago, Math.ceil(REQUESTS / DAYS))
        filled = days
        await client.query('vacuum analyze')
        await client.query('checkpoint')
        const samples = await takeSamples(client, known, { today, days })
        const p95 = await measureReads(server, samples, ROUNDS)
        const step = { rows: Math.ceil(REQUESTS / DAYS) * days, p95, writeUs: await measureWrites(server) }
        console.error(`  ${step.rows.toLocaleString('en')} requests: ${describe(step)}`)
        steps.push(step)
      }
      return [
        ...readFigures(steps),
        ...writeFigures(emptyUs, steps),
        ...(await diskFigures(client)),
        ...(await retentionFigures(client, server)),
        ...(await verifyFigures(server)),
      ]
    } finally {
      await client.end()
      await server.stop()
    }
  },
}

function checkDisk(): void {
  const needed = REQUESTS * DISK_PER_REQUEST_BYTES
  const { bavail, bsize } = statfsSync(os.tmpdir())
  if (needed > MAX_DISK_BYTES) throw new Error(`${REQUESTS} requests need more than ${MAX_DISK_BYTES / 1e9} GB`)
  if (needed * 1.5 > bavail * bsize) throw new Error(`${os.tmpdir()} has too little space for ${needed / 1e9} GB`)
}

function describe({ p95, writeUs }: Step): string {
  const texts = [...p95].map(([name, ms]) => `${name} ${ms.toFixed(1)} ms`)
  return `${texts.join(', ')}; ${writeUs.toFixed(0)} µs per request written`
}

function readFigures(steps: readonly Step[]): Figure[] {
  return reads.flatMap(({ name }) => {
    const points = steps.map(({ rows, p95 }) => ({ rows, ms: p95.get(name) ?? Number.NaN }))
    const rounds = points.map(({ ms }) => ms)
    const against = `at ${points.map(({ rows, ms }) => `${millions(rows)}: ${ms.toFixed(1)} ms`).join(', ')}`
    const measured = { name: `${name}: p95`, value: rounds.at(-1) ?? Number.NaN, unit: 'ms', rounds, against }
    if (REQUESTS < MIN_EXTRAPOLATED) return [measured]
    const goal = 'to reach: < 20 ms'
    return [measured, { name: `${name}: p95 at 100 M, extrapolated`, value: lineAt(points), unit: 'ms', against: goal }]
  })
}

function millions(rows: number): string {
  return `${Number((rows / 1e6).toPrecision(2))} M`
}

/** What was measured at full size, and from there the slope of the least-squares line; noise must not make it fall. */
function lineAt(points: ReadonlyArray<{ rows: number; ms: number }>): number {
  const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length
  const rows = mean(points.map((point) => point.rows))
  const ms = mean(points.map((point) => point.ms))
  const slope =
    points.reduce((sum, point) => sum + (point.rows - rows) * (point.ms - ms), 0) /
    points.reduce((sum, point) => sum + (point.rows - rows) ** 2, 0)
  const full = points.at(-1) ?? { rows, ms }
  return full.ms + Math.max(0, slope) * (TARGET_ROWS - full.rows)
}

function writeFigures(emptyUs: number, steps: readonly Step[]): Figure[] {
  const fullUs = steps.at(-1)?.writeUs ?? Number.NaN
  const against = `empty: ${emptyUs.toFixed(1)} µs; ${steps.map((step) => `at ${millions(step.rows)}: ${step.writeUs.toFixed(1)}`).join(', ')}`
  return [
    { name: 'CPU of PostgreSQL per request written, full table', value: fullUs, unit: 'µs', against },
    { name: 'full table to empty table', value: fullUs / emptyUs, unit: '×', against: 'to reach: flat' },
  ]
}

async function diskFigures(client: pg.Client): Promise<Figure[]> {
  const { rows } = await client.query<{ requests: number; bytes: number; ledger: number; database: number }>(
    `select (select sum(requests)::float8 from request_day) as requests,
       (select sum(pg_total_relation_size(inhrelid))::float8 from pg_inherits where inhparent = 'request'::regclass) as bytes,
       (pg_total_relation_size('posting') + pg_total_relation_size('transfer'))::float8 as ledger,
       pg_database_size(current_database())::float8 as database`,
  )
  const { requests, bytes, ledger, database } = rows[0] ?? { requests: 0, bytes: 0, ledger: 0, database: 0 }
  return [
    { name: 'disk per request, with its indexes', value: bytes / requests, unit: 'B' },
    { name: `ledger per request, ${BURST} requests per posting`, value: ledger / requests, unit: 'B' },
    { name: 'whole database', value: database / 1e9, unit: 'GB' },
  ]
}

/** Drops a week that is empty, then one that is full. */
async function retentionFigures(client: pg.Client, server: BenchServer): Promise<Figure[]> {
  const database = openDatabase({ url: server.databaseUrl, clock: systemClock, poolSize: 1 })
  const took = { empty: [] as number[], full: [] as number[] }
  let fullRows = 0
  try {
    for (;;) {
      const { rows } = await client.query<{ name: string; rows: number }>(
        `select p.name, c.reltuples::float8 as rows from request_partitions() p join pg_class c on c.relname = p.name
         order by p.until limit 1`,
      )
      const next = rows[0]
      if (next === undefined) throw new Error('no week was full')
      const startedAt = performance.now()
      await dropRequestPartition(database, systemClock.now())
      took[next.rows > 0 ? 'full' : 'empty'].push(performance.now() - startedAt)
      fullRows = next.rows
      // The first week that has rows is not complete; the second is.
      if (took.full.length === 2) break
    }
  } finally {
    await database.close()
  }
  const [value = Number.NaN] = took.full.slice(-1)
  const empty = Math.max(...took.empty.slice(-5))
  return [
    {
      name: 'retention: a full week dropped in',
      value,
      unit: 'ms',
      against: `${Math.round(fullRows).toLocaleString('en')} requests; empty weeks took up to ${empty.toFixed(1)} ms`,
    },
  ]
}

/** Proves that what was measured is a ledger and not only rows. */
async function verifyFigures(server: BenchServer): Promise<Figure[]> {
  const name = 'findings of the ledger check'
  if (REQUESTS > MAX_VERIFIED) return [{ name, value: Number.NaN, unit: '', against: 'only checked in smaller runs' }]
  const reply = await call(server.url, readKey(server, 'operator'), 'GET', '/v2/operator/ledger/verify')
  const { ok, findings } = reply.body as { ok: boolean; findings: unknown[] }
  if (!ok) throw new Error(`the ledger does not verify: ${JSON.stringify(findings.slice(0, 5))}`)
  return [{ name, value: findings.length, unit: '', against: 'to reach: 0' }]
}

/**
 * Metrics of 5,000 rentals with one GPU each: what an hour of them takes in the database, what writing and summarizing it
 * costs, and how fast a chart is read.
 */
import { openDatabase } from '../src/store/platform/database.ts'
import { addMs, HOUR_MS, instantOf, MINUTE_MS, systemClock, type Instant } from '../src/base/instant.ts'
import type { Sample } from '../src/domain/sample.ts'
import { floorTo } from '../src/domain/sample.ts'
import {
  finishHour,
  insertMinutes,
  keepMetricPartitions,
  readPoints,
  summarizeSome,
  type Minute,
} from '../src/store/rental/rental-sample.ts'
import { startServer, type Bench } from './harness.ts'

const RENTALS = 5_000
const MINUTES = 60
const READS = 200
const DAY_MINUTES = 1_440
const SAMPLES = 6
const BATCH = 5_000

export const metrics: Bench = {
  name: 'metrics',
  about: `samples and summaries of ${RENTALS} rentals`,
  run: async () => {
    const server = await startServer({ BERTH_DRIVERS: 'mock' })
    const database = openDatabase({ url: server.databaseUrl, clock: systemClock })
    try {
      const hour = addMs(floorTo(systemClock.now(), HOUR_MS), -HOUR_MS)
      const kept = { samplesFrom: addMs(hour, -HOUR_MS), summariesFrom: addMs(hour, -HOUR_MS) }
      await insertMinutes(database.db, [minuteOf(1, hour, 0)])
      await keepMetricPartitions(database, systemClock.now(), kept)
      const before = process.cpuUsage()
      const startedAt = performance.now()
      for (let minute = 0; minute < MINUTES; minute += 1) {
        const rows = Array.from({ length: RENTALS }, (_, id) => minuteOf(id + 1, hour, minute))
        await insertMinutes(database.db, rows)
      }
      const writeMs = performance.now() - startedAt
      const writeCpuMs = cpuSince(before)
      const sampleBytes = await sizeOf(database.pool, 'rental_sample')
      const summaryStart = process.cpuUsage()
      for (let after = 0; ;) {
        const last = await summarizeSome(database, hour, after, BATCH)
        if (last === undefined) break
        after = last
      }
      await finishHour(database.db, hour)
      const summaryCpuMs = cpuSince(summaryStart)
      const summaryBytes = await sizeOf(database.pool, 'rental_summary')
      const readAt = performance.now()
      for (let id = 1; id <= READS; id += 1) {
        await readPoints(database.db, id * 7, { from: hour, to: addMs(hour, HOUR_MS), fine: true }, [])
      }
      const readMs = (performance.now() - readAt) / READS
      const perDay = (bytes: number): number => (bytes / RENTALS / MINUTES) * DAY_MINUTES
      return [
        { name: 'samples of a rental and day', value: perDay(sampleBytes) / 1_000, unit: 'kB' },
        { name: 'summaries of a rental and day', value: perDay(summaryBytes) / 1_000, unit: 'kB' },
        {
          name: 'CPU of the server to write',
          value: (writeCpuMs / (MINUTES * MINUTE_MS)) * 100,
          unit: '% of one core',
        },
        { name: 'one minute of all rentals written in', value: writeMs / MINUTES, unit: 'ms' },
        { name: 'CPU to summarize an hour', value: summaryCpuMs / 1_000, unit: 's' },
        { name: 'an hour of samples read in', value: readMs, unit: 'ms' },
      ]
    } finally {
      await database.close()
      await server.stop()
    }
  },
}

function minuteOf(rentalId: number, hour: Instant, minute: number): Minute {
  const at = addMs(hour, minute * MINUTE_MS)
  const samples = Array.from({ length: SAMPLES }, (_, n): Sample => {
    const noise = (rentalId * 31 + minute * 7 + n * 13) % 100
    return {
      at: instantOf(at + n * 10_000),
      active: false,
      machine: [noise / 2, 20_000 + noise, 50_000 + minute, noise * 1_000, noise * 100],
      gpus: [{ index: 0, values: [noise, 40_000 + 16 * noise, 50 + noise / 5, 300 + noise] }],
    }
  })
  return { rentalId, node: 0, at, samples }
}

function cpuSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}

async function sizeOf(
  pool: { query(text: string, values: unknown[]): Promise<unknown> },
  table: string,
): Promise<number> {
  const sizes = (await pool.query(
    `select coalesce(sum(pg_total_relation_size(inhrelid)), 0)::float8 as bytes from pg_inherits where inhparent = $1::regclass`,
    [table],
  )) as { rows: Array<{ bytes: number }> }
  return sizes.rows[0]?.bytes ?? 0
}

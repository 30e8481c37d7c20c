/**
 * A marketplace of 100,000 machines with filters: the whole request compared with the same query on a plain connection.
 */
import pg from 'pg'
import { fetchBytes, median, startServer, type Bench } from './harness.ts'
import { fillMachines } from './fixtures.ts'

const MACHINES = 100_000
const ROUNDS = 200
/** Before those that count: a server is measured as it runs, not as it starts. */
const WARM_UP = 400

const cases = [
  {
    name: 'narrow filter, first 20',
    filters: { gpu_model: 'h100', region: 'region-15', max_price: 2.5, available_only: true },
    limit: 20,
    sql: `select * from machine where offering = 'marketplace' and listed and position(lower('h100') in lower(gpu_model)) > 0
          and gpus_free > 0 and status = 'node_ready'
          and price_nano_per_gpu_hour <= 2500000000 and region = 'region-15' order by id limit 21`,
  },
  {
    name: 'wide filter, first 100',
    filters: { gpu_model: 'a100', min_gpus_available: 4 },
    limit: 100,
    sql: `select * from machine where offering = 'marketplace' and listed and position(lower('a100') in lower(gpu_model)) > 0
          and gpus_free >= 4 order by id limit 101`,
  },
] as const

export const listing: Bench = {
  name: 'listing',
  about: `marketplace listing over ${MACHINES} machines`,
  run: async () => {
    const server = await startServer({ BERTH_DRIVERS: '' })
    const client = new pg.Client({ connectionString: server.databaseUrl })
    try {
      await fillMachines(server.databaseUrl, MACHINES)
      await client.connect()
      const figures = []
      for (const one of cases) {
        const whole: number[] = []
        const query: number[] = []
        for (let round = -WARM_UP; round < ROUNDS; round += 1) {
          const queryMs = await timed(() => client.query(one.sql))
          const wholeMs = await timed(() =>
            fetchBytes(server.url, `/v1/marketplace?limit=${one.limit}`, { filters: one.filters }),
          )
          if (round < 0) continue
          query.push(queryMs)
          whole.push(wholeMs)
        }
        figures.push(
          {
            name: `p50, ${one.name}`,
            value: median(whole),
            unit: 'ms',
            against: `the query alone: ${median(query).toFixed(1)} ms`,
          },
          { name: `ratio, ${one.name}`, value: median(whole) / median(query), unit: '×', against: 'to reach: ≤ 1.5 ×' },
        )
      }
      return figures
    } finally {
      await client.end()
      await server.stop()
    }
  },
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

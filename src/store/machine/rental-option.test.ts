import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { testDatabase, type TestDatabase } from '../../../test/harness/database.ts'
import { systemClock } from '../../base/instant.ts'
import { openDatabase, type Database } from '../platform/database.ts'
import { listOptionRows } from './rental-option.ts'

let testDb: TestDatabase
let database: Database
beforeAll(async () => {
  testDb = await testDatabase()
  database = openDatabase({ url: testDb.url, clock: systemClock, poolSize: 2 })
})
afterAll(async () => {
  await database.close()
  await testDb.drop()
})

const machine = fc.record({
  region: fc.constantFrom('eu', 'us'),
  offering: fc.constantFrom('virtual-machine', 'bare-metal'),
  gpu_type: fc.constantFrom('h100', 'h200'),
  network_type: fc.constantFrom('ethernet', 'infiniband'),
  gpus_total: fc.constantFrom(4, 8),
  sick: fc.integer({ min: 0, max: 4 }),
  status: fc.constantFrom('node_ready', 'node_draining'),
  listed: fc.boolean(),
})
type Machine = typeof machine extends fc.Arbitrary<infer T> ? T : never

const prices = ['virtual-machine', 'bare-metal'].flatMap((machine_type) =>
  ['eu', 'us'].flatMap((region) =>
    ['h100', 'h200'].flatMap((gpu_type) =>
      ['ethernet', 'infiniband'].flatMap((network_type) =>
        [1, 4, 8].map((gpu_count) => ({ machine_type, region, gpu_type, network_type, gpu_count })),
      ),
    ),
  ),
)

/** The expected result: each price with the machines that fit, in the order of ids. */
function expected(machines: readonly Machine[]) {
  return prices.flatMap((price) => {
    const fitting = machines
      .map((one, index) => ({ ...one, id: index }))
      .filter(
        (one) =>
          one.offering === price.machine_type &&
          one.region === price.region &&
          one.gpu_type === price.gpu_type &&
          one.network_type === price.network_type &&
          (price.machine_type === 'bare-metal'
            ? one.gpus_total === price.gpu_count
            : one.gpus_total >= price.gpu_count),
      )
    const [first] = fitting
    if (first === undefined) return []
    const available = fitting
      .filter((one) => one.status === 'node_ready' && one.listed)
      .reduce(
        (sum, one) => sum + Math.floor((one.gpus_total - Math.min(one.sick, one.gpus_total)) / price.gpu_count),
        0,
      )
    const gpus_total = Math.min(...fitting.map((one) => one.gpus_total))
    return { ...price, available, gpus_total, hardware: { cpuCores: first.id } }
  })
}

it('counts the machines that fit each price, for random fleets', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(machine, { maxLength: 12 }), async (machines) => {
      await sql`truncate machine, gpu_price cascade`.execute(database.db)
      await sql`insert into gpu_price (machine_type, region, gpu_type, network_type, gpu_count, nano_per_gpu_hour, updated_at)
        select p.*, 1, now() from jsonb_to_recordset(${JSON.stringify(prices)}::jsonb)
          as p (machine_type text, region text, gpu_type text, network_type text, gpu_count integer)`.execute(
        database.db,
      )
      const rows = machines.map((one, index) => ({ ...one, id: String(index).padStart(3, '0'), n: index }))
      await sql`insert into machine (id, driver, cluster_name, region, offering, status, listed, gpu_type, gpu_model,
          gpu_ram_mib, gpu_form_factor, network_type, gpus_total, gpus_sick, hardware, seen_at, created_at)
        select id, 'mock', 'c', region, offering, status, listed, gpu_type, 'X', 1, 'sxm5', network_type, gpus_total,
          array(select generate_series(0, least(sick, gpus_total) - 1)), jsonb_build_object('cpuCores', n), now(), now()
        from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as m (id text, region text, offering text, status text,
          listed boolean, gpu_type text, network_type text, gpus_total integer, sick integer, n integer)`.execute(
        database.db,
      )
      const options = await listOptionRows(database.db)
      const facts = options.map(
        ({ machine_type, region, gpu_type, network_type, gpu_count, available, gpus_total, hardware }) => ({
          machine_type,
          region,
          gpu_type,
          network_type,
          gpu_count,
          available,
          gpus_total,
          hardware,
        }),
      )
      expect(facts).toHaveLength(expected(machines).length)
      expect(facts).toEqual(expect.arrayContaining(expected(machines)))
    }),
    { numRuns: 25 },
  )
})

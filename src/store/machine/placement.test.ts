/** The database reads for an order exactly what the rules of placement accept. */
import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openAccount, openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import { toDate } from '../../base/instant.ts'
import { usd } from '../../base/money.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import { rejectionOf, type Demand } from '../../domain/placement.ts'
import { transact } from '../platform/database.ts'
import { placeAlone } from '../rental/order.ts'
import { findFull, listAllMachines, listPlaceable } from './placement.ts'

const MACHINES = 500
const drivers: readonly ProviderId[] = ['mock', 'host']
let ledger: TestLedger

beforeAll(async () => {
  ledger = await openTestLedger()
  const rows = fc.sample(anyMachine, { numRuns: MACHINES, seed: 51 })
  await ledger.database.db
    .insertInto('machine')
    .values(
      rows.map((row, n) => ({ ...row, id: `m-${n}`, offer_id: row.offer_id === null ? null : `o:${row.offer_id}` })),
    )
    .execute()
})
afterAll(() => ledger.close())

const anyMachine = fc
  .record({
    driver: fc.constantFrom<ProviderId>('mock', 'host', 'verda'),
    cluster_name: fc.constantFrom('one', 'two'),
    region: fc.constantFrom('here', 'here', 'here', 'there'),
    offering: fc.constantFrom('virtual-machine' as const, 'bare-metal' as const),
    status: fc.constantFrom('node_ready' as const, 'node_ready' as const, 'node_draining' as const),
    listed: fc.constantFrom(true, true, true, false),
    gpu_type: fc.constantFrom('h100' as const, 'h100' as const, 'h200' as const),
    gpus_total: fc.constantFrom(2, 4, 8),
    sick: fc.constantFrom(0, 0, 0, 1, 3, 8),
    offer_id: fc.constantFrom(null, null, 'cheap:x', 'dear:y'),
    sold_whole: fc.boolean(),
    cost_nano_per_gpu_hour: fc.constantFrom(null, usd('1'), usd('3')),
    sells_below_cost: fc.constantFrom(false, false, true),
    asking_nano_per_gpu_hour: fc.constantFrom(null, null, usd('4')),
    disk_claimed_gb: fc.constantFrom(0, 0, 700, 995),
  })
  .map(({ sick, ...row }) => ({
    ...row,
    gpu_model: 'NVIDIA H100',
    gpu_ram_mib: 81_920,
    gpu_form_factor: 'sxm5' as const,
    network_type: 'ethernet' as const,
    gpus_sick: Array.from({ length: Math.min(sick, row.gpus_total) }, (_, i) => i),
    hardware: JSON.stringify({ cpuModel: 'x', cpuCores: 8, virtualCores: 16, ramGb: 64, storageGb: 1_000 }),
    seen_at: toDate(ledger.clock.now()),
    created_at: toDate(ledger.clock.now()),
  }))

const anyDemand: fc.Arbitrary<Demand> = fc.record({
  machineType: fc.constantFrom('virtual-machine' as const, 'bare-metal' as const),
  region: fc.constantFrom('here', 'here', 'there'),
  gpuType: fc.constantFrom('h100' as const, 'h100' as const, 'h200' as const),
  networkType: fc.constant('ethernet' as const),
  gpuCount: fc.constantFrom(1, 1, 2, 4, 8, 16),
  machineGpus: fc.constantFrom(null, 4, 8),
  diskGb: fc.constantFrom(null, null, 100, 300),
  pays: fc.constantFrom(null, usd('2')),
})

test('reads exactly the machines with room that no rule rejects', async () => {
  const { db } = ledger.database
  const all = await listAllMachines(db, MACHINES)
  let listedCount = 0
  await fc.assert(
    fc.asyncProperty(anyDemand, fc.constantFrom(undefined, undefined, 'cheap'), async (demand, account) => {
      const refusedBy = ['o:dear:y', 'm-7']
      const listed = await listPlaceable(db, demand, drivers, { account, refusedBy })
      const within = all
        .filter(
          ({ offerId, machineId }) =>
            !refusedBy.includes(offerId ?? machineId) && (account === undefined || offerId === 'o:cheap:x'),
        )
        .map((one) => (account === undefined ? one : { ...one, asking: null }))
      const fit = within.filter((one) => rejectionOf(one, demand, new Set(drivers)) === undefined)
      const ids = (machines: ReadonlyArray<{ readonly machineId: string }>) =>
        machines.map((one) => one.machineId).sort()
      expect(ids(listed)).toEqual(ids(fit))
      listedCount += listed.length
      // Without room it still tells that such machines exist, and only then.
      const full = ['too_few_free', 'not_whole', 'sick_gpus', 'no_disk', undefined]
      const isSold = within.some((one) => full.includes(rejectionOf(one, demand, new Set(drivers))?.reason))
      expect((await findFull(db, demand, drivers, { account, refusedBy })) !== undefined).toBe(isSold)
    }),
    { numRuns: 100, seed: 51 },
  )
  expect(listedCount).toBeGreaterThan(100)
})

test('an order takes the next place while another transaction has the first one locked, and waits for its only one', async () => {
  const { database, clock } = ledger
  const actor = await openAccount(ledger, 'busy', usd('100'))
  const order = (ids: readonly string[]) => ({
    spec: {
      kind: 'virtual-machine',
      label: null,
      region: 'here',
      gpuType: 'h100',
      gpuCount: 1,
      networkType: 'ethernet',
      driver: 'mock',
      monitoringEnabled: null,
      resources: { storageGb: 1 },
    } as never,
    term: { termType: 'on-demand', effectiveAt: clock.now(), costPerHour: usd('2'), commitment: null } as never,
    guards: { autoTerminateAt: null, spendingLimit: null, maxCostPerHour: null },
    places: ids.map((machineId) => ({ clusterName: 'one', machines: [{ machineId, gpus: 1 }] })),
    summary: { gpus: '', where: '' },
    ssh: 'none' as const,
    mounts: [],
    stopAt: null,
    idle: null,
    secretNames: [],
    metadata: null,
    interruptible: null,
    interruption: null,
  })
  const place = async (ids: readonly string[]) => {
    const given = { payer: actor, order: order(ids), needsSshKey: false }
    const answer = await transact(database, (tx) => placeAlone(tx, given))
    return answer.outcome === 'placed' ? answer.rental.spec.nodes[0]?.machineId : answer.outcome
  }
  const free = (await listAllMachines(database.db, MACHINES)).filter(
    ({ gpusFree, diskGbPerGpu, status, listed }) =>
      gpusFree > 0 && diskGbPerGpu > 10 && status === 'node_ready' && listed,
  )
  const [first, second] = [free[0]?.machineId ?? '', free[1]?.machineId ?? '']
  let waiting: Promise<string | undefined> | undefined
  await transact(database, async (tx) => {
    await sql`select 1 from machine where id = ${first} for update`.execute(tx.db)
    expect(await place([first, second])).toBe(second)
    waiting = place([first])
    await expect.poll(isWaiting).toBe(true)
  })
  expect(await waiting).toBe(first)
})

async function isWaiting(): Promise<boolean> {
  const { rows } = await sql`select 1 from pg_locks where not granted and locktype in ('transactionid', 'tuple')
    and pid in (select pid from pg_stat_activity where datname = current_database())`.execute(ledger.database.db)
  return rows.length > 0
}

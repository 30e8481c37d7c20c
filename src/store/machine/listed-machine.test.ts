/** The listing: every combination of filters finds the right machines, planned once or each time. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openAccount, openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import { nanoUsdOf, usd } from '../../base/money.ts'
import type { MarketplaceFilters } from '../../contract/marketplace.ts'
import { mockFleet } from '../../drivers/mock/fleet.ts'
import { transact } from '../platform/database.ts'
import { listMarketplace } from './listed-machine.ts'
import { changeMachine, saveInventory, type ReportedMachine } from './machine.ts'

const [sample] = mockFleet().filter(({ offering }) => offering === 'marketplace')
if (sample === undefined) throw new Error('the simulated fleet has changed')
const common = { ...sample, simulation: null, offerId: null, soldWhole: false, cost: null, gpusSick: [] }

/** Machine `n` differs from machine 0 in the filters whose bit is set; the filters are those of machine 0. */
const filters = {
  gpu_model: 'h100',
  min_gpus_available: 8,
  max_price: 2.5,
  region: 'oslo',
  cluster_name: 'fjord',
  supplier_id: 'acc_supplier',
  has_persistent_storage: true,
  min_gpu_ram: 80_000,
  available_only: true,
} satisfies MarketplaceFilters
const names = Object.keys(filters) as ReadonlyArray<keyof typeof filters>
const hasBit = (n: number, name: keyof typeof filters): boolean => ((n >> names.indexOf(name)) & 1) === 1
const combinations = Array.from({ length: 2 ** names.length }, (_, n) => n)
const idOf = (n: number): string => `machine-${String(n).padStart(3, '0')}`

let ledger: TestLedger
beforeAll(async () => {
  ledger = await openTestLedger()
  const machines = combinations.map((n): ReportedMachine => ({
    ...common,
    id: idOf(n),
    gpuModel: hasBit(n, 'gpu_model') ? 'NVIDIA A100' : 'NVIDIA H100 80GB HBM3',
    gpusTotal: hasBit(n, 'min_gpus_available') ? 4 : 8,
    price: hasBit(n, 'max_price') ? nanoUsdOf(usd('2.5') + 1n) : usd('2.5'),
    region: hasBit(n, 'region') ? 'riga' : 'oslo',
    clusterName: hasBit(n, 'cluster_name') ? 'coast' : 'fjord',
    supplierId: null,
    hasPersistentStorage: !hasBit(n, 'has_persistent_storage'),
    gpuRamMib: hasBit(n, 'min_gpu_ram') ? 79_999 : 80_000,
  }))
  const { accountId: supplierId } = await openAccount(ledger, 'supplier')
  await transact(ledger.database, async (tx) => {
    await saveInventory(tx, 'mock', machines, tx.clock.now())
    for (const n of combinations) {
      await changeMachine(tx, idOf(n), {
        ...(hasBit(n, 'supplier_id') ? {} : { supplierId }),
        ...(hasBit(n, 'available_only') ? { status: 'node_draining' as const } : {}),
      })
    }
  })
})
afterAll(() => ledger.close())

test('each combination of filters finds the machines that match all of them', async () => {
  for (const combination of combinations) {
    const chosen = names.filter((name) => hasBit(combination, name))
    const given = Object.fromEntries(chosen.map((name) => [name, filters[name]])) as MarketplaceFilters
    const machines = await listMarketplace(ledger.database.db, given, { limit: 1_000 })
    expect([chosen, machines.map(({ id }) => id)]).toEqual([
      chosen,
      combinations.filter((n) => (n & combination) === 0).map(idOf),
    ])
  }
})

test('a page starts after the last machine of the one before', async () => {
  const ids: string[] = []
  for (;;) {
    const after = ids.at(-1)
    const page = { limit: 100, ...(after === undefined ? {} : { after }) }
    const machines = await listMarketplace(ledger.database.db, {}, page)
    if (machines.length === 0) break
    ids.push(...machines.map(({ id }) => id))
  }
  expect(ids).toEqual(combinations.map(idOf))
})

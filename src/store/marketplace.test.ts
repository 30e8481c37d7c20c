/** Browsing the marketplace: every filter, every order, and pages that contain each machine once. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestLedger, type TestLedger } from '../../test/harness/ledger.ts'
import { usd } from '../base/money.ts'
import { marketplaceSorts } from '../contract/marketplace-search.ts'
import { mockFleet } from '../engines/mock/fleet.ts'
import { transact } from './database.ts'
import { changeMachine, saveInventory, type ReportedMachine } from './machine.ts'
import { countMarketplace, searchMarketplace, type MachineSearch } from './marketplace.ts'

const [machine] = mockFleet().filter(({ offering }) => offering === 'marketplace')
const virtual = mockFleet().find(({ offering }) => offering === 'virtual-machine')
if (machine === undefined) throw new Error('the simulated fleet has changed')
const base: ReportedMachine = {
  ...machine,
  supplierId: null,
  simulation: 'machine',
  price: usd('2'),
  offerId: null,
  soldWhole: false,
  cost: null,
  gpusTotal: 8,
  gpusSick: [],
}
const machines: readonly ReportedMachine[] = [
  { ...base, id: 'a', region: 'oslo', gpuModel: 'NVIDIA-GeForce-RTX-4090', price: usd('0.39'), clusterName: 'Fjord' },
  { ...base, id: 'b', region: 'oslo', gpuModel: 'NVIDIA-H100-SXM5-80GB', price: usd('2.5'), gpusTotal: 2 },
  { ...base, id: 'c', region: 'riga', gpuModel: 'NVIDIA-H100-SXM5-80GB', price: usd('2.4'), gpusSick: [0] },
  { ...base, id: 'd', region: 'riga', gpuModel: 'AMD-MI300X', price: usd('2.4') },
  { ...base, id: 'drained', region: 'riga', gpuModel: 'AMD-MI300X', price: usd('9') },
  { ...base, id: 'off-sale' },
  { ...base, ...virtual, id: 'not-here', price: null },
]

let ledger: TestLedger
beforeAll(async () => {
  ledger = await openTestLedger()
  await transact(ledger.database, async (tx) => {
    await saveInventory(tx, 'mock', machines, tx.clock.now())
    await changeMachine(tx, 'off-sale', { listed: false })
    await changeMachine(tx, 'drained', { status: 'node_draining' })
  })
})
afterAll(() => ledger.close())

const find = (search: MachineSearch, page: Partial<Parameters<typeof searchMarketplace>[2]> = {}) =>
  searchMarketplace(ledger.database.db, search, { sort: 'price', down: false, offset: 0, limit: 100, ...page })
const idsOf = async (...input: Parameters<typeof find>) => (await find(...input)).machines.map(({ id }) => id)

describe('a search', () => {
  test.each<[MachineSearch, readonly string[]]>([
    [{}, ['a', 'c', 'd', 'b', 'drained']],
    [{ gpu: 'rtx4090' }, ['a']],
    [{ gpu: 'H100-sxm5' }, ['c', 'b']],
    [{ gpu: 'GeForce' }, []],
    [{ free: 8 }, ['a', 'd']],
    [{ price: 2.4 }, ['a', 'c', 'd']],
    [{ region: 'riga' }, ['c', 'd', 'drained']],
    [{ text: 'FJORD  4090' }, ['a']],
    [{ text: 'fjord h100' }, []],
    [{ text: '100%' }, []],
  ])('for %j finds %j', async (search, ids) => {
    const found = await find(search)
    expect(found.machines.map(({ id }) => id)).toEqual(ids)
    expect(found.matches).toBe(ids.length)
  })

  test('shows no free GPUs of a machine that accepts no tenants', async () => {
    const { machines: found } = await find({})
    expect(found.map(({ id, free }) => [id, free])).toEqual([
      ['a', 8],
      ['c', 7],
      ['d', 8],
      ['b', 2],
      ['drained', 0],
    ])
  })

  test.each(marketplaceSorts)('by %s: pages of two contain every machine once, in both directions', async (sort) => {
    for (const down of [false, true]) {
      const whole = await idsOf({}, { sort, down })
      const pages = await Promise.all([0, 2, 4, 6].map((offset) => idsOf({}, { sort, down, offset, limit: 2 })))
      expect(pages.flat()).toEqual(whole)
      expect(whole.toSorted()).toEqual(['a', 'b', 'c', 'd', 'drained'])
    }
  })

  test('sorts equal machines by name, and text by its letters', async () => {
    expect(await idsOf({}, { sort: 'region', down: true })).toEqual(['c', 'd', 'drained', 'a', 'b'])
    expect(await idsOf({}, { sort: 'gpu' })).toEqual(['d', 'drained', 'b', 'c', 'a'])
  })
})

test('counts the machines on sale, by model and region', async () => {
  expect(await countMarketplace(ledger.database.db, 2)).toEqual({
    machines: 5,
    gpuModels: [
      { name: 'AMD-MI300X', machines: 2 },
      { name: 'NVIDIA-GeForce-RTX-4090', machines: 1 },
    ],
    regions: [
      { name: 'oslo', machines: 2 },
      { name: 'riga', machines: 3 },
    ],
  })
})

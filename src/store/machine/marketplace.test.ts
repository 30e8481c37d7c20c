/** Browsing the marketplace: every filter, every order, and pages that contain each machine once. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import { addMs, DAY_MS } from '../../base/instant.ts'
import { usd } from '../../base/money.ts'
import { marketplaceSorts } from '../../contract/choices.ts'
import { mockFleet } from '../../drivers/mock/fleet.ts'
import { transact } from '../platform/database.ts'
import { changeMachine, saveInventory, type ReportedMachine } from './machine.ts'
import { lookAtMachines } from './machine-uptime.ts'
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
  searchMarketplace(ledger.database.db, search, {
    sort: 'price',
    down: false,
    offset: 0,
    limit: 100,
    grouped: false,
    ...page,
  })
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
    const result = await find(search)
    expect(result.machines.map(({ id }) => id)).toEqual(ids)
    expect(result.matches).toBe(ids.length)
  })

  test('shows no free GPUs of a machine that accepts no tenants', async () => {
    const { machines } = await find({})
    expect(machines.map(({ id, free }) => [id, free])).toEqual([
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

describe('machines that are the same offer', () => {
  test('are one row, with the free GPUs of all of them', async () => {
    const alike = (id: string) => ({ ...base, id, region: 'bergen', gpuModel: 'AMD-MI250' })
    const reported = [
      { ...alike('e1'), gpusSick: [0] },
      alike('e2'),
      alike('e3'),
      { ...alike('e4'), price: usd('2.1') },
    ]
    await transact(ledger.database, (tx) => saveInventory(tx, 'mock', [...machines, ...reported], tx.clock.now()))
    const search = { region: 'bergen' }
    const result = await find(search, { grouped: true })
    expect(result.matches).toBe(2)
    expect(result.machines.map(({ id, free, alike: same, alike_free: all }) => ({ id, free, same, all }))).toEqual([
      { id: 'e2', free: 8, same: 3, all: 23 },
      { id: 'e4', free: 8, same: 1, all: 8 },
    ])
    expect(await idsOf(search, { grouped: true, offset: 1 })).toEqual(['e4'])
    expect(await idsOf(search)).toEqual(['e1', 'e2', 'e3', 'e4'])
    await transact(ledger.database, (tx) => saveInventory(tx, 'mock', machines, tx.clock.now()))
    await ledger.database.db.deleteFrom('machine').where('id', 'like', 'e_').execute()
  })
})

test('shows the share of the last 30 days in which a machine was online', async () => {
  const { db, clock } = ledger.database
  const uptimes = async () => (await find({ region: 'oslo' })).machines.map(({ uptime_percent: uptime }) => uptime)
  expect(await uptimes()).toEqual([null, null])
  const long = addMs(clock.now(), -40 * DAY_MS)
  await lookAtMachines(db, long)
  const lose = (status: 'node_lost' | 'node_ready') =>
    transact(ledger.database, (tx) => changeMachine(tx, 'a', { status }))
  await lose('node_lost')
  for (const days of [2, 1, 0]) {
    if (days === 1) await lose('node_ready')
    await lookAtMachines(db, addMs(clock.now(), -days * DAY_MS))
  }
  // Two of three looks; the one of forty days ago is deleted.
  expect(await uptimes()).toEqual([66.6, 100])
})

test('counts the machines on sale, by model and region', async () => {
  const model = { gpu_ram_mib: base.gpuRamMib, regions: 1 }
  expect(await countMarketplace(ledger.database.db, 2)).toEqual({
    machines: 5,
    gpuModels: [
      // The drained machine at $9 has no free GPUs.
      { ...model, name: 'AMD-MI300X', machines: 2, gpus_free: 8, gpus_total: 16, from_price: usd('2.4') },
      {
        ...model,
        name: 'NVIDIA-GeForce-RTX-4090',
        machines: 1,
        gpus_free: 8,
        gpus_total: 8,
        from_price: usd('0.39'),
      },
    ],
    regions: [
      { name: 'oslo', machines: 2 },
      { name: 'riga', machines: 3 },
    ],
  })
})

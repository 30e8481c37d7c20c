/** A supplier's hosts and machines as one list, with totals. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { testOffer } from '../../../test/harness/host-sockets.ts'
import { openAccount, openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import { addMs, HOUR_MS, toDate } from '../../base/instant.ts'
import { usd } from '../../base/money.ts'
import { SILENT_MS, type HostState } from '../../domain/host.ts'
import { mockFleet } from '../../drivers/mock/fleet.ts'
import { transact } from '../platform/database.ts'
import { changeMachine, listFleet, saveInventory, type ReportedMachine } from './machine.ts'
import { listSupply, sumSupply } from './supply.ts'

const [machine] = mockFleet().filter(({ offering }) => offering === 'marketplace')
if (machine === undefined) throw new Error('the simulated fleet has changed')

let ledger: TestLedger
let own: string
beforeAll(async () => {
  ledger = await openTestLedger()
  own = (await openAccount(ledger, 'own')).accountId
  const other = (await openAccount(ledger, 'other')).accountId
  const reported = (id: string, supplierId: string | null, more: Partial<ReportedMachine> = {}): ReportedMachine => ({
    ...machine,
    id,
    supplierId,
    simulation: null,
    price: usd('2'),
    offerId: null,
    soldWhole: false,
    cost: null,
    gpusTotal: 8,
    gpusSick: [],
    ...more,
  })
  await addHost('both', own)
  await addHost('fresh', own)
  await addHost('gone', own, 'left')
  await addHost('silent', own, 'ready', SILENT_MS + 1)
  await addHost('theirs', other)
  await addHost('house', null)
  await transact(ledger.database, async (tx) => {
    const machines = [
      reported('both', own),
      reported('engine', own, { gpusSick: [1] }),
      reported('silent', own),
      reported('off-sale', own),
      reported('theirs', other),
      reported('house', null),
      reported('cloud', null),
    ]
    await saveInventory(tx, 'mock', machines, tx.clock.now())
    await changeMachine(tx, 'engine', { gpusWithdrawn: [1, 2] })
    await changeMachine(tx, 'off-sale', { listed: false })
  })
})
afterAll(() => ledger.close())

async function addHost(id: string, supplier: string | null, state: HostState = 'ready', silentMs = 0): Promise<void> {
  const now = ledger.clock.now()
  await ledger.database.db
    .insertInto('host')
    .values({
      id,
      driver: 'host',
      public_key: `key-${id}`,
      offer: JSON.stringify({ ...testOffer, gpusTotal: 4, gpusSick: [3] }),
      supplier_id: supplier,
      state,
      seen_at: toDate(addMs(now, -silentMs)),
      created_at: toDate(id === 'fresh' ? now : addMs(now, -HOUR_MS)),
    })
    .execute()
}

const list = async (query: Partial<Parameters<typeof listSupply>[2]> = {}) =>
  (await listSupply(ledger.database.db, own, { limit: 100, ...query })).map(({ id, host, machine: listed }) => [
    id,
    host !== undefined,
    listed !== undefined,
  ])

test('pairs hosts and machines of the same name, and leaves out those of others and those that left', async () => {
  const all = [
    ['both', true, true],
    ['engine', false, true],
    ['fresh', true, false],
    ['off-sale', false, true],
    ['silent', true, true],
  ]
  expect(await list()).toEqual(all)
  expect([...(await list({ limit: 2 })), ...(await list({ after: 'engine' }))]).toEqual(all)
  expect((await list({ left: true })).map(([id]) => id)).toContain('gone')
})

test('finds by a part of the name, and by the time of joining', async () => {
  expect((await list({ q: 'EN' })).map(([id]) => id)).toEqual(['engine', 'silent'])
  expect((await list({ joinedAfter: ledger.clock.now() })).map(([id]) => id)).toEqual(['fresh'])
  expect(await list({ q: '%' })).toEqual([])
})

test('the operator has the hosts without a supplier and their machines, not those of engines without hosts (issue 31, 10)', async () => {
  const supply = await listSupply(ledger.database.db, null, { limit: 100 })
  expect(supply.map(({ id, machine: listed }) => [id, listed?.gpus_total])).toEqual([['house', 8]])
  const fleet = await listFleet(ledger.database.db, { supplierId: null, limit: 100 })
  expect(fleet.map(({ id }) => id)).toEqual(['house'])
  expect(await sumSupply(ledger.database.db, null, ledger.clock.now())).toMatchObject({
    machines: 1,
    onSale: 1,
    gpus: 8,
  })
})

test('totals count every page, and on sale only what can be rented', async () => {
  expect(await sumSupply(ledger.database.db, own, ledger.clock.now())).toEqual({
    machines: 5,
    // A silent host accepts no tenants.
    onSale: 2,
    gpus: 4 * 8 + 4,
    gpusRented: 0,
    gpusFaulty: 2 + 1,
    tenants: 0,
    left: 1,
  })
  expect(await sumSupply(ledger.database.db, 'nobody', ledger.clock.now())).toMatchObject({ machines: 0, gpus: 0 })
})

/** Reports of providers against rentals and the decisions of operators. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { mockFleet } from '../../drivers/mock/fleet.ts'
import { usd } from '../../base/money.ts'
import { openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import { transact } from '../platform/database.ts'
import { changeMachine, findMachine, saveInventory, type ReportedMachine } from './machine.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await openTestLedger()
})
afterAll(() => ledger.close())

const machine = mockFleet().find((one) => one.offering === 'marketplace' && one.gpusTotal === 8)
if (machine === undefined) throw new Error('the simulated fleet has changed')
const reported: ReportedMachine = {
  ...machine,
  supplierId: null,
  simulation: 'machine',
  price: usd('2'),
  offerId: null,
  soldWhole: false,
  cost: null,
}

const report = (machines: readonly ReportedMachine[]) =>
  transact(ledger.database, (tx) => saveInventory(tx, 'mock', machines, tx.clock.now()))
const read = async () => findMachine(ledger.database.db, reported.id)

test('marks an unreported machine lost and a reported one ready again; a drained one stays drained', async () => {
  await report([reported])
  expect(await read()).toMatchObject({ status: 'node_ready', gpus_free: 8 })
  await report([])
  expect(await read()).toMatchObject({ status: 'node_lost' })
  await report([reported])
  expect(await read()).toMatchObject({ status: 'node_ready' })
  await transact(ledger.database, (tx) => changeMachine(tx, reported.id, { status: 'node_draining' }))
  await report([])
  await report([reported])
  expect(await read()).toMatchObject({ status: 'node_draining' })
})

test('takes the price from the first report only', async () => {
  await transact(ledger.database, (tx) => changeMachine(tx, reported.id, { price: usd('3') }))
  await report([{ ...reported, price: usd('1') }])
  expect(await read()).toMatchObject({ price_nano_per_gpu_hour: usd('3') })
})

test('sick, withdrawn and missing GPUs are not free, and keep their numbers', async () => {
  await report([{ ...reported, gpusSick: [1] }])
  expect(await read()).toMatchObject({ gpus_total: 8, gpus_sick: [1], gpus_free: 7 })
  await transact(ledger.database, (tx) => changeMachine(tx, reported.id, { gpusWithdrawn: [1, 2] }))
  expect(await read()).toMatchObject({ gpus_free: 6 })
  await report([{ ...reported, gpusTotal: 4 }])
  expect(await read()).toMatchObject({ gpus_total: 8, gpus_sick: [4, 5, 6, 7], gpus_withdrawn: [1, 2], gpus_free: 2 })
  await report([reported])
  expect(await read()).toMatchObject({ gpus_sick: [], gpus_free: 6 })
})

/** A broken GPU costs its tenant nothing from the instant of its fault, to the nano-dollar, whatever its host reports. */
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { EventType } from '../../contract/event-type.ts'
import { addMs, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, toDate, type Instant } from '../../base/instant.ts'
import { costOfSpan, nanoUsdOf, shareOf, sumUsd, usd } from '../../base/money.ts'
import { mockFleet } from '../../drivers/mock/fleet.ts'
import { saveInventory, type ReportedMachine } from '../../store/machine/machine.ts'
import { transact } from '../../store/platform/database.ts'
import { readBalances } from '../../store/ledger/ledger.ts'
import { listSegments } from '../../store/ledger/segment.ts'
import {
  openAccount,
  openTestLedger,
  endRental,
  settle,
  startRental,
  stopRental,
} from '../../../test/harness/ledger.ts'
import type { RentalOrder, TestLedger } from '../../../test/harness/ledger.ts'
import { verifyLedger } from '../money/ledger-verify.ts'
import { applyGpuFaults } from './gpu-fault.ts'

/** Of a rental with eight GPUs: one dollar for each. */
const PRICE = usd('8')
const SESSION = '00000000-0000-4000-8000-000000000001'
const XID = 'the driver reported Xid 79 (fallen off the bus)'

let ledger: TestLedger
let rentals = 0
beforeAll(async () => {
  ledger = await openTestLedger()
})
afterAll(() => ledger.close())

/** A rental of the eight GPUs of a host of its own. */
async function rentHost(order: Partial<RentalOrder> = {}) {
  rentals += 1
  const hostId = `host-${rentals}`
  const actor = await openAccount(ledger, `tenant${rentals}`, usd('1000'))
  const now = ledger.clock.now()
  const { db } = ledger.database
  const host = { id: hostId, driver: 'host', public_key: hostId, offer: '{}', session: SESSION } as const
  await db
    .insertInto('host')
    .values({ ...host, created_at: toDate(now) })
    .execute()
  await transact(ledger.database, (tx) => saveInventory(tx, 'host', [machineNamed(hostId)], now))
  const id = await startRental(ledger, actor, { pricePerHour: PRICE, ...order })
  await sql`select claim_gpus(${hostId}, 8, ${id}, ${toDate(now)})`.execute(db)
  const metered = { rentalId: id, volumeId: null }
  return {
    id,
    actor,
    report: (faults: ReadonlyArray<{ index: number; at: Instant }>, session = SESSION) =>
      applyGpuFaults(
        ledger.app,
        hostId,
        session,
        faults.map((fault) => ({ ...fault, message: XID })),
      ),
    settle: () => settle(ledger, metered),
    /** Minutes and price of each segment; an open one has no length. */
    segments: async () =>
      (await listSegments(db, id)).map((one) => [
        one.ended_at === null ? null : (one.ended_at - one.started_at) / MINUTE_MS,
        one.price_nano_per_hour,
      ]),
    charged: async () => sumUsd((await listSegments(db, id)).map(({ settled_nano }) => settled_nano)),
    events: async (type: EventType) =>
      (
        await db
          .selectFrom('event')
          .select('data')
          .where('subject_id', '=', String(id))
          .where('type', '=', type)
          .execute()
      ).map(({ data }) => data),
  }
}

const eightGpus = mockFleet().find((one) => one.offering === 'marketplace' && one.gpusTotal === 8)
if (eightGpus === undefined) throw new Error('the simulated fleet has changed')

function machineNamed(id: string): ReportedMachine {
  const own = { id, gpusSick: [], supplierId: null, simulation: 'machine', price: usd('1') } as const
  return { ...eightGpus, ...own, offerId: null, soldWhole: false, cost: null } as ReportedMachine
}

async function expectSoundLedger(): Promise<void> {
  const verdict = await verifyLedger(ledger.app)
  expect(verdict.ok && verdict.value.findings).toEqual([])
}

test('promise 43: a GPU costs nothing from the time of a fatal fault, and its tenant is told', async () => {
  const rental = await rentHost()
  ledger.clock.advance(10 * MINUTE_MS)
  const faultAt = ledger.clock.now()
  ledger.clock.advance(15 * SECOND_MS)
  await rental.report([{ index: 3, at: faultAt }])
  // Repeated, by an older connection, and again: nothing changes.
  await rental.report([{ index: 3, at: faultAt }])
  await rental.report([], '00000000-0000-4000-8000-000000000002')
  await rental.report([{ index: 3, at: addMs(faultAt, -HOUR_MS) }])
  expect(await rental.segments()).toEqual([
    [10, PRICE],
    [null, usd('7')],
  ])
  expect(await rental.events('rental.gpu_fault')).toMatchObject([
    { gpu: 3, at: new Date(faultAt).toISOString(), detail: XID, costPerHourUsd: '7.000000000' },
  ])
  const notices = await ledger.database.db.selectFrom('notification').selectAll().execute()
  expect(notices.filter(({ account_id }) => account_id === rental.actor.accountId)).toMatchObject([
    { kind: 'rental_gpu' },
  ])
  ledger.clock.advance(20 * MINUTE_MS - 15 * SECOND_MS)
  await endRental(ledger, rental.id)
  expect(await rental.charged()).toBe(costOfSpan(PRICE, 10 * MINUTE_MS) + costOfSpan(usd('7'), 20 * MINUTE_MS))
  await expectSoundLedger()
})

test('promise 43: time that was charged before the report is taken back, also from the supplier', async () => {
  const supplier = await openAccount(ledger, 'supplier43')
  const feeBp = 1_500
  const rental = await rentHost({ supplier: { accountId: supplier.accountId, platformFeeBp: feeBp } })
  ledger.clock.advance(10 * MINUTE_MS)
  const faultAt = ledger.clock.now()
  ledger.clock.advance(7 * SECOND_MS)
  await rental.settle()
  ledger.clock.advance(3 * SECOND_MS)
  await rental.report(Array.from({ length: 8 }, (_, index) => ({ index, at: faultAt })))
  const charged = costOfSpan(PRICE, 10 * MINUTE_MS)
  expect(await rental.charged()).toBe(charged)
  expect((await rental.segments()).at(-1)).toEqual([null, 0n])
  ledger.clock.advance(DAY_MS)
  await rental.settle()
  await endRental(ledger, rental.id)
  const { db } = ledger.database
  expect(await readBalances(db, rental.actor.accountId)).toMatchObject({ available: usd('1000') - charged, held: 0n })
  expect((await readBalances(db, supplier.accountId)).earnings).toBe(shareOf(charged, 10_000 - feeBp))
  await expectSoundLedger()
})

test('a host cannot undo more than an hour, nor take money that its supplier was paid', async () => {
  const supplier = await openAccount(ledger, 'paidout')
  const rental = await rentHost({ supplier: { accountId: supplier.accountId, platformFeeBp: 1_500 } })
  const startedAt = ledger.clock.now()
  for (let hours = 0; hours < 5; hours += 1) {
    ledger.clock.advance(HOUR_MS)
    await rental.settle()
  }
  await rental.report([{ index: 0, at: startedAt }])
  expect(await rental.segments()).toEqual([
    [240, PRICE],
    [null, usd('7')],
  ])
  await rental.settle()
  const { earnings } = await readBalances(ledger.database.db, supplier.accountId)
  await sql`select ledger_post('payout:43', 'payout', ${toDate(ledger.clock.now())}, ${supplier.accountId}, 'Payout', 'test', 'test',
    null, null, null, null, array[ledger_account_id(${supplier.accountId}, 'earnings')], array[ledger_account_id(null, 'payouts')],
    array[${earnings.toString()}::bigint])`.execute(ledger.database.db)
  await rental.report([0, 1].map((index) => ({ index, at: addMs(ledger.clock.now(), -30 * MINUTE_MS) })))
  expect(await rental.segments()).toEqual([
    [240, PRICE],
    [60, usd('7')],
    [null, usd('6')],
  ])
  await endRental(ledger, rental.id)
  await expectSoundLedger()
})

test('the full price is back when the GPU works again, and after a stop', async () => {
  const rental = await rentHost()
  ledger.clock.advance(MINUTE_MS)
  const at = ledger.clock.now()
  await rental.report([
    { index: 0, at },
    { index: 5, at },
  ])
  ledger.clock.advance(MINUTE_MS)
  await rental.report([{ index: 5, at }])
  expect(await rental.events('rental.gpu_recovered')).toMatchObject([{ gpu: 0, costPerHourUsd: '7.000000000' }])
  const open = (await rental.segments()).at(-1)
  expect(open).toEqual([null, usd('7')])
  await stopRental(ledger, rental.id)
  const { db } = ledger.database
  expect(await db.selectFrom('gpu_claim').selectAll().where('rental_id', '=', rental.id).execute()).toEqual([])
  await endRental(ledger, rental.id)
  await expectSoundLedger()
})

test('a reserved rental with a broken GPU can be ended without the price of an early end', async () => {
  const reserved = [{ termPeriodDays: 1, discountPercentage: 50 }]
  const rental = await rentHost({ reserved })
  ledger.clock.advance(HOUR_MS)
  await rental.settle()
  await rental.report([{ index: 7, at: addMs(ledger.clock.now(), -MINUTE_MS) }])
  await expectSoundLedger()
  ledger.clock.advance(HOUR_MS)
  await endRental(ledger, rental.id)
  const half = nanoUsdOf(PRICE / 2n)
  expect(await rental.charged()).toBe(
    costOfSpan(half, 59 * MINUTE_MS) + costOfSpan(nanoUsdOf((half * 7n) / 8n), 61 * MINUTE_MS),
  )
  await expectSoundLedger()
})

/** Earnings per day and per machine equal the ledger to the nano-dollar, and times add up. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  endRental,
  openAccount,
  openTestLedger,
  settle,
  startRental,
  type TestLedger,
} from '../../../test/harness/ledger.ts'
import { DAY_MS, HOUR_MS, instantOf } from '../../base/instant.ts'
import { nanoUsdOf, shareOf, sumUsd, usd } from '../../base/money.ts'
import type { RentalSpec } from '../../domain/rental.ts'
import { transact } from '../../store/platform/database.ts'
import { readBalances } from '../../store/ledger/ledger.ts'
import { saveInventory } from '../../store/machine/machine.ts'
import type { Actor } from '../app.ts'
import { readEarnings, type Earnings } from './earning.ts'

const FEE_BP = 1_700
/** An hour before midnight. */
const start = instantOf(Date.UTC(2026, 0, 1, 23))

let ledger: TestLedger
let supplier: Actor
let other: Actor
let customer: Actor

beforeAll(async () => {
  ledger = await openTestLedger(start)
  supplier = await openAccount(ledger, 'supplier')
  other = await openAccount(ledger, 'other')
  customer = await openAccount(ledger, 'customer', usd('1000'))
  await transact(ledger.database, (tx) => saveInventory(tx, 'mock', ['m1', 'm2', 'm3'].map(machineOf), start))
})
afterAll(() => ledger.close())

function machineOf(id: string): Parameters<typeof saveInventory>[2][number] {
  return {
    id,
    clusterName: 'mock',
    region: 'mock-region',
    offering: 'bare-metal',
    supplierId: supplier.accountId,
    gpuType: 'h100',
    gpuModel: 'H100',
    gpuRamMib: 81_920,
    gpuFormFactor: 'sxm5',
    networkType: 'infiniband',
    ethernetVariant: null,
    gpusTotal: 8,
    gpusSick: [],
    simulation: null,
    offerId: null,
    soldWhole: false,
    cost: null,
    price: null,
    hasPersistentStorage: false,
    hardware: {
      cpuModel: 'CPU',
      cpuCores: 1,
      virtualCores: 1,
      ramGb: 1,
      storageGb: 1,
      gpuClockMhz: 1,
      gpuComputePower: 1,
      gpuInterface: 'SXM5',
    },
  }
}

/** A rental of eight GPUs on the given machines. */
async function rentOn(nodes: Readonly<Record<string, number>>, owner: Actor, perHour: string): Promise<number> {
  const request = { pricePerHour: usd(perHour), supplier: { accountId: owner.accountId, platformFeeBp: FEE_BP } }
  const id = await startRental(ledger, customer, request)
  const spec: Pick<RentalSpec, 'nodes'> = {
    nodes: Object.entries(nodes).map(([machineId, gpus]) => ({
      machineId,
      gpuIndexes: Array.from({ length: gpus }, (_, index) => index),
    })),
  }
  await ledger.database.db
    .updateTable('rental')
    .set({ spec: JSON.stringify(spec) })
    .where('id', '=', id)
    .execute()
  return id
}

const read = (days: number): Promise<Earnings> => readEarnings(ledger.app, supplier, days)

test('days and machines add up to the ledger, also for rentals of several machines', async () => {
  const whole = await rentOn({ m1: 8 }, supplier, '3.333333333')
  const split = await rentOn({ m1: 3, m2: 5 }, supplier, '7.777777777')
  const theirs = await rentOn({ m9: 8 }, other, '5')
  // Half past midnight, so that a charge covers two days; then noon, when one ends.
  ledger.clock.advance(1.5 * HOUR_MS)
  for (const rentalId of [whole, split, theirs]) await settle(ledger, { rentalId, volumeId: null })
  ledger.clock.advance(11.5 * HOUR_MS)
  await settle(ledger, { rentalId: split, volumeId: null })
  await endRental(ledger, whole)
  await endRental(ledger, theirs)
  // Two days later the other ends too.
  ledger.clock.advance(2 * DAY_MS)
  await endRental(ledger, split)

  const { earnings } = await readBalances(ledger.database.db, supplier.accountId)
  // 13 hours of one and 61 of the other, less the fee, each rounded down.
  const earned = [
    shareOf(nanoUsdOf(usd('3.333333333') * 13n), 10_000 - FEE_BP),
    shareOf(nanoUsdOf(usd('7.777777777') * 61n), 10_000 - FEE_BP),
  ] as const
  expect(earnings).toBe(sumUsd(earned))

  const report = await read(30)
  expect([report.from, report.to]).toEqual(['2025-12-06', '2026-01-04'])
  expect(report.byDay).toHaveLength(30)
  expect(report.earned).toBe(earnings)
  for (const parts of [report.byDay, report.byMachine, report.machines]) {
    expect(sumUsd(parts.map((part) => part.earned))).toBe(earnings)
  }
  // m1 earns all of the first rental and three eighths of the other, less at most one nano-dollar per charge.
  const m1 = report.byMachine[0]?.earned ?? nanoUsdOf(0n)
  const exact = earned[0] + (earned[1] * 3n) / 8n
  expect(exact - m1 >= 0n && exact - m1 <= 3n).toBe(true)

  // Money counts when it is posted, time when it was used.
  const days = Object.fromEntries(report.byDay.map((day) => [day.day, day]))
  expect(days['2026-01-01']).toMatchObject({ earned: 0n, gpuHoursSold: 16 })
  expect(days['2026-01-02']).toMatchObject({ gpuHoursSold: 8 * (12 + 24) })
  expect(days['2026-01-03']).toMatchObject({ earned: 0n, gpuHoursSold: 8 * 24 })
  expect(days['2026-01-04']).toMatchObject({ gpuHoursSold: 8 * 12 })
  expect(report.byMachine.map(({ machineId, gpuHoursSold, gpuHours }) => [machineId, gpuHoursSold, gpuHours])).toEqual([
    ['m1', 8 * 13 + 3 * 61, 8 * 61],
    ['m2', 5 * 61, 8 * 61],
    ['m3', 0, 8 * 61],
  ])
})

test('ignores days outside the period', async () => {
  const report = await read(1)
  expect(report.byDay.map((day) => day.day)).toEqual(['2026-01-04'])
  expect(report.earned).toBe(report.byDay[0]?.earned)
  expect(report.byMachine.map((one) => one.gpuHoursSold)).toEqual([3 * 12, 5 * 12, 0])
  expect(report.byMachine.map((one) => one.gpuHours)).toEqual([8 * 12, 8 * 12, 8 * 12])
  expect(sumUsd(report.byMachine.map((one) => one.earned))).toBe(report.earned)
})

test('free time is not sold time; a machine that changed owner keeps its earnings, without hours', async () => {
  const before = await read(30)
  const free = await rentOn({ m3: 8 }, supplier, '0')
  ledger.clock.advance(HOUR_MS)
  await endRental(ledger, free)
  await ledger.database.db.updateTable('machine').set({ supplier_id: other.accountId }).where('id', '=', 'm2').execute()
  const after = await read(30)
  expect(after.earned).toBe(before.earned)
  expect(after.byMachine).toMatchObject([
    { machineId: 'm1', gpuHours: 8 * 62 },
    { machineId: 'm2', gpuHoursSold: 5 * 61, gpuHours: null, earned: before.byMachine[1]?.earned },
    { machineId: 'm3', gpuHoursSold: 0 },
  ])
})

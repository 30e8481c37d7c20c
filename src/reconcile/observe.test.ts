/** Effects of a provider's list on rentals, in cases that the simulated provider cannot produce. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { App } from '../app/app.ts'
import { rentalTag } from '../app/rental/rental.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../base/instant.ts'
import { costOfSpan, nanoUsdOf, usd } from '../base/money.ts'
import { rentalOutcomes } from '../contract/rental-outcome.ts'
import type { Driver, DriverMachine } from '../drivers/driver.ts'
import { readBalances } from '../store/ledger/ledger.ts'
import { ledgerChecks, runCheck } from '../store/ledger/ledger-verify.ts'
import { findRental } from '../store/rental/rental.ts'
import { endRental, openAccount, openTestLedger, startRental, type TestLedger } from '../../test/harness/ledger.ts'
import { observe } from './observe.ts'

const PRICE = usd('6')
let ledger: TestLedger
beforeAll(async () => {
  ledger = await openTestLedger()
})
afterAll(() => ledger.close())

/** A provider that returns a given list, and nothing else. */
function engineShowing(list: () => readonly DriverMachine[]): App {
  const refuse = (): never => {
    throw new Error('it only shows')
  }
  const driver: Driver = {
    id: 'mock',
    traits: {
      simulated: false,
      elastic: false,
      ssh: false,
      logs: false,
      terminal: false,
      metrics: false,
      ports: 'direct',
      power: { stop: [], reboot: [] },
    },
    listLagMs: 0,
    callTimeoutMs: MINUTE_MS,
    check: refuse,
    inventory: refuse,
    create: refuse,
    destroy: refuse,
    list: async () => [...list()],
  }
  return { ...ledger.app, drivers: new Map([['mock', driver]]) }
}

test('downtime of a restarted machine is free, has a segment, and is in the event', async () => {
  const actor = await openAccount(ledger, 'still', usd('1000'))
  const id = await startRental(ledger, actor, { pricePerHour: PRICE })
  const rental = await findRental(ledger.database.db, id)
  if (rental === undefined) throw new Error('no such rental')
  const tag = rentalTag(ledger.app, rental)
  let machine: Partial<DriverMachine> = { state: 'running', incarnation: 'first' }
  const app = engineShowing(() => [{ externalId: tag, tag, state: 'running', ...machine }])
  const look = async (afterMs: number): Promise<void> => {
    ledger.clock.advance(afterMs)
    await observe(app).run(new AbortController().signal)
  }
  // The first incarnation is taken as the baseline.
  await ledger.database.db.updateTable('rental').set({ incarnation: 'first' }).where('id', '=', id).execute()
  await look(10 * MINUTE_MS)
  const seenAt = ledger.clock.now()
  machine = { state: 'unreachable', seenAt }
  await look(MINUTE_MS)
  machine = { state: 'running', incarnation: 'first' }
  await look(MINUTE_MS)
  machine = { state: 'unreachable', seenAt: ledger.clock.now() }
  await look(MINUTE_MS)
  machine = { state: 'running', incarnation: 'second' }
  await look(50 * MINUTE_MS)
  await look(5 * MINUTE_MS)
  await endRental(ledger, id)
  const segments = await ledger.database.db
    .selectFrom('segment')
    .select(['started_at', 'ended_at', 'settled_nano'])
    .where('rental_id', '=', id)
    .orderBy('started_at')
    .execute()
  // It was unreachable twice; the first time it kept running.
  expect(segments.map((one) => [((one.ended_at ?? 0) - one.started_at) / MINUTE_MS, one.settled_nano])).toEqual([
    [12, costOfSpan(PRICE, 12 * MINUTE_MS)],
    [51, 0n],
    [5, costOfSpan(PRICE, 5 * MINUTE_MS)],
  ])
})

test('a reserved machine that was down at the end of its term comes back on demand, and its hold is released', async () => {
  const money = usd('1000')
  const actor = await openAccount(ledger, 'term', money)
  const reserved = [{ termPeriodDays: 1, discountPercentage: 50 }]
  const id = await startRental(ledger, actor, { pricePerHour: PRICE, reserved })
  const rental = await findRental(ledger.database.db, id)
  if (rental === undefined) throw new Error('no such rental')
  const tag = rentalTag(ledger.app, rental)
  let machine: Partial<DriverMachine> = { state: 'running', incarnation: 'first' }
  const app = engineShowing(() => [{ externalId: tag, tag, state: 'running', ...machine }])
  const look = async (afterMs: number): Promise<void> => {
    ledger.clock.advance(afterMs)
    await observe(app).run(new AbortController().signal)
  }
  await ledger.database.db.updateTable('rental').set({ incarnation: 'first' }).where('id', '=', id).execute()
  await look(HOUR_MS)
  machine = { state: 'unreachable', seenAt: ledger.clock.now() }
  await look(MINUTE_MS)
  machine = { state: 'running', incarnation: 'second' }
  await look(DAY_MS)
  await look(10 * MINUTE_MS)
  await endRental(ledger, id)
  const segments = await ledger.database.db
    .selectFrom('segment')
    .select(['price_nano_per_hour', 'settled_nano'])
    .where('rental_id', '=', id)
    .orderBy('started_at')
    .execute()
  const half = nanoUsdOf(PRICE / 2n)
  expect(segments.map((one) => [one.price_nano_per_hour, one.settled_nano])).toEqual([
    [half, half],
    [0n, 0n],
    [PRICE, costOfSpan(PRICE, 10 * MINUTE_MS)],
  ])
  const { available, held } = await readBalances(ledger.database.db, actor.accountId)
  expect([available, held]).toEqual([money - half - costOfSpan(PRICE, 10 * MINUTE_MS), 0n])
  for (const check of ledgerChecks.filter(({ name }) => /commitment|early_end|bill_|segment/.test(name))) {
    expect((await runCheck(ledger.database.db, check, 10)).findings).toEqual([])
  }
})

test.each(['starting', 'stopping'] as const)(
  'a running machine listed as %s is Unknown until it runs, and billed until it was last listed running',
  async (meanwhile) => {
    const actor = await openAccount(ledger, meanwhile, usd('1000'))
    const [back, ended] = [
      await startRental(ledger, actor, { pricePerHour: PRICE }),
      await startRental(ledger, actor, { pricePerHour: PRICE }),
    ]
    const rental = async (id: number) => {
      const row = await findRental(ledger.database.db, id)
      if (row === undefined) throw new Error('no such rental')
      return row
    }
    const tags = await Promise.all([back, ended].map(async (id) => rentalTag(ledger.app, await rental(id))))
    let state: DriverMachine['state'] = 'running'
    const app = engineShowing(() => tags.map((tag) => ({ externalId: tag, tag, state })))
    const look = async (afterMs: number): Promise<void> => {
      ledger.clock.advance(afterMs)
      await observe(app).run(new AbortController().signal)
    }
    await look(10 * MINUTE_MS)
    state = meanwhile
    await look(MINUTE_MS)
    expect([(await rental(back)).status, (await rental(ended)).status]).toEqual(['Unknown', 'Unknown'])
    await look(MINUTE_MS)
    await endRental(ledger, ended)
    state = 'running'
    await look(MINUTE_MS)
    expect((await rental(back)).status).toBe('Running')
    const { settled_nano: paid } = await ledger.database.db
      .selectFrom('segment')
      .select('settled_nano')
      .where('rental_id', '=', ended)
      .executeTakeFirstOrThrow()
    expect(paid).toBe(costOfSpan(PRICE, 10 * MINUTE_MS))
  },
)

test('nothing that an engine shows fails a rental whose disk is kept (issue 31, A)', async () => {
  const actor = await openAccount(ledger, 'kept', usd('1000000'))
  const rental = await findRental(ledger.database.db, await startRental(ledger, actor, { pricePerHour: PRICE }))
  if (rental === undefined) throw new Error('no such rental')
  const tag = rentalTag(ledger.app, rental)
  let machines: ReadonlyArray<Omit<DriverMachine, 'externalId' | 'tag'>> = []
  const app = engineShowing(() => machines.map((one) => ({ externalId: tag, tag, ...one })))
  const failures = [...Object.keys(rentalOutcomes), 'a_word_of_a_newer_agent']
  const everything = [
    [],
    ...failures.map((failure) => [{ state: 'failed', failure } as const]),
    ...failures.map((failure) => [{ state: 'stopped', failure } as const]),
    ...(['starting', 'stopping', 'unreachable', 'failed', 'stopped'] as const).map((state) => [{ state }]),
  ]
  const { db } = ledger.database
  for (const status of ['Stopping', 'Stopped', 'Starting'] as const) {
    for (const one of everything) {
      const disk = { status, stopped_nano_per_hour: usd('0.01'), missing_since: null, stuck_at: null }
      await db.updateTable('rental').set(disk).where('id', '=', rental.id).execute()
      machines = one
      // The second list is a day later: long absence is not an end either.
      for (const afterMs of [MINUTE_MS, 2 * DAY_MS]) {
        ledger.clock.advance(afterMs)
        await observe(app).run(new AbortController().signal)
      }
      const after = await findRental(db, rental.id)
      expect([status, one, ['Stopping', 'Stopped', 'Starting'].includes(after?.status ?? '')]).toEqual([
        status,
        one,
        true,
      ])
    }
  }
  await db.updateTable('rental').set({ status: 'Running', missing_since: null }).where('id', '=', rental.id).execute()
  await endRental(ledger, rental.id)
})

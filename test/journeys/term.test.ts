/** Reserved terms, and periods when the state of a machine is unknown. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/instant.ts'
import { costOfSpan, usd } from '../../src/base/money.ts'
import {
  chargedFor,
  eventTypesOf,
  checkLedgerAndEngines,
  startJourney,
  succeed,
  type Journey,
} from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

/** One H100 with Ethernet, and with the 10 % discount of a 30-day term. */
const PRICE = usd('2.49')
const RESERVED = usd('2.241')
const path = '/v2/alpha/on-demand/virtual-machine-rentals'

let journey: Journey
beforeAll(async () => {
  journey = await startJourney()
})
afterAll(() => journey.close())

const detail = (by: Call, id: number) => succeed(by, 'GET', `/v2/alpha/on-demand/rentals/${id}`)
const after = (from: string, ms: number): string => new Date(Date.parse(from) + ms).toISOString()
const reserved = { termType: 'reserved', termPeriodDays: 30, discountPercentage: 10 }

describe('a reserved term', () => {
  test('gets exactly the price that reserve-options shows', async () => {
    const ada = await journey.account({ usd: '100' })
    expect(await succeed(ada.call, 'GET', '/v2/alpha/on-demand/reserve-options')).toEqual([
      { termPeriodDays: 30, discountPercentage: 10 },
      { termPeriodDays: 90, discountPercentage: 18 },
      { termPeriodDays: 365, discountPercentage: 30 },
    ])
    const cases = [
      [{ termType: 'reserved' }, 'term_period_missing', 'termPeriodDays'],
      [{ termType: 'reserved', termPeriodDays: 31 }, 'term_not_offered', 'termPeriodDays'],
      [{ ...reserved, discountPercentage: 10.01 }, 'discount_not_granted', 'discountPercentage'],
      [{ ...reserved, discountPercentage: -1 }, 'discount_not_granted', 'discountPercentage'],
      [{ ...reserved, discountPercentage: 0.001 }, 'discount_not_granted', 'discountPercentage'],
      [{ discountPercentage: 5 }, 'discount_not_granted', 'discountPercentage'],
    ] as const
    for (const [term, reason, field] of cases) {
      const reply = await ada.call('POST', path, { gpuCount: 1, region: 'mock-region', ...term })
      expect([reply.status, reply.body.reason, reply.body.issues[0].path]).toEqual([400, reason, [field]])
    }
  })

  test('can have a better price by contract, for that account only', async () => {
    const [ada, bob] = [await journey.account({ usd: '3000' }), await journey.account({ usd: '3000' })]
    const contract = { accountId: ada.id, termPeriodDays: 30, discountPercentage: 33.33 }
    const change = { reserveOptions: [contract], reason: 'contract signed' }
    await succeed(journey.operator, 'PUT', '/v2/operator/price-book', change)
    const term = { ...reserved, discountPercentage: 33.33 }
    const rental = await journey.rentVirtualMachine(ada.call, term)
    expect(rental.currentTerm).toMatchObject({
      costPerHour: 1.660083,
      discountPercentage: 33.33,
      originalCostPerHour: 2.49,
    })
    const refused = await bob.call('POST', path, { gpuCount: 1, region: 'mock-region', ...term })
    expect(refused.body.reason).toBe('discount_not_granted')
    await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: rental.id })
  })

  test('switches to the on-demand price at its end, and both periods are charged exactly', async () => {
    const ada = await journey.account({ usd: '3000' })
    const ordered = journey.now()
    const rental = await journey.rentVirtualMachine(ada.call, reserved)
    const endsAt = after(ordered, 30 * DAY_MS)
    expect(rental.currentTerm).toEqual({
      effectiveAt: ordered,
      termType: 'reserved',
      costPerHour: 2.241,
      reservedUntil: endsAt,
      reservationEndsAt: endsAt,
      termPeriodDays: 30,
      discountPercentage: 10,
      originalCostPerHour: 2.49,
    })
    await journey.advanceBy(5 * DAY_MS, 6)
    await journey.advance(DAY_MS)
    const converted = await detail(ada.call, rental.id)
    expect(converted.currentTerm).toMatchObject({
      termType: 'on-demand',
      costPerHour: 2.49,
      effectiveAt: endsAt,
      reservedUntil: null,
    })
    await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: rental.id })
    await journey.pass()
    const atTerm = costOfSpan(RESERVED, Date.parse(endsAt) - Date.parse(rental.startedAt))
    const onDemand = costOfSpan(PRICE, Date.parse(journey.now()) - Date.parse(endsAt))
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(atTerm + onDemand)
    expect(await eventTypesOf(ada.call, `rental:${rental.id}`)).toEqual([
      'rental.created',
      'rental.running',
      'rental.term_expiring',
      'rental.term_converted',
      'rental.terminating',
      'rental.terminated',
    ])
  })

  test('ends its rental when the customer chose that, however late the server checks', async () => {
    const ada = await journey.account({ usd: '3000' })
    const ordered = journey.now()
    const rental = await journey.rentVirtualMachine(ada.call, { ...reserved, convertToOnDemandOnExpiry: false })
    await journey.advance(33 * DAY_MS)
    const endsAt = after(ordered, 30 * DAY_MS)
    expect(await detail(ada.call, rental.id)).toMatchObject({
      status: 'Terminated',
      statusReason: 'term_expired',
      terminateRequestedAt: endsAt,
    })
    const span = Date.parse(endsAt) - Date.parse(rental.startedAt)
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(costOfSpan(RESERVED, span))
  })

  test('is closed once it is past and cannot expire any more', async () => {
    const ada = await journey.account({ usd: '9000' })
    const converted = await journey.rentVirtualMachine(ada.call, reserved)
    const ended = await journey.rentVirtualMachine(ada.call, reserved)
    await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: ended.id })
    await journey.advance(31 * DAY_MS)
    const current = await journey.rentVirtualMachine(ada.call, reserved)
    await journey.pass()
    const terms = await journey.app.database.db
      .selectFrom('term')
      .select(['rental_id', 'n', 'closed'])
      .where('rental_id', 'in', [converted.id, ended.id, current.id])
      .orderBy('rental_id')
      .orderBy('n')
      .execute()
    expect(terms.map(({ rental_id: id, n, closed }) => [id, n, closed])).toEqual([
      [converted.id, 1, true],
      [converted.id, 2, false],
      [ended.id, 1, true],
      [current.id, 1, false],
    ])
    for (const { id } of [converted, current]) await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: id })
  })
})

describe('a machine that its engine no longer lists', () => {
  test('is Unknown; once it is back, the time counts as use and is charged', async () => {
    const ada = await journey.account({ usd: '100' })
    const rental = await journey.rentVirtualMachine(ada.call, { label: 'fault-flap' })
    await journey.advance(90 * SECOND_MS)
    expect(await detail(ada.call, rental.id)).toMatchObject({ status: 'Unknown', costSoFarUsd: '0.000000000' })
    await journey.advance(5 * MINUTE_MS)
    expect(await detail(ada.call, rental.id)).toMatchObject({ status: 'Running' })
    await journey.advance(MINUTE_MS)
    await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: rental.id })
    await journey.pass()
    const span = Date.parse(journey.now()) - Date.parse(rental.startedAt)
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(costOfSpan(PRICE, span))
    const types = await eventTypesOf(ada.call, `rental:${rental.id}`)
    expect(types.slice(2, 4)).toEqual(['rental.unknown', 'rental.recovered'])
  })

  test('is Failed after an hour, and is charged up to its last observation', async () => {
    const ada = await journey.account({ usd: '100' })
    const rental = await journey.rentVirtualMachine(ada.call, { label: 'fault-vanish' })
    await journey.advanceBy(20 * SECOND_MS, 3)
    expect(await detail(ada.call, rental.id)).toMatchObject({ status: 'Unknown' })
    await journey.advanceBy(20 * MINUTE_MS, 3)
    const failed = await detail(ada.call, rental.id)
    expect(failed).toMatchObject({ status: 'Failed', statusReason: 'machine_lost' })
    // It was seen 40 seconds after its start, and missing after 60.
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(costOfSpan(PRICE, 40 * SECOND_MS))
    expect(await succeed(ada.call, 'GET', '/v2/customer/balance')).toMatchObject({ heldUsd: '0.000000000' })
    await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: rental.id })
    await journey.advanceBy(4 * MINUTE_MS, 3)
    expect(await detail(ada.call, rental.id)).toMatchObject({ status: 'Terminated' })
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(costOfSpan(PRICE, 40 * SECOND_MS))
  })

  test('can be ended by its customer, who pays up to its last observation', async () => {
    const ada = await journey.account({ usd: '100' })
    const rental = await journey.rentVirtualMachine(ada.call, { label: 'fault-vanish' })
    await journey.advanceBy(20 * SECOND_MS, 3)
    await journey.advance(30 * MINUTE_MS)
    await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: rental.id })
    // Its absence from the list proves nothing yet: it was missing before the teardown was requested.
    await journey.pass()
    expect(await detail(ada.call, rental.id)).toMatchObject({ status: 'Terminating' })
    await journey.advanceBy(4 * MINUTE_MS, 3)
    expect(await detail(ada.call, rental.id)).toMatchObject({ status: 'Terminated' })
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(costOfSpan(PRICE, 40 * SECOND_MS))
  })

  test('keeps its GPUs when ended while missing, until it is really gone', async () => {
    const ada = await journey.account({ usd: '100' })
    const rental = await journey.rentVirtualMachine(ada.call, { label: 'fault-flap fault-destroy-slow' })
    await journey.advanceBy(20 * SECOND_MS, 4)
    expect(await detail(ada.call, rental.id)).toMatchObject({ status: 'Unknown' })
    await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: rental.id })
    // Missing for three minutes, then listed as shutting down for the rest of twenty.
    await journey.advanceBy(2 * MINUTE_MS, 8)
    expect(await detail(ada.call, rental.id)).toMatchObject({ status: 'Terminating' })
    await journey.advanceBy(2 * MINUTE_MS, 4)
    expect(await detail(ada.call, rental.id)).toMatchObject({ status: 'Terminated' })
  })

  test('is not charged past its last observation when its term ends meanwhile', async () => {
    const ada = await journey.account({ usd: '3000' })
    const rental = await journey.rentVirtualMachine(ada.call, { ...reserved, label: 'fault-vanish' })
    await journey.advance(40 * SECOND_MS)
    // The next observation is minutes before the end of the term.
    await journey.advance(30 * DAY_MS - 2 * MINUTE_MS)
    expect(await detail(ada.call, rental.id)).toMatchObject({ status: 'Unknown' })
    await journey.advance(10 * MINUTE_MS)
    await journey.advance(HOUR_MS)
    expect(await detail(ada.call, rental.id)).toMatchObject({ status: 'Failed', currentTerm: { termType: 'reserved' } })
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(costOfSpan(RESERVED, 40 * SECOND_MS))
  })

  test('leaves the ledger consistent', async () => {
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })
})

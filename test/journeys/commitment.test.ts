/** Reserved orders: what they set aside, the cost of ending early, and failures that are not the customer's fault. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/instant.ts'
import { costOfSpan, formatUsd, nanoUsdOf, usd, type NanoUsd } from '../../src/base/money.ts'
import {
  chargedFor,
  eventTypesOf,
  checkLedgerAndEngines,
  startJourney,
  succeed,
  type Journey,
} from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

/** One H100 with Ethernet, and with discounts of 10, 18 and 30 %. */
const ON_DEMAND = usd('2.49')
const MONTH = usd('2.241')
const QUARTER = usd('2.0418')
const YEAR = usd('1.743')
const path = '/v2/alpha/on-demand/virtual-machine-rentals'

let journey: Journey
beforeAll(async () => {
  journey = await startJourney()
})
afterAll(() => journey.close())

const month = { termType: 'reserved', termPeriodDays: 30, discountPercentage: 10 }
const quarter = { termType: 'reserved', termPeriodDays: 90, discountPercentage: 18 }
const year = { termType: 'reserved', termPeriodDays: 365, discountPercentage: 30 }
const totalOf = (perHour: NanoUsd, days: number): NanoUsd => costOfSpan(perHour, days * DAY_MS)

const detail = (by: Call, id: number) => succeed(by, 'GET', `/v2/alpha/on-demand/rentals/${id}`)
const end = (by: Call, id: number) => succeed(by, 'POST', `${path}/terminate`, { rentalId: id })
const usedMs = (rental: { startedAt: string }): number => Date.parse(journey.now()) - Date.parse(rental.startedAt)

/** As displayed: the parts always add up. */
async function balance(
  by: Call,
): Promise<{ balance: NanoUsd; available: NanoUsd; held: NanoUsd; [name: string]: unknown }> {
  const shown = await succeed(by, 'GET', '/v2/customer/balance')
  const [whole, available, held] = [usd(shown.balanceUsd), usd(shown.availableUsd), usd(shown.heldUsd)]
  expect(available + held).toBe(whole)
  return { ...shown, balance: whole, available, held }
}

describe('a reserved order', () => {
  test('requires and holds the price of the whole term', async () => {
    const poor = await journey.account({ usd: '97' })
    const refused = await poor.call('POST', path, { gpuCount: 1, region: 'mock-region', ...year })
    expect([refused.status, refused.body.reason]).toEqual([403, 'insufficient_balance'])
    const total = totalOf(YEAR, 365)
    const ada = await journey.account({ usd: formatUsd(total) })
    const rental = await journey.rentVirtualMachine(ada.call, year)
    expect(await balance(ada.call)).toMatchObject({ balance: total, available: 0n, held: total })
    expect(rental.commitment).toMatchObject({
      totalUsd: formatUsd(total),
      earlyEndRates: [
        { completedDays: 0, costPerHourUsd: formatUsd(ON_DEMAND) },
        { completedDays: 30, costPerHourUsd: formatUsd(MONTH) },
        { completedDays: 90, costPerHourUsd: formatUsd(QUARTER) },
      ],
    })
    await end(ada.call, rental.id)
  })

  test('costs what its quote said', async () => {
    const ada = await journey.account({ usd: '1' })
    const shape = 'rentalType=virtual-machine&region=mock-region&gpuType=h100&networkType=ethernet&gpuCount=1'
    const quote = await succeed(ada.call, 'GET', `/v2/rental-quote?${shape}&termPeriodDays=90`)
    expect(quote).toEqual({
      costPerHourUsd: formatUsd(QUARTER),
      originalCostPerHourUsd: formatUsd(ON_DEMAND),
      termPeriodDays: 90,
      discountPercentage: 18,
      totalUsd: formatUsd(totalOf(QUARTER, 90)),
      holdUsd: formatUsd(totalOf(QUARTER, 90)),
      diskGb: 50,
      // A reserved rental cannot be stopped.
      stoppedCostPerHourUsd: null,
      earlyEndRates: [
        { completedDays: 0, costPerHourUsd: formatUsd(ON_DEMAND) },
        { completedDays: 30, costPerHourUsd: formatUsd(MONTH) },
      ],
    })
    expect(await succeed(ada.call, 'GET', `/v2/rental-quote?${shape}`)).toMatchObject({
      termPeriodDays: null,
      totalUsd: null,
      holdUsd: formatUsd(ON_DEMAND),
      earlyEndRates: [],
    })
    const refused = await ada.call('GET', `/v2/rental-quote?${shape}&termPeriodDays=7`)
    expect([refused.status, refused.body.reason]).toEqual([400, 'term_not_offered'])
  })

  test('counts in full against its key’s limit, and conflicts with a lower limit of its own', async () => {
    const ada = await journey.account({ usd: '5000' })
    const made = await succeed(ada.call, 'POST', '/v2/api-keys', {
      name: 'limited',
      scopes: ['compute:read', 'compute:write'],
      totalLimitUsd: '1600',
    })
    const limited = journey.as(made.key)
    const refused = await limited('POST', path, { gpuCount: 1, region: 'mock-region', ...month })
    expect([refused.status, refused.body.reason]).toEqual([403, 'key_spending_limit'])
    const low = await ada.call('POST', path, { gpuCount: 1, region: 'mock-region', ...month, spendingLimitUsd: '1613' })
    expect([low.status, low.body.reason, low.body.issues[0].path]).toEqual([
      400,
      'limit_below_term',
      ['spendingLimitUsd'],
    ])
    const rental = await journey.rentVirtualMachine(ada.call, { ...month, spendingLimitUsd: '1613.52' })
    const lowered = await ada.call('PATCH', `/v2/rentals/${rental.id}`, { spendingLimitUsd: '5' })
    expect([lowered.status, lowered.body.reason]).toEqual([400, 'limit_below_term'])
    await end(ada.call, rental.id)
  })
})

describe('ending a reserved rental early', () => {
  test('after a minute costs one minute on demand, and the rest of the hold is returned immediately', async () => {
    const ada = await journey.account({ usd: '20000' })
    const rental = await journey.rentVirtualMachine(ada.call, year)
    await journey.advance(MINUTE_MS)
    const cost = costOfSpan(ON_DEMAND, usedMs(rental))
    expect((await detail(ada.call, rental.id)).commitment.endNow).toEqual({
      costUsd: formatUsd(cost),
      extraUsd: formatUsd(nanoUsdOf(cost - costOfSpan(YEAR, usedMs(rental)))),
      returnedUsd: formatUsd(nanoUsdOf(totalOf(YEAR, 365) - cost)),
    })
    await end(ada.call, rental.id)
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(cost)
    expect(await balance(ada.call)).toMatchObject({ available: usd('20000') - cost, held: 0n })
    const ended = await detail(ada.call, rental.id)
    expect([ended.costSoFarUsd, ended.commitment.endNow]).toEqual([formatUsd(cost), null])
    const month = journey.now().slice(0, 7)
    const { lines } = await succeed(ada.call, 'GET', `/v2/invoices/${month}`)
    expect((lines as Array<{ amountUsd: string }>).map(({ amountUsd }) => usd(amountUsd))).toEqual([
      costOfSpan(YEAR, MINUTE_MS),
      cost - costOfSpan(YEAR, MINUTE_MS),
    ])
  })

  test('after completing a shorter term costs that term’s price', async () => {
    const ada = await journey.account({ usd: '20000' })
    const rental = await journey.rentVirtualMachine(ada.call, quarter)
    await journey.advanceBy(DAY_MS, 31)
    await end(ada.call, rental.id)
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(costOfSpan(MONTH, usedMs(rental)))
  })

  test('late in the term costs no more than the total', async () => {
    const ada = await journey.account({ usd: '20000' })
    const rental = await journey.rentVirtualMachine(ada.call, quarter)
    await journey.advanceBy(10 * DAY_MS, 8)
    await journey.advanceBy(8 * DAY_MS, 1)
    await end(ada.call, rental.id)
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(totalOf(QUARTER, 90))
    expect(await balance(ada.call)).toMatchObject({ available: usd('20000') - totalOf(QUARTER, 90), held: 0n })
  })

  test('by its own end time counts as early', async () => {
    const ada = await journey.account({ usd: '20000' })
    const autoTerminateAt = new Date(Date.parse(journey.now()) + 2 * HOUR_MS).toISOString()
    const rental = await journey.rentVirtualMachine(ada.call, { ...month, autoTerminateAt })
    await journey.advance(5 * HOUR_MS)
    expect(await detail(ada.call, rental.id)).toMatchObject({ statusReason: 'auto_terminate' })
    const span = Date.parse(autoTerminateAt) - Date.parse(rental.startedAt)
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(costOfSpan(ON_DEMAND, span))
  })

  test('before it has started is free', async () => {
    const ada = await journey.account({ usd: '20000' })
    const { id } = await succeed(ada.call, 'POST', path, { gpuCount: 1, region: 'mock-region', ...year })
    await end(ada.call, id)
    expect(await balance(ada.call)).toMatchObject({ available: usd('20000'), held: 0n })
  })

  test('while unreachable keeps the term price', async () => {
    const ada = await journey.account({ usd: '20000' })
    const rental = await journey.rentVirtualMachine(ada.call, { ...year, label: 'fault-vanish' })
    await journey.advanceBy(20 * SECOND_MS, 3)
    const lost = await detail(ada.call, rental.id)
    expect([lost.status, lost.commitment.endNow.extraUsd]).toEqual(['Unknown', '0.000000000'])
    await journey.advance(10 * MINUTE_MS)
    await end(ada.call, rental.id)
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(costOfSpan(YEAR, 40 * SECOND_MS))
    expect(await balance(ada.call)).toMatchObject({ held: 0n })
  })

  test('after a failure on our side keeps the term price', async () => {
    const ada = await journey.account({ usd: '2000' })
    const rental = await journey.rentVirtualMachine(ada.call, { ...month, label: 'fault-vanish' })
    await journey.advanceBy(20 * SECOND_MS, 3)
    await journey.advanceBy(20 * MINUTE_MS, 4)
    expect(await detail(ada.call, rental.id)).toMatchObject({ status: 'Failed' })
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(costOfSpan(MONTH, 40 * SECOND_MS))
    expect(await balance(ada.call)).toMatchObject({
      available: usd('2000') - costOfSpan(MONTH, 40 * SECOND_MS),
      held: 0n,
    })
    await end(ada.call, rental.id)
  })
})

describe('the end of the term', () => {
  test('returns the unused part of the hold and continues from the balance', async () => {
    const ada = await journey.account({ usd: '1700' })
    const rental = await journey.rentVirtualMachine(ada.call, month)
    const endsAt = Date.parse(rental.currentTerm.reservationEndsAt)
    await journey.advanceBy(5 * DAY_MS, 6)
    await journey.advance(MINUTE_MS)
    const inTerm = costOfSpan(MONTH, endsAt - Date.parse(rental.startedAt))
    const { balance: left, held } = await balance(ada.call)
    expect(left).toBe(usd('1700') - inTerm - costOfSpan(ON_DEMAND, Date.parse(journey.now()) - endsAt))
    expect(held <= ON_DEMAND).toBe(true)
    await journey.advance(2 * HOUR_MS)
    await end(ada.call, rental.id)
    const after = costOfSpan(ON_DEMAND, Date.parse(journey.now()) - endsAt)
    expect(await chargedFor(ada.call, { rentalId: rental.id })).toBe(inTerm + after)
  })

  test('is settled before a later end by the customer', async () => {
    const ada = await journey.account({ usd: '5000' })
    const goesOn = await journey.rentVirtualMachine(ada.call, month)
    const stops = await journey.rentVirtualMachine(ada.call, { ...month, convertToOnDemandOnExpiry: false })
    journey.clock.advance(30 * DAY_MS + HOUR_MS)
    for (const { id } of [goesOn, stops]) await end(ada.call, id)
    const now = Date.parse(journey.now())
    const span = (rental: typeof goesOn) =>
      Date.parse(rental.currentTerm.reservationEndsAt) - Date.parse(rental.startedAt)
    const after = costOfSpan(ON_DEMAND, now - Date.parse(goesOn.currentTerm.reservationEndsAt))
    expect(await chargedFor(ada.call, { rentalId: goesOn.id })).toBe(costOfSpan(MONTH, span(goesOn)) + after)
    expect(await chargedFor(ada.call, { rentalId: stops.id })).toBe(costOfSpan(MONTH, span(stops)))
    expect(await detail(ada.call, stops.id)).toMatchObject({ statusReason: 'term_expired' })
    expect(await eventTypesOf(ada.call, `rental:${goesOn.id}`)).toContain('rental.term_converted')
  })
})

test('charges no more than the balance after the term, however late the meter runs', async () => {
  const ada = await journey.account({ usd: formatUsd(nanoUsdOf(totalOf(MONTH, 30) + usd('1'))) })
  const rental = await journey.rentVirtualMachine(ada.call, month)
  journey.clock.advance(31 * DAY_MS)
  await end(ada.call, rental.id)
  const { balance: left, held } = await balance(ada.call)
  // About a nano-dollar: less than the next millisecond costs.
  expect(held === 0n && left < costOfSpan(ON_DEMAND, 2)).toBe(true)
})

describe('a credit line', () => {
  const grant = (id: string, creditLineUsd: string) =>
    succeed(journey.operator, 'PATCH', `/v2/operator/accounts/${id}`, { creditLineUsd, reason: 'contract signed' })

  test('funds the missing part of a term, and is repaid first by refunds and payments', async () => {
    const ada = await journey.account({ usd: '100' })
    const total = totalOf(MONTH, 30)
    const order = { gpuCount: 1, region: 'mock-region', ...month }
    expect((await ada.call('POST', path, order)).body.reason).toBe('insufficient_balance')
    await grant(ada.id, '1500')
    expect((await ada.call('POST', path, order)).body.reason).toBe('insufficient_balance')
    const account = await grant(ada.id, '1600')
    expect(account).toMatchObject({ creditLineUsd: '1600.000000000', creditUsedUsd: '0.000000000' })
    const rental = await journey.rentVirtualMachine(ada.call, month)
    const used = nanoUsdOf(total - usd('100'))
    expect(await balance(ada.call)).toMatchObject({ available: 0n, held: total, creditUsedUsd: formatUsd(used) })
    // It covers terms only: on-demand rentals and models are paid from the balance.
    const onDemand = await ada.call('POST', path, { gpuCount: 1, region: 'mock-region' })
    expect(onDemand.body.reason).toBe('insufficient_balance')
    await succeed(journey.operator, 'POST', `/v2/operator/accounts/${ada.id}/credit`, {
      amountUsd: '500',
      reason: 'paid by transfer',
    })
    expect(await balance(ada.call)).toMatchObject({
      available: 0n,
      creditUsedUsd: formatUsd(nanoUsdOf(used - usd('500'))),
    })
    await journey.advance(HOUR_MS)
    await end(ada.call, rental.id)
    const cost = costOfSpan(ON_DEMAND, usedMs(rental))
    expect(await balance(ada.call)).toMatchObject({
      balance: usd('600') - cost,
      available: usd('600') - cost,
      held: 0n,
      creditUsedUsd: '0.000000000',
    })
    const { lines } = await succeed(ada.call, 'GET', '/v2/customer/statement?limit=1000')
    expect((lines as Array<{ balanceAfterUsd: string }>)[0]?.balanceAfterUsd).toBe(
      formatUsd(nanoUsdOf(usd('600') - cost)),
    )
  })

  test('that charges have used up is a debt, and the next payment repays it', async () => {
    const ada = await journey.account({ usd: '0.5' })
    await grant(ada.id, '2000')
    const rental = await journey.rentVirtualMachine(ada.call, month)
    await journey.advanceBy(DAY_MS, 2)
    await end(ada.call, rental.id)
    const cost = costOfSpan(ON_DEMAND, usedMs(rental))
    const owed = nanoUsdOf(cost - usd('0.5'))
    expect(await balance(ada.call)).toMatchObject({ balance: 0n, creditUsedUsd: formatUsd(owed) })
    await succeed(journey.operator, 'POST', `/v2/operator/accounts/${ada.id}/credit`, {
      amountUsd: '200',
      reason: 'paid by transfer',
    })
    expect(await balance(ada.call)).toMatchObject({ balance: usd('200') - owed, creditUsedUsd: '0.000000000' })
    const lowered = await grant(ada.id, '0')
    expect(lowered).toMatchObject({ creditLineUsd: '0.000000000' })
  })
})

describe('hourly spend', () => {
  test('excludes unreachable machines, and the runway excludes reserved terms', async () => {
    const ada = await journey.account({ usd: '1700' })
    const bound = await journey.rentVirtualMachine(ada.call, month)
    expect(await balance(ada.call)).toMatchObject({ hourlySpendUsd: formatUsd(MONTH), emptyAt: null })
    const lost = await journey.rentVirtualMachine(ada.call, { label: 'fault-vanish' })
    const running = await balance(ada.call)
    expect(running).toMatchObject({ hourlySpendUsd: formatUsd(nanoUsdOf(MONTH + ON_DEMAND)) })
    const funds = nanoUsdOf(usd('1700') - totalOf(MONTH, 30))
    const left = costOfSpan(ON_DEMAND, Date.parse(String(running.emptyAt)) - Date.parse(lost.startedAt))
    expect(left <= funds && left > funds - 2_000n).toBe(true)
    await journey.advanceBy(20 * SECOND_MS, 3)
    expect(await detail(ada.call, lost.id)).toMatchObject({ status: 'Unknown' })
    expect(await balance(ada.call)).toMatchObject({ hourlySpendUsd: formatUsd(MONTH), emptyAt: null })
    for (const { id } of [bound, lost]) await end(ada.call, id)
    expect(await balance(ada.call)).toMatchObject({ hourlySpendUsd: '0.000000000' })
  })
})

test('the ledger is consistent afterwards', async () => {
  await journey.advanceBy(5 * MINUTE_MS, 4)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

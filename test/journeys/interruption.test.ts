/** Interruptible rentals on the simulated engine, to the nano-dollar and the millisecond, on a clock that the test controls. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/instant.ts'
import { costOfSpan, formatUsd, usd } from '../../src/base/money.ts'
import {
  chargedFor,
  checkLedgerAndEngines,
  eventTypesOf,
  LIST_LAG_MS,
  startJourney,
  succeed,
  type Journey,
} from '../harness/journey.ts'
import { passForReal } from '../harness/simulated-machine.ts'
import type { Reply } from '../harness/exchange.ts'
import type { Call } from '../harness/server.ts'

/** A machine with four GPUs, priced at $1.15. */
const NODE = 'mock-sin-a100-01'
const PRICE = usd('1.15')
const LOWER = usd('0.40')
const WAIT_SECONDS = 150

let journey: Journey
let supplier: { id: string; call: Call }
let ada: { id: string; call: Call }
let bob: { id: string; call: Call }
beforeAll(async () => {
  journey = await startJourney()
  supplier = await journey.account({ platformFeePercentage: 20 })
  ada = await journey.account({ usd: '1000' })
  bob = await journey.account({ usd: '1000' })
  const bought = { supplierId: supplier.id, reason: 'bought' }
  await succeed(journey.operator, 'PATCH', `/v2/operator/machines/${NODE}`, bought)
})
afterAll(() => journey.close())

const sell = (change: object): Promise<Reply> => supplier.call('PATCH', `/v2/supply/machines/${NODE}`, change)
beforeEach(async () => {
  const sale = { interruptiblePricePerGpuHourUsd: '0.40', interruptionNoticeSeconds: 120 }
  await succeed(supplier.call, 'PATCH', `/v2/supply/machines/${NODE}`, { pricePerGpuHourUsd: '1.15', ...sale })
})

afterEach(async () => {
  for (const { call } of [ada, bob]) {
    const { rentals } = await succeed(call, 'GET', '/v2/rentals')
    for (const { id } of rentals) await succeed(call, 'DELETE', `/v2/rentals/${id}`)
  }
  await journey.advance(MINUTE_MS)
})

const order = (by: Call, more: object = {}): Promise<Reply> =>
  by('POST', '/v2/rentals', { kind: 'container', machineId: NODE, gpuCount: 1, ...more })
const show = (by: Call, { id }: { id: number }) => succeed(by, 'GET', `/v2/rentals/${id}`)
const end = async (by: Call, { id }: { id: number }) => {
  await succeed(by, 'DELETE', `/v2/rentals/${id}`)
  await journey.pass()
}
const offer = async () => (await succeed(journey.anonymous, 'GET', `/v2/marketplace/machines?text=${NODE}`)).machines[0]

async function rent(by: Call, more: object = {}): Promise<Reply['body']> {
  const { status, body } = await order(by, more)
  expect([status, body]).toEqual([200, body])
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  return show(by, body)
}
const rentLower = (more: object = {}) => rent(ada.call, { interruptible: true, ...more })
const millis = (from: string, to: string): number => Date.parse(to) - Date.parse(from)

/** The programs are told to end at 110 s; then the machines are off, and the next ones start. */
async function passNotice(): Promise<void> {
  await journey.advance(110 * SECOND_MS)
  await journey.advance(MINUTE_MS)
  await journey.advance(LIST_LAG_MS)
}

/** Four rentals of a GPU each fill the machine. They began one minute after the other. */
async function fill(more: object = {}): Promise<Array<Reply['body']>> {
  const rentals: Array<Reply['body']> = []
  for (let n = 0; n < 4; n += 1) {
    rentals.push(await rentLower(more))
    await journey.advance(MINUTE_MS)
  }
  return rentals
}

describe('an order that finds no free GPUs', () => {
  test('promises 36, 37 and 40: is told its wait, and waits only if it agrees', async () => {
    const rentals = await fill()
    expect(rentals[0]).toMatchObject({
      pricePerHourUsd: formatUsd(LOWER),
      interruptible: { noticeSeconds: 120, afterInterruption: 'start', endsAt: null, free: false },
    })
    await journey.advance(HOUR_MS)
    expect(await offer()).toMatchObject({ gpusFree: 0, gpusAfterWait: { gpus: 4, waitSeconds: WAIT_SECONDS } })
    for (const more of [{}, { maxWaitSeconds: WAIT_SECONDS - 1 }]) {
      const refused = await order(bob.call, more)
      expect(refused).toMatchObject({ status: 400, body: { reason: 'no_capacity' } })
      expect(JSON.stringify(refused.body)).toContain(`${WAIT_SECONDS} seconds`)
    }
    // One that can be interrupted itself interrupts nobody.
    expect(await order(bob.call, { interruptible: true })).toMatchObject({ status: 400 })
    expect(await order(bob.call, { interruptible: true, maxWaitSeconds: 600 })).toMatchObject({ status: 400 })
    for (const one of rentals) expect(await show(ada.call, one)).toMatchObject({ interruptible: { endsAt: null } })

    const announcedAt = journey.now()
    const waiting = (await order(bob.call, { gpuCount: 2, maxWaitSeconds: WAIT_SECONDS })).body
    const dueAt = new Date(Date.parse(announcedAt) + WAIT_SECONDS * SECOND_MS).toISOString()
    expect(waiting).toMatchObject({ state: 'Pending', gpusDueAt: dueAt, machines: [{ id: NODE, gpuCount: 2 }] })
    // The two youngest end; the others know of nothing.
    const endsAt = new Date(Date.parse(announcedAt) + 120 * SECOND_MS).toISOString()
    const ends = await Promise.all(rentals.map(async (one) => (await show(ada.call, one)).interruptible.endsAt))
    expect(ends).toEqual([null, null, endsAt, endsAt])
    const { notifications } = await succeed(ada.call, 'GET', '/v2/notifications')
    expect(notifications.filter((one: { kind: string }) => one.kind === 'rental_interrupted')).toHaveLength(2)

    // Until ten seconds before the end they run on, and nobody else gets their GPUs.
    await journey.advance(109 * SECOND_MS)
    expect((await show(ada.call, rentals[3])).state).toBe('Running')
    expect(await order(bob.call)).toMatchObject({ body: { reason: 'no_capacity' } })
    await journey.advance(SECOND_MS)
    expect((await show(ada.call, rentals[3])).statusReason).toBe('interrupted')
    await journey.advance(MINUTE_MS)
    await journey.advance(LIST_LAG_MS)
    expect(await show(bob.call, waiting)).toMatchObject({ state: 'Running', gpusDueAt: null })
    const [first, , , last] = await Promise.all(rentals.map((one) => show(ada.call, one)))
    expect(first.state).toBe('Running')
    expect(last).toMatchObject({ state: 'Stopped', statusReason: 'interrupted', interruptible: { endsAt: null } })
    expect(last.startRequestedAt).not.toBeNull()
    expect(await offer()).toMatchObject({ gpusFree: 0, interruptible: { interruptionsLast7Days: 2 } })
    expect(await checkLedgerAndEngines(journey)).toEqual([])

    // In the order of their interruption they start again, at the price of their order.
    expect(await sell({ interruptiblePricePerGpuHourUsd: '0.90' })).toMatchObject({ status: 200 })
    await end(bob.call, waiting)
    await journey.advance(MINUTE_MS)
    await journey.advance(LIST_LAG_MS)
    const again = await show(ada.call, rentals[3])
    expect(again).toMatchObject({ state: 'Running', statusReason: null, currentCostPerHourUsd: formatUsd(LOWER) })
    expect(await eventTypesOf(ada.call, `rental:${rentals[3].id}`)).toEqual([
      'rental.created',
      'rental.running',
      'rental.interrupting',
      'rental.stopping',
      'rental.stopped',
      'rental.waiting',
      'rental.starting',
      'rental.started',
    ])
    for (const one of rentals) await end(ada.call, one)
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })

  test('promise 39: pays and is paid the agreed prices, to the nano-dollar', async () => {
    const victim = await rentLower({ gpuCount: 4, afterInterruption: 'terminate' })
    const startedAt = victim.startedAt as string
    await journey.advance(HOUR_MS)
    expect(await sell({ interruptiblePricePerGpuHourUsd: null, pricePerGpuHourUsd: '9' })).toMatchObject({
      status: 200,
    })
    expect((await show(ada.call, victim)).currentCostPerHourUsd).toBe(formatUsd(usd('1.60')))
    expect(await sell({ interruptiblePricePerGpuHourUsd: '0.40', pricePerGpuHourUsd: '1.15' })).toMatchObject({
      status: 200,
    })
    const wins = (await order(bob.call, { gpuCount: 1, maxWaitSeconds: 600 })).body
    await passNotice()
    const over = await show(ada.call, victim)
    expect(over).toMatchObject({ state: 'Terminated', statusReason: 'interrupted' })
    expect(await chargedFor(ada.call, rentalOf(victim))).toBe(
      costOfSpan(usd('1.60'), millis(startedAt, over.terminateRequestedAt)),
    )
    const running = await show(bob.call, wins)
    await journey.advance(30 * MINUTE_MS)
    const endedAt = journey.now()
    await end(bob.call, wins)
    // It paid nothing while it waited.
    expect(await chargedFor(bob.call, rentalOf(wins))).toBe(costOfSpan(PRICE, millis(running.startedAt, endedAt)))
    expect(await offer()).toMatchObject({ gpusFree: 4 })
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })

  test('leaves the interruption as announced when it is withdrawn, and the GPUs are free', async () => {
    const victim = await rentLower({ gpuCount: 4 })
    await journey.advance(HOUR_MS)
    const gone = (await order(bob.call, { maxWaitSeconds: 600 })).body
    await end(bob.call, gone)
    expect((await show(bob.call, gone)).state).toBe('Terminated')
    expect(await chargedFor(bob.call, rentalOf(gone))).toBe(0n)
    expect((await show(ada.call, victim)).interruptible.endsAt).not.toBeNull()
    await passNotice()
    expect(await show(ada.call, victim)).toMatchObject({ state: 'Running' })
    await end(ada.call, victim)
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })

  test('gets the GPUs at once when the interrupted rental ends by itself', async () => {
    const victim = await rentLower({ gpuCount: 4 })
    await journey.advance(HOUR_MS)
    const next = (await order(bob.call, { gpuCount: 3, maxWaitSeconds: 600 })).body
    await end(ada.call, victim)
    await journey.advance(LIST_LAG_MS)
    await journey.advance(LIST_LAG_MS)
    expect((await show(bob.call, next)).state).toBe('Running')
    expect(await offer()).toMatchObject({ gpusFree: 1 })
    await end(bob.call, next)
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })

  test('is placed by its GPU model on a machine where others can be interrupted, if none has free GPUs', async () => {
    const only = { machineId: undefined, gpuModel: 'rtx-3090', gpuCount: 1 }
    const bought = { supplierId: supplier.id, reason: 'bought' }
    await succeed(journey.operator, 'PATCH', '/v2/operator/machines/mock-sin-rtx3090-01', bought)
    const sale = { interruptiblePricePerGpuHourUsd: '0.05' }
    await succeed(supplier.call, 'PATCH', '/v2/supply/machines/mock-sin-rtx3090-01', sale)
    const victim = await rentLower(only)
    // The other machines of the model have two GPUs each.
    for (let n = 0; n < 3; n += 1)
      expect(await order(bob.call, { ...only, gpuCount: 2 })).toMatchObject({ status: 200 })
    expect(victim).toMatchObject({ machines: [{ id: 'mock-sin-rtx3090-01' }], pricePerHourUsd: formatUsd(usd('0.05')) })
    expect(await order(bob.call, only)).toMatchObject({ body: { reason: 'no_capacity' } })
    const made = (await order(bob.call, { ...only, maxWaitSeconds: 600 })).body
    expect(made).toMatchObject({ state: 'Pending', machines: [{ id: 'mock-sin-rtx3090-01', gpuCount: 1 }] })
    expect((await show(ada.call, victim)).interruptible.endsAt).not.toBeNull()
    // What it interrupts is not promised twice.
    expect(await order(bob.call, { ...only, maxWaitSeconds: 600 })).toMatchObject({ body: { reason: 'no_capacity' } })
  })
})

describe('an interrupted rental', () => {
  test('promise 38: costs nothing if it had run for less than ten minutes', async () => {
    const young = await rentLower({ gpuCount: 4 })
    await journey.advance(9 * MINUTE_MS)
    expect(await chargedFor(ada.call, rentalOf(young))).toBeGreaterThanOrEqual(0n)
    const next = (await order(bob.call, { gpuCount: 4, maxWaitSeconds: 600 })).body
    expect(await show(ada.call, young)).toMatchObject({
      interruptible: { free: true },
      costSoFarUsd: formatUsd(usd('0')),
      currentCostPerHourUsd: formatUsd(usd('0')),
    })
    await passNotice()
    expect((await show(ada.call, young)).state).toBe('Stopped')
    expect((await show(bob.call, next)).state).toBe('Running')
    const stopped = (await succeed(ada.call, 'GET', `/v2/events?limit=1000&subject=rental:${young.id}`)).events.find(
      ({ type }: { type: string }) => type === 'rental.stopped',
    )
    await end(ada.call, young)
    const { terminateRequestedAt } = await show(ada.call, young)
    // Its disk alone, from the stop on.
    const disk = costOfSpan(usd(young.stoppedCostPerHourUsd), millis(stopped.data.at, terminateRequestedAt))
    const { lines } = await succeed(ada.call, 'GET', '/v2/customer/statement?limit=1000')
    const own = lines.filter((line: { rentalId: number; kind: string }) => line.rentalId === young.id)
    const sum = own
      .filter(({ kind }: { kind: string }) => kind === 'charge' || kind === 'refund')
      .reduce((total: bigint, { amountUsd }: { amountUsd: string }) => total - usd(amountUsd), 0n)
    expect(sum).toBe(disk)
    await end(bob.call, next)
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })
})

test('promise 41: replicas of a deployment are not interrupted, whatever their machine sells', async () => {
  await passForReal(journey.app)
  const carol = await journey.account({ usd: '1000' })
  const recipe = { name: 'custom', image: { name: 'lab/chat-engine' } }
  const deployment = { name: 'assistant', recipe, gpus: { model: 'RTX-3090', count: 1 }, replicas: { min: 1, max: 1 } }
  await succeed(carol.call, 'POST', '/v2/deployments', deployment)
  await journey.advance(LIST_LAG_MS)
  await journey.advance(LIST_LAG_MS)
  const [replica] = (await succeed(carol.call, 'GET', '/v2/rentals')).rentals
  expect(replica).toMatchObject({ kind: 'container', state: 'Running', interruptible: null })
  const machine = replica.machines[0].id as string
  const bought = { supplierId: supplier.id, reason: 'bought' }
  await succeed(journey.operator, 'PATCH', `/v2/operator/machines/${machine}`, bought)
  await succeed(supplier.call, 'PATCH', `/v2/supply/machines/${machine}`, { interruptiblePricePerGpuHourUsd: '0.05' })
  const { machines } = await succeed(journey.anonymous, 'GET', `/v2/marketplace/machines?text=${machine}`)
  expect(machines[0].gpusAfterWait).toBeNull()
  const more = { machineId: machine, gpuCount: machines[0].gpusTotal, maxWaitSeconds: 600 }
  expect(await order(bob.call, more)).toMatchObject({ body: { reason: 'no_capacity' } })
})

describe('a supplier', () => {
  test('sets a lower price and a notice, within limits', async () => {
    for (const bad of [
      { interruptiblePricePerGpuHourUsd: '1.15' },
      { pricePerGpuHourUsd: '0.40' },
      { interruptionNoticeSeconds: 59 },
      { interruptionNoticeSeconds: 601 },
    ])
      expect([bad, (await sell(bad)).status]).toEqual([bad, 400])
    expect((await offer()).interruptible).toMatchObject({ pricePerGpuHourUsd: formatUsd(LOWER), noticeSeconds: 120 })
    await sell({ interruptiblePricePerGpuHourUsd: null })
    expect((await offer()).interruptible).toBeNull()
    expect(await order(ada.call, { interruptible: true })).toMatchObject({
      status: 400,
      body: { reason: 'not_interruptible' },
    })
  })
})

function rentalOf({ id }: { id: number }) {
  return { rentalId: id }
}

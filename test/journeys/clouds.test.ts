/**
 * Machines of another cloud through the whole server: an operator adds an account, its offers appear at a price by rule,
 * and a rental there is ordered, charged, paid for and ended, with nothing left at the cloud and both sides in the ledger.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS } from '../../src/base/instant.ts'
import { costOfSpan, formatUsd, nanoUsdOf, sumUsd, usd } from '../../src/base/money.ts'
import { providerData } from '../../src/contract/provider-data.ts'
import { LambdaSim } from '../sim/clouds/lambda/cloud.ts'
import { chargedFor, checkLedgerAndEngines, startJourney, succeed, type Journey } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

const rentals = '/v2/alpha/on-demand/virtual-machine-rentals'
const order = { gpuCount: 1, gpuType: 'h100', networkType: 'ethernet', region: 'us-east-1' }
const type = 'gpu_1x_h100_sxm5'

let journey: Journey
let sim: LambdaSim
let ada: Call
let baseUrl: string

beforeAll(async () => {
  journey = await startJourney({ env: { BERTH_DRIVERS: 'host', BERTH_ALLOW_PRIVATE_ADDRESSES: 'true' } })
  sim = new LambdaSim({ clock: journey.clock, bootMs: 30_000 })
  baseUrl = await sim.server.listen()
  ada = (await journey.account({ usd: '1000', sshKey: true })).call
})
afterAll(async () => {
  await journey.close()
  await sim.server.close()
})

async function listOptions(): Promise<Array<Record<string, unknown>>> {
  const options = await succeed(ada, 'GET', '/v2/alpha/on-demand/rental-options')
  return options as Array<Record<string, unknown>>
}

/** Until the machine is listed as running. */
async function rent(): Promise<number> {
  const { id } = await succeed(ada, 'POST', rentals, order)
  await journey.pass()
  await journey.advance(30_000)
  return id as number
}

const statusOf = async (id: number) => (await succeed(ada, 'GET', `/v2/alpha/on-demand/rentals/${id}`)).status as string

async function end(id: number): Promise<void> {
  await succeed(ada, 'POST', `${rentals}/terminate`, { rentalId: id })
  await journey.pass()
  await journey.advance(MINUTE_MS)
}

describe('an account at another cloud', () => {
  test('is tried before it is added: its checks and offers are shown, and nothing is stored', async () => {
    const attempt = (body: object) => journey.operator('POST', '/v2/operator/providers/try', body)
    const right = { provider: 'lambda', baseUrl, credentials: { apiKey: sim.apiKey } }
    expect((await attempt({ ...right, credentials: {} })).body).toMatchObject({
      reason: 'missing_credential',
      issues: [{ path: ['credentials', 'apiKey'] }],
    })
    const wrong = await attempt({ ...right, credentials: { apiKey: 'wrong' } })
    expect([wrong.status, wrong.body.reason]).toEqual([503, 'provider_unreachable'])
    const tried = await succeed(journey.operator, 'POST', '/v2/operator/providers/try', right)
    expect(tried.ok).toBe(true)
    expect(tried.offers).toContainEqual(expect.objectContaining({ type, unsold: null, costPerHourUsd: '3.290000000' }))
    expect((await succeed(journey.operator, 'GET', '/v2/operator/providers')).providers).toEqual([])
    expect((await ada('POST', '/v2/operator/providers/try', right)).status).toBe(403)
  })

  test('is refused with wrong credentials, an unknown cloud or a taken name', async () => {
    const add = (body: object) => journey.operator('POST', '/v2/operator/providers', body)
    const main = { name: 'main', provider: 'lambda', baseUrl, credentials: { apiKey: sim.apiKey } }
    expect((await add({ ...main, credentials: {} })).body).toMatchObject({
      issues: [{ path: ['credentials', 'apiKey'] }],
    })
    expect((await add({ ...main, credentials: { apiKey: 'x', other: 'y' } })).status).toBe(400)
    expect((await add({ ...main, baseUrl: 'ftp://example.com' })).status).toBe(400)
    const added = await succeed(journey.operator, 'POST', '/v2/operator/providers', { ...main, markupPercentage: 20 })
    expect(added).toMatchObject({
      name: 'main',
      provider: 'lambda',
      state: 'unknown',
      markupPercentage: 20,
      rentals: 0,
    })
    expect(JSON.stringify(added)).not.toContain(sim.apiKey)
    expect((await add(main)).status).toBe(400)
    expect((await ada('GET', '/v2/operator/providers')).status).toBe(403)
  })

  test('is checked without changing anything, and shows what it offers and does not sell', async () => {
    const checked = await succeed(journey.operator, 'POST', '/v2/operator/providers/main/check', {})
    expect(checked).toMatchObject({ ok: true })
    const { offers } = await succeed(journey.operator, 'GET', '/v2/operator/providers/main/offers')
    expect(offers).toContainEqual(
      expect.objectContaining({
        type,
        providerRegion: 'us-east-1',
        region: 'us-east-1',
        unsold: null,
        costPerHourUsd: '3.290000000',
      }),
    )
    expect(offers).toContainEqual(expect.objectContaining({ type: 'gpu_1x_a10', unsold: 'gpu_not_sold' }))
  })

  test('has its offers among the rental options, at cost and markup', async () => {
    expect(await listOptions()).toEqual([])
    await journey.advance(MINUTE_MS)
    const option = (await listOptions()).find((one) => one.region === 'us-east-1' && one.gpuCount === 1)
    expect(option).toMatchObject({
      costPerHour: 3.948,
      gpuType: 'h100',
      totalAvailable: 2,
      machineType: 'virtual-machine',
    })
    const { providers } = await succeed(journey.operator, 'GET', '/v2/operator/providers')
    expect(providers).toMatchObject([{ name: 'main', state: 'healthy', answeredAt: journey.now() }])
  })
})

describe('a rental at another cloud', () => {
  let id: number

  test('runs, and fills its variant of provider data', async () => {
    id = await rent()
    const rental = await succeed(ada, 'GET', `/v2/alpha/on-demand/rentals/${id}`)
    expect(rental.status).toBe('Running')
    const data = providerData.parse(rental.providerData)
    expect(data).toMatchObject({
      providerId: 'lambda',
      resources: { vcpuCount: 26, gpuCount: 1, ramGb: 225, storageGb: 2816 },
      sshNetworking: [{ port: 22, user: 'ubuntu' }],
    })
    expect(sim.leftovers()).toHaveLength(2)
  })

  test('costs us what the cloud charges, also after its price has changed', async () => {
    await journey.advanceBy(10 * MINUTE_MS, 3)
    sim.setPrice(type, 400)
    await journey.pass()
    await journey.advance(10 * MINUTE_MS)
    await journey.advanceBy(10 * MINUTE_MS, 3)
    const { margins } = await succeed(journey.operator, 'GET', '/v2/operator/margins?by=rental')
    expect(margins).toMatchObject([{ subject: String(id) }])
    expect(usd(margins[0].costUsd)).toBeGreaterThan(0n)
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })

  test('is Unknown, not ended, while the cloud is silent, and the other engines go on', async () => {
    sim.server.down = true
    await journey.advance(1_000).catch(() => undefined)
    await journey.advance(MINUTE_MS).catch(() => undefined)
    expect(['Running', 'Unknown']).toContain(await statusOf(id))
    expect((await journey.operator('GET', '/readyz')).status).toBe(200)
    const { providers } = await succeed(journey.operator, 'GET', '/v2/operator/providers')
    expect(providers).toMatchObject([{ state: 'stale' }])
    expect((await journey.operator('POST', '/v2/operator/providers/main/check', {})).status).toBe(503)
    sim.server.down = false
    await journey.advance(5 * MINUTE_MS)
    await journey.advance(5 * MINUTE_MS)
    expect(await statusOf(id)).toBe('Running')
  })

  test('keeps its account: it cannot be removed', async () => {
    const refused = await journey.operator('DELETE', '/v2/operator/providers/main')
    expect([refused.status, refused.body.reason]).toEqual([400, 'provider_in_use'])
  })

  test('ends with nothing left at the cloud, and costs that match its bill up to the last minute', async () => {
    await end(id)
    await journey.advance(MINUTE_MS)
    expect(await statusOf(id)).toBe('Terminated')
    await journey.advance(MINUTE_MS)
    expect(sim.leftovers()).toEqual([])
    expect([...sim.launches().values()]).toEqual([1])
    const [bill] = sim.bills()
    const { margins } = await succeed(journey.operator, 'GET', '/v2/operator/margins')
    const [margin] = margins
    expect(margin).toMatchObject({ subject: 'main' })
    // The vendor bills started minutes, and we see a start or an end when we list.
    const difference = usd(margin.costUsd) - (bill?.nanoUsd ?? 0n)
    expect(difference).toBeGreaterThanOrEqual(0n)
    expect(difference).toBeLessThan(usd('4') / 30n)
    expect(usd(margin.revenueUsd)).toBe(await chargedFor(ada, { rentalId: id }))
    expect(usd(margin.marginUsd)).toBe(nanoUsdOf(usd(margin.revenueUsd) - usd(margin.costUsd)))
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })

  test('is compared with the invoice of the cloud', async () => {
    const [bill] = sim.bills()
    const lines = [
      { machine: bill?.id ?? '', amountUsd: '1.5' },
      { machine: 'unknown', amountUsd: '-0.25' },
    ]
    const compared = await succeed(journey.operator, 'POST', '/v2/operator/providers/main/compare', { lines })
    expect(compared).toMatchObject({ billedUsd: '1.250000000' })
    expect(compared.differences).toHaveLength(2)
    expect(compared.differences).toContainEqual(
      expect.objectContaining({ machine: 'unknown', recordedUsd: null, differenceUsd: '-0.250000000' }),
    )
  })

  test('has its difference from an imported bill, which is imported once', async () => {
    const bills = '/v2/operator/providers/main/bills'
    const [bill] = sim.bills()
    const machine = bill?.id ?? ''
    const lines = [
      { machine, amountUsd: '1' },
      { machine: 'credit', amountUsd: '-0.25' },
      { machine, amountUsd: '0.5' },
    ]
    const day = journey.now().slice(0, 10)
    const { margins } = await succeed(journey.operator, 'GET', '/v2/operator/margins?by=rental')
    const { costUsd } = margins[0] as { costUsd: string }
    const november = { label: 'Invoice 7', lines, from: day, to: day }
    const first = await succeed(journey.operator, 'POST', bills, november)
    expect(first).toMatchObject({
      isNew: true,
      bill: { label: 'Invoice 7', lines: 2, billedUsd: '1.250000000', from: day, to: day },
      recordedUsd: costUsd,
      differencesTotal: 2,
    })
    expect(first.differences).toContainEqual({
      machine,
      rentalId: id,
      volumeId: null,
      billedUsd: '1.500000000',
      recordedUsd: costUsd,
      differenceUsd: formatUsd(nanoUsdOf(usd('1.5') - usd(costUsd))),
    })
    // The same amounts in another order and under another name are the same bill.
    const again = await succeed(journey.operator, 'POST', bills, {
      ...november,
      label: 'copy',
      lines: lines.toReversed(),
    })
    expect(again).toEqual({ ...first, isNew: false })
    // Nothing was recorded in another period.
    const before = { lines: [{ machine, amountUsd: '0' }], from: '2020-01-01', to: '2020-01-31' }
    expect(await succeed(journey.operator, 'POST', '/v2/operator/providers/main/compare', before)).toMatchObject({
      recordedUsd: '0.000000000',
      differencesTotal: 0,
    })
    expect(await succeed(journey.operator, 'GET', bills)).toEqual({ bills: [first.bill] })
    const { isNew: _, ...stored } = first
    expect(await succeed(journey.operator, 'GET', `${bills}/${first.bill.id}`)).toEqual(stored)
    expect((await journey.operator('POST', bills, { ...november, to: '2020-01-31' })).body.issues).toMatchObject([
      { path: ['to'], code: 'bad_range' },
    ])
    await succeed(journey.operator, 'DELETE', `${bills}/${first.bill.id}`)
    expect((await journey.operator('GET', `${bills}/${first.bill.id}`)).body.reason).toBe('bill_not_found')
  })
})

describe('orders that do not go well', () => {
  test('a machine that is ended before it was seen running costs the first increment of the cloud', async () => {
    const { id } = await succeed(ada, 'POST', rentals, order)
    await journey.pass()
    await end(id)
    await journey.advance(MINUTE_MS)
    expect(await statusOf(id)).toBe('Terminated')
    const { margins } = await succeed(journey.operator, 'GET', '/v2/operator/margins?by=rental')
    const margin = (margins as Array<{ subject: string }>).find(({ subject }) => subject === String(id))
    // The price was raised before.
    const costUsd = formatUsd(costOfSpan(usd('4'), MINUTE_MS))
    expect(margin).toMatchObject({ costUsd, revenueUsd: '0.000000000' })
    expect(sim.leftovers()).toEqual([])
  })

  test('an order that was made without an answer is found again, not made twice', async () => {
    sim.server.arm('launchInstance', { kind: 'late' })
    const { id } = await succeed(ada, 'POST', rentals, order)
    await journey.pass().catch(() => undefined)
    for (let n = 0; n < 4; n += 1) await journey.advance(MINUTE_MS)
    expect(await statusOf(id)).toBe('Running')
    await end(id)
    await journey.advance(MINUTE_MS)
    expect([...sim.launches().values()].filter((count) => count > 1)).toEqual([])
    expect(sim.leftovers()).toEqual([])
  })

  test('a machine that the cloud takes back fails the rental, and costs nothing from then on', async () => {
    const id = await rent()
    sim.loseAll()
    await journey.advance(MINUTE_MS)
    expect(await statusOf(id)).toBe('Failed')
    for (let n = 0; n < 3; n += 1) await journey.advance(MINUTE_MS)
    expect(sim.leftovers()).toEqual([])
  })

  test('a price that rose above the selling price is not paid: the order finds no place', async () => {
    await journey.operator('PATCH', '/v2/operator/providers/main', {
      markupPercentage: null,
      fixedPerGpuHourUsd: '4.50',
    })
    await journey.advance(MINUTE_MS)
    const { id } = await succeed(ada, 'POST', rentals, order)
    sim.setPrice(type, 900)
    await journey.pass()
    expect(await statusOf(id)).toBe('Failed')
    expect(sim.leftovers()).toEqual([])
    await journey.advance(MINUTE_MS)
    // The rule never sells below cost: the price follows.
    const [option] = (await listOptions()).filter((one) => one.region === 'us-east-1' && one.gpuCount === 1)
    expect(option).toMatchObject({ costPerHour: 9 })
    await succeed(journey.operator, 'PATCH', '/v2/operator/providers/main', { sellsBelowCost: true })
    await journey.advance(MINUTE_MS)
    const [below] = (await listOptions()).filter((one) => one.region === 'us-east-1' && one.gpuCount === 1)
    expect(below).toMatchObject({ costPerHour: 4.5, totalAvailable: 2 })
    sim.setPrice(type, 329)
    await succeed(journey.operator, 'PATCH', '/v2/operator/providers/main', { sellsBelowCost: false })
    await end(id)
  })

  test('placement explains its candidates by cost, preference and what became of recent orders', async () => {
    const wanted = { machineType: 'virtual-machine', ...order }
    await journey.advance(MINUTE_MS)
    const { candidates } = await succeed(journey.operator, 'POST', '/v2/operator/placement', wanted)
    expect(candidates[0]).toMatchObject({
      order: 'first',
      costPerGpuHourUsd: '3.290000000',
      preference: 0,
      history: { noCapacity: 1, failed: 0 },
    })
    expect(candidates[0].history.made).toBeGreaterThanOrEqual(2)
    expect(candidates[0].history.startSeconds).toBeGreaterThan(0)
    expect(candidates[1]).toMatchObject({ order: 'same' })
  })

  test('an account at its spending cap or suspended takes no orders, and is used again afterwards', async () => {
    const change = (body: object) => succeed(journey.operator, 'PATCH', '/v2/operator/providers/main', body)
    const available = async () => (await listOptions()).reduce((sum, one) => sum + (one.totalAvailable as number), 0)
    for (const [closed, open] of [
      [{ monthlyCapUsd: '0.01' }, { monthlyCapUsd: null }],
      [{ suspended: true }, { suspended: false }],
    ]) {
      await change(closed ?? {})
      await journey.advance(MINUTE_MS)
      expect(await available()).toBe(0)
      await change(open ?? {})
      await journey.advance(MINUTE_MS)
      expect(await available()).toBeGreaterThan(0)
    }
  })

  test('rejected credentials break the account until they are rotated, without a restart', async () => {
    const rotate = (apiKey: string) =>
      succeed(journey.operator, 'POST', '/v2/operator/providers/main/rotate', { credentials: { apiKey } })
    const state = async () =>
      (await succeed(journey.operator, 'GET', '/v2/operator/providers')).providers[0].state as string
    await rotate('revoked-key')
    await journey.advance(MINUTE_MS).catch(() => undefined)
    expect(await state()).toBe('broken')
    await rotate(sim.apiKey)
    await journey.advance(MINUTE_MS)
    expect(await state()).toBe('healthy')
  })

  test('every request was as the cloud describes it, and the ledger adds up', async () => {
    await journey.advance(HOUR_MS)
    expect(sim.server.violations).toEqual([])
    expect(await checkLedgerAndEngines(journey)).toEqual([])
    const costs = await succeed(journey.operator, 'GET', '/v2/operator/margins?by=day')
    const days = sumUsd((costs.margins as Array<{ costUsd: string }>).map(({ costUsd }) => usd(costUsd)))
    const ledger = await succeed(journey.operator, 'GET', '/v2/operator/ledger/verify')
    expect(usd(ledger.houseUsd.cost_of_goods)).toBe(days)
  })

  test('an account without rentals is removed, and its name is not given again', async () => {
    await succeed(journey.operator, 'DELETE', '/v2/operator/providers/main')
    expect((await succeed(journey.operator, 'GET', '/v2/operator/providers')).providers).toEqual([])
    const again = { name: 'main', provider: 'lambda', baseUrl, credentials: { apiKey: sim.apiKey } }
    expect((await journey.operator('POST', '/v2/operator/providers', again)).status).toBe(400)
  })
})

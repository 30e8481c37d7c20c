/** A month under a budget, through the API: alerts, the stop, what is refused, and an export that equals the ledger. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS } from '../../src/base/instant.ts'
import { costOfSpan, nanoUsdOf, sumUsd, usd, type NanoUsd } from '../../src/base/money.ts'
import {
  checkLedgerAndEngines,
  eventTypesOf,
  LIST_LAG_MS,
  startJourney,
  succeed,
  type Journey,
} from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

const NODE = { cluster_name: 'mock-sin', node_name: 'mock-sin-a100-01' }
const PRICE = usd('1.15')

let journey: Journey
let ada: { id: string; key: string; call: Call }
beforeAll(async () => {
  journey = await startJourney()
  ada = await journey.account({ usd: '90' })
})
afterAll(() => journey.close())

const power = (id: string, act: 'stop' | 'start') =>
  ada.call('POST', `/v2/rentals/${id}/${act}`, act === 'start' ? {} : undefined)
const rental = async (id: string) => succeed(ada.call, 'GET', `/v2/rentals/${id}`)

async function rent(label: string): Promise<string> {
  const order = { ...NODE, gpu_count: 1, label }
  const { instance_id } = await succeed(ada.call, 'POST', '/v1/marketplace/instances/create', order)
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  return instance_id
}

async function budget(): Promise<{ spent: NanoUsd; blocks: boolean; spentPercent: number; id: string }> {
  const [only] = (await succeed(ada.call, 'GET', '/v2/budgets')).budgets
  return { ...only, spent: usd(only.spentUsd) }
}

test('alerts at each percentage, stops the rental at 100% with its disk kept, and refuses what would spend more', async () => {
  const id = await rent('training')
  const order = { name: 'Research', monthlyUsd: '4.60', action: 'stop' }
  const made = await succeed(ada.call, 'POST', '/v2/budgets', order)
  expect(made).toMatchObject({ alertsPercent: [50, 80, 100], blocks: false })
  await journey.advanceBy(30 * MINUTE_MS, 4)
  expect(await eventTypesOf(ada.call, `budget:${made.id}`)).toEqual(['budget.alert'])
  await journey.advanceBy(30 * MINUTE_MS, 4)
  await journey.pass()
  expect(await eventTypesOf(ada.call, `budget:${made.id}`)).toEqual(['budget.alert', 'budget.alert', 'budget.exceeded'])
  expect(await rental(id)).toMatchObject({ state: 'Stopped', statusReason: 'budget_exceeded' })

  // Exceeded when four hours were over; the machine was off with the same pass.
  const { spent, blocks } = await budget()
  expect(blocks).toBe(true)
  expect(spent >= costOfSpan(PRICE, 4 * HOUR_MS)).toBe(true)
  expect(spent < costOfSpan(PRICE, 4 * HOUR_MS + MINUTE_MS)).toBe(true)

  const refused = [
    await power(id, 'start'),
    await ada.call('POST', '/v1/marketplace/instances/create', { ...NODE, gpu_count: 1 }),
    await ada.call('POST', '/v2/alpha/on-demand/virtual-machine-rentals', { gpuCount: 1, region: 'mock-region' }),
    await ada.call('POST', '/v2/alpha/on-demand/storage-volumes', {
      region: 'us-central-1',
      label: 'data',
      sizeInGb: 256,
    }),
  ]
  for (const { status, body } of refused) {
    expect([400, 402, 403]).toContain(status)
    expect(body.reason ?? body.message).toMatch(/budget/i)
  }
  const { notifications, unread } = await succeed(ada.call, 'GET', '/v2/notifications')
  expect(notifications.map(({ kind }: { kind: string }) => kind)).toEqual([
    'rental_stopped',
    'budget',
    'budget',
    'budget',
  ])
  expect(unread).toBe(4)
})

test('a raised budget lets the rental start again', async () => {
  // Meanwhile only the disk is paid for.
  await journey.advance(HOUR_MS)
  const { id: budgetId } = await budget()
  await succeed(ada.call, 'PATCH', `/v2/budgets/${budgetId}`, { monthlyUsd: '50' })
  const [stopped] = (await succeed(ada.call, 'GET', '/v1/marketplace/instances')).instances
  expect((await power(stopped.id, 'start')).status).toBe(200)
  await journey.pass()
  await journey.advance(HOUR_MS)
  expect(await rental(stopped.id)).toMatchObject({ state: 'Running' })
  expect((await budget()).blocks).toBe(false)
})

test('the CSV export has one line per day and resource, and adds up to the ledger', async () => {
  await journey.advanceBy(6 * HOUR_MS, 5)
  const [instance] = (await succeed(ada.call, 'GET', '/v1/marketplace/instances')).instances
  await succeed(ada.call, 'POST', '/v1/marketplace/instances/terminate', { id: instance.id })
  await journey.pass()
  await journey.advance(HOUR_MS)
  const response = await fetch(`${journey.url}/v2/billing/statement.csv?from=2026-01-01&to=2026-01-31`, {
    headers: { Authorization: `Bearer ${ada.key}` },
  })
  expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8')
  const [titles = '', opening = '', ...rest] = (await response.text()).trimEnd().split('\r\n')
  const lines = rest.slice(0, -1).map((line) => line.split(','))
  expect(titles).toBe('day,kind,description,service,rental_id,volume_id,model,postings,amount_usd,balance_usd')
  expect(opening).toMatch(/^2026-01-01,opening_balance,.*,0\.000000000$/)
  expect(new Set(lines.map((cells) => cells.slice(0, 7).join())).size).toBe(lines.length)

  const { lines: postings } = await succeed(ada.call, 'GET', '/v2/customer/statement?limit=1000')
  const ledgerSum = sumUsd(postings.map(({ amountUsd }: { amountUsd: string }) => usd(amountUsd)))
  expect(sumUsd(lines.map((cells) => usd(cells[8] ?? '')))).toBe(ledgerSum)
  expect(lines.reduce((sum, cells) => sum + Number(cells[7]), 0)).toBe(postings.length)
  const { balanceUsd } = await succeed(ada.call, 'GET', '/v2/customer/balance')
  expect(rest.at(-1)).toMatch(new RegExp(`,closing_balance,.*,${balanceUsd}$`))
  expect(usd(balanceUsd)).toBe(ledgerSum)
  // Running and stopped hours of the same rental on one day are two services.
  const services = new Set(lines.filter((cells) => cells[1] === 'charge').map((cells) => cells[3]))
  expect(services).toEqual(new Set(['machines', 'storage']))

  const costs = await succeed(ada.call, 'GET', '/v2/usage/costs?from=2026-01-01&to=2026-01-31')
  const charges = postings.filter(({ kind }: { kind: string }) => kind === 'charge')
  const charged = nanoUsdOf(0n - sumUsd(charges.map(({ amountUsd }: { amountUsd: string }) => usd(amountUsd))))
  expect(usd(costs.totalUsd)).toBe(charged)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

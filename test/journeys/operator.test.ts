/** An operator's day: prices, money, quotas, machines, stuck rentals, and an audit log with actors and reasons. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/base/instant.ts'
import { costOfSpan, usd } from '../../src/base/money.ts'
import { chargedFor, checkLedgerAndEngines, startJourney, succeed, type Journey } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

const path = '/v2/alpha/on-demand/virtual-machine-rentals'

let journey: Journey
let ada: { id: string; key: string; call: Call }
beforeAll(async () => {
  journey = await startJourney()
  ada = await journey.account({ usd: '100' })
})
afterAll(() => journey.close())

const operate = (method: string, where: string, body?: unknown, headers?: Record<string, string>) =>
  succeed(journey.operator, method, `/v2/operator/${where}`, body, headers)
const order = { gpuCount: 1, region: 'mock-region' }

test('opens an account with an owner and a key that has customer access', async () => {
  const { account, key } = await operate('POST', 'accounts', {
    name: ' Harbour ',
    ownerEmail: 'h@example.test',
    ownerName: 'Hana',
  })
  expect(account).toMatchObject({ name: 'Harbour', suspended: false, supplier: false, availableUsd: '0.000000000' })
  const me = await succeed(journey.as(key), 'GET', '/v2/users/me')
  expect(me).toMatchObject({ email: 'h@example.test', name: 'Hana', role: 'owner', account: { id: account.id } })
  expect(me.key.scopes).toEqual(['inference', 'compute:read', 'compute:write', 'billing:read', 'billing:write', 'keys'])
  const { accounts } = await operate('GET', 'accounts?limit=1000')
  expect(accounts.map((one: { id: string }) => one.id)).toContain(account.id)
})

test('a price change is listed and charged; running rentals keep the old price', async () => {
  const before = await journey.rentVirtualMachine(ada.call)
  const row = { machineType: 'virtual-machine', region: 'mock-region', gpuType: 'h100', networkType: 'ethernet' }
  const gpus = [
    { ...row, gpuCount: 1, perGpuHourUsd: '3.000000001', enabled: true },
    { ...row, gpuCount: 2, perGpuHourUsd: '2.49', enabled: false },
  ]
  const book = await operate('PUT', 'price-book', { gpus, reason: 'power is dearer' })
  expect(book.gpus).toContainEqual(gpus[0])
  const options: Array<Record<string, unknown>> = await succeed(
    journey.anonymous,
    'GET',
    '/v2/alpha/on-demand/rental-options',
  )
  const here = options.filter(
    (one) => one['region'] === 'mock-region' && one['gpuType'] === 'h100' && one['connectionType'] === 'ethernet',
  )
  expect(new Set(here.map((one) => [one['gpuCount'], one['costPerHour'], one['enabled']]))).toEqual(
    new Set([
      [1, 3.000000001, true],
      [2, 4.98, false],
      [4, 9.96, true],
      [8, 19.92, true],
    ]),
  )
  const disabled = await ada.call('POST', path, { ...order, gpuCount: 2 })
  expect([disabled.status, disabled.body.reason]).toEqual([400, 'option_not_offered'])
  const after = await journey.rentVirtualMachine(ada.call)
  expect(after.currentTerm.costPerHour).toBe(3.000000001)
  await journey.advance(HOUR_MS)
  for (const { id } of [before, after]) await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: id })
  await journey.pass()
  const span = Date.parse(journey.now()) - Date.parse(before.startedAt)
  expect(await chargedFor(ada.call, { rentalId: before.id })).toBe(costOfSpan(usd('2.49'), span))
  expect(await chargedFor(ada.call, { rentalId: after.id })).toBe(usd('3.000000001'))
  const twice = await journey.operator('PUT', '/v2/operator/price-book', {
    gpus: [gpus[0], gpus[0]],
    reason: 'a mistake',
  })
  expect([twice.status, twice.body.reason, twice.body.issues[0].path]).toEqual([400, 'duplicate_row', ['gpus', 1]])
})

test('adds, grants and corrects money, never below zero; each change is on the statement', async () => {
  const bob = await journey.account()
  const move = (what: string, body: object) => journey.operator('POST', `/v2/operator/accounts/${bob.id}/${what}`, body)
  const paid = await move('credit', { amountUsd: '50', reason: 'invoice 7 paid' })
  expect(paid.body).toMatchObject({ availableUsd: '50.000000000', replayed: false })
  await move('credit', { amountUsd: '5', kind: 'credit', reason: 'welcome' })
  expect((await move('adjust', { amountUsd: '-54.999999999', reason: 'charged wrongly' })).body).toMatchObject({
    availableUsd: '0.000000001',
  })
  const below = await move('adjust', { amountUsd: '-0.000000002', reason: 'too much' })
  expect([below.status, below.body.reason]).toEqual([403, 'insufficient_balance'])
  expect((await move('adjust', { amountUsd: '0', reason: 'of nothing' })).status).toBe(400)
  const { lines } = await succeed(bob.call, 'GET', '/v2/customer/statement')
  expect(
    lines.map((line: Record<string, unknown>) => [
      line['kind'],
      line['amountUsd'],
      line['balanceAfterUsd'],
      line['reason'],
    ]),
  ).toEqual([
    ['adjustment', '-54.999999999', '0.000000001', 'charged wrongly'],
    ['credit', '5.000000000', '55.000000000', 'welcome'],
    ['purchase', '50.000000000', '50.000000000', 'invoice 7 paid'],
  ])
  const timestamp = journey.now().replace('Z', '+00:00')
  expect(await succeed(bob.call, 'GET', '/billing/purchase_history')).toEqual({
    purchase_history: [
      { amount: '500', timestamp, source: 'operator_credit', memo: 'Credit' },
      { amount: '5000', timestamp, source: 'stripe_purchase', memo: 'Purchase' },
    ],
  })
  const { records } = await operate('GET', `audit?accountId=${bob.id}`)
  expect(records.map((record: Record<string, unknown>) => [record['action'], record['reason']])).toEqual([
    ['balance.adjustment', 'charged wrongly'],
    ['balance.credit', 'welcome'],
    ['balance.purchase', 'invoice 7 paid'],
    ['account.create', null],
  ])
  const { records: all } = await operate('GET', 'audit?limit=1000')
  expect(all.map((record: { action: string }) => record.action)).toContain('price_book.change')
})

test('enforces a quota, and raising it allows the next order', async () => {
  await operate('PATCH', `accounts/${ada.id}`, { quota: { gpus: 1 }, reason: 'on trial' })
  const refused = await ada.call('POST', path, { ...order, gpuCount: 4 })
  expect([refused.status, refused.body.reason]).toEqual([403, 'quota_exceeded'])
  const raised = await operate('PATCH', `accounts/${ada.id}`, { quota: { gpus: 4 }, reason: 'contract signed' })
  expect(raised.quota).toMatchObject({ gpus: 4, volumes: 100 })
  const rental = await journey.rentVirtualMachine(ada.call, { gpuCount: 4 })
  await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: rental.id })
  await journey.pass()
})

test('a suspended account is locked out immediately until it is reinstated', async () => {
  const meets = (status: number) => async () => (await ada.call('GET', '/v2/users/me')).status === status
  await operate('PATCH', `accounts/${ada.id}`, { suspended: true, reason: 'chargeback' })
  await waitFor('the suspension to take effect', meets(403))
  expect((await ada.call('POST', path, order)).body.reason).toBe('account_suspended')
  await operate('PATCH', `accounts/${ada.id}`, { suspended: false, reason: 'settled' })
  await waitFor('the account to be back', meets(200))
  const self = await journey.operator('PATCH', '/v2/operator/accounts/operator', { suspended: true, reason: 'oops' })
  expect(self.status).toBe(400)
})

test('a drained machine or one that lost a GPU keeps its rentals and gets no new ones', async () => {
  const place = { region: 'eu-north-2', gpuType: 'h200' }
  const rental = await journey.rentVirtualMachine(ada.call, place)
  const change = (body: object) => operate('PATCH', 'machines/mock-eun2-h200-01', { ...body, reason: 'maintenance' })
  expect(await change({ draining: true })).toMatchObject({ status: 'node_draining', gpusInUse: 1, driver: 'mock' })
  expect((await ada.call('POST', path, { gpuCount: 1, ...place })).body.reason).toBe('no_capacity')
  await journey.advance(MINUTE_MS)
  expect(await change({ draining: false, gpusSick: [7, 2, 3, 4, 5, 6] })).toMatchObject({
    status: 'node_ready',
    gpusSick: [2, 3, 4, 5, 6, 7],
    gpusWithdrawn: [2, 3, 4, 5, 6, 7],
  })
  const last = await journey.rentVirtualMachine(ada.call, place)
  expect((await ada.call('POST', path, { gpuCount: 1, ...place })).body.reason).toBe('no_capacity')
  await change({ gpusSick: [] })
  const noSuch = await journey.operator('PATCH', '/v2/operator/machines/mock-eun2-h200-01', {
    gpusSick: [8],
    reason: 'typo',
  })
  expect([noSuch.status, noSuch.body.reason]).toEqual([400, 'gpu_out_of_range'])
  for (const { id } of [rental, last]) await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: id })
  await journey.pass()
})

test('lists a stuck rental with its engine id until it ends', async () => {
  const rental = await journey.rentVirtualMachine(ada.call, { label: 'fault-destroy-slow' })
  await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: rental.id })
  await journey.pass()
  expect((await operate('GET', 'rentals?stuck=true')).rentals).toEqual([])
  await journey.advanceBy(4 * MINUTE_MS, 4)
  const { rentals } = await operate('GET', 'rentals?stuck=true')
  expect(rentals).toMatchObject([
    {
      id: rental.id,
      accountId: ada.id,
      status: 'Terminating',
      kind: 'virtual-machine',
      driver: 'mock',
      externalId: expect.stringMatching(/^mock-m-/),
    },
  ])
  await journey.advanceBy(2 * MINUTE_MS, 3)
  expect((await operate('GET', 'rentals?stuck=true')).rentals).toEqual([])
  const ended = (await operate('GET', `rentals?status=Terminated&accountId=${ada.id}`)).rentals
  expect(ended[0].id).toBe(rental.id)
})

test('the month ends with a final invoice that adds up', async () => {
  await journey.advance(31 * DAY_MS)
  const { invoices } = await succeed(ada.call, 'GET', '/v2/invoices')
  expect(invoices).toMatchObject([{ month: '2026-01', status: 'final' }])
  const invoice = await succeed(ada.call, 'GET', '/v2/invoices/2026-01')
  const sum = invoice.lines.reduce((total: bigint, line: { amountUsd: string }) => total + usd(line.amountUsd), 0n)
  expect(sum).toBe(usd(invoice.chargesUsd))
  expect(usd(invoice.openingBalanceUsd) + usd(invoice.paymentsUsd) - usd(invoice.chargesUsd)).toBe(
    usd(invoice.closingBalanceUsd),
  )
  const { balanceUsd } = await succeed(ada.call, 'GET', '/v2/customer/balance')
  expect(invoice.closingBalanceUsd).toBe(balanceUsd)
  expect(await succeed(ada.call, 'GET', '/v2/invoices/2026-01/html')).toContain(invoice.number)
  expect((await ada.call('GET', '/v2/invoices/2025-12')).status).toBe(404)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

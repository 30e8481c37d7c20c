/** A customer rents, uses and ends a virtual machine on a server that runs its own loops. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../src/base/instant.ts'
import { costOfSpan, formatUsd, usd } from '../../src/base/money.ts'
import { chargedFor, eventTypesOf, checkLedgerAndEngines, succeed } from '../harness/journey.ts'
import { testServer, testSshKey, type Call, type TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

const path = '/v2/alpha/on-demand/virtual-machine-rentals'
/** Four H100 with Ethernet at the default prices. */
const PRICE = usd('9.96')

let server: TestServer
let rentalId: number
let ada: { id: string; key: string; call: Call }
beforeAll(async () => {
  server = await testServer()
  ada = await server.account({ sshKey: false })
})
afterAll(() => server.close())

const detail = (id: number) => succeed(ada.call, 'GET', `/v2/alpha/on-demand/rentals/${id}`)
const waitForStatus = (id: number, status: string) =>
  waitFor(`rental ${id} to be ${status}`, async () => {
    const rental = await detail(id)
    return rental.status === status ? rental : undefined
  })
const order = { gpuCount: 4, region: 'mock-region', label: 'notebook', customPorts: [8888], monitoringEnabled: true }

test('rejects an order without an SSH key, and then without money', async () => {
  const noKey = await ada.call('POST', path, order)
  expect([noKey.status, noKey.body.code, noKey.body.reason]).toEqual([400, 'BAD_REQUEST', 'no_ssh_key'])
  await succeed(ada.call, 'POST', '/v2/ssh-keys', { name: 'laptop', publicKey: testSshKey })
  const noMoney = await ada.call('POST', path, order)
  expect(noMoney.status).toBe(403)
  expect(noMoney.body).toEqual({
    code: 'FORBIDDEN',
    reason: 'insufficient_balance',
    message: expect.stringContaining('$9.96'),
  })
  expect(await succeed(ada.call, 'GET', path)).toEqual([])
})

test('options show their prices, and only options can be ordered', async () => {
  const options: Array<Record<string, unknown>> = await succeed(
    server.anonymous,
    'GET',
    '/v2/alpha/on-demand/rental-options',
  )
  const wanted = { region: 'mock-region', gpuType: 'h100', connectionType: 'ethernet', gpuCount: 4 }
  expect(options.filter((one) => Object.entries(wanted).every(([key, value]) => one[key] === value))).toEqual([
    {
      ...wanted,
      enabled: true,
      costPerHour: 9.96,
      gpuFormFactor: 'sxm5',
      ethernetVariant: 'normal',
      totalAvailable: 4,
      machineType: 'virtual-machine',
      simulated: 'machine',
      stoppedDiskUsdPerGbMonth: '0.100000000',
      nodes: [{ cpuModel: 'Intel Xeon Platinum 8480C', gpuCount: 4, ramGb: 1024, storageGb: 15_360, cpuCount: 112 }],
    },
  ])
  await succeed(server.operator, 'POST', `/v2/operator/accounts/${ada.id}/credit`, { amountUsd: '25', reason: 'paid' })
  const odd = await ada.call('POST', path, { ...order, gpuCount: 3 })
  expect([odd.status, odd.body.reason, odd.body.issues[0].path]).toEqual([400, 'option_not_offered', ['gpuCount']])
  const nowhere = await ada.call('POST', path, { ...order, region: 'jp-east-1' })
  expect([nowhere.status, nowhere.body.reason]).toEqual([400, 'no_capacity'])
})

test('is created immediately, starts, ends, and costs exactly the time in between', async () => {
  const created = await succeed(ada.call, 'POST', path, order)
  rentalId = created.id
  expect(created).toMatchObject({
    rentalType: 'virtual-machine',
    label: 'notebook',
    region: 'mock-region',
    gpuType: 'h100',
    gpuCount: 4,
    startedAt: null,
    terminatedAt: null,
    deletedAt: null,
    convertToOnDemandOnExpiry: true,
    managedK8sClusterId: null,
    orgId: ada.id,
    providerData: {
      providerId: 'mock',
      networkType: 'ethernet',
      resources: { gpuCount: 4, vcpuCount: 112 },
      customPorts: [8888],
    },
    meta: { monitoring_enabled: true },
  })
  expect(created.externalId).toMatch(new RegExp(`^berth-[0-9a-f]+-${created.id}-[0-9a-f]{8}$`))

  const running = await waitForStatus(created.id, 'Running')
  expect(running.providerData.sshNetworking).toEqual([
    { host: expect.stringMatching(/^198\.18\.\d+\.\d+$/), port: 22, user: 'ubuntu' },
  ])
  expect(running.providerData.customPorts).toEqual([8888])
  expect(running.simulated).toBe('machine')
  expect(running.currentTerm).toMatchObject({ termType: 'on-demand', costPerHour: 9.96, reservedUntil: null })
  const [listed] = await succeed(ada.call, 'GET', path)
  expect(listed).toMatchObject({ id: created.id, status: 'Running', supportsFeature: { attachedStorage: false } })
  // An hour is on hold, less the cost since the start.
  const runUpUntil = (now: number) => costOfSpan(PRICE, now - Date.parse(running.startedAt))
  const least = runUpUntil(systemClock.now())
  const balance = await succeed(ada.call, 'GET', '/v2/customer/balance')
  const most = runUpUntil(systemClock.now())
  expect(balance).toMatchObject({ hourlySpendUsd: formatUsd(PRICE), availableUsd: '15.040000000' })
  const held = usd(balance.heldUsd)
  expect(usd(balance.balanceUsd)).toBe(usd('15.04') + held)
  expect(PRICE - held).toBeGreaterThanOrEqual(least)
  expect(PRICE - held).toBeLessThanOrEqual(most)

  expect(await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: created.id })).toEqual({
    message: 'Rental successfully terminated',
    rentalId: created.id,
  })
  const again = await ada.call('POST', `${path}/terminate`, { rentalId: created.id })
  expect([again.status, again.body.reason]).toEqual([400, 'already_terminated'])

  const ended = await waitForStatus(created.id, 'Terminated')
  const ms = Date.parse(ended.terminateRequestedAt) - Date.parse(ended.startedAt)
  expect(ms).toBeGreaterThan(0)
  const cost = costOfSpan(PRICE, ms)
  expect(ended).toMatchObject({ costSoFarUsd: formatUsd(cost), statusReason: 'customer_request' })
  expect(ended.meta.termination_reason).toBe('customer_request')
  expect(Date.parse(ended.terminatedAt)).toBeGreaterThanOrEqual(Date.parse(ended.terminateRequestedAt))
  const left = formatUsd((usd('25') - cost) as typeof cost)
  expect(await succeed(ada.call, 'GET', '/v2/customer/balance')).toMatchObject({
    balanceUsd: left,
    availableUsd: left,
    heldUsd: '0.000000000',
    hourlySpendUsd: '0.000000000',
    emptyAt: null,
  })
  expect(await chargedFor(ada.call, { rentalId })).toBe(cost)
  expect(await succeed(ada.call, 'GET', path)).toEqual([])
})

test('its events show every step in order', async () => {
  expect(await eventTypesOf(ada.call, `rental:${rentalId}`)).toEqual([
    'rental.created',
    'rental.running',
    'rental.terminating',
    'rental.terminated',
  ])
  expect(await checkLedgerAndEngines(server)).toEqual([])
})

test('rejects an order whose price cap was exceeded by a price change, and accepts the current price', async () => {
  await succeed(server.operator, 'POST', `/v2/operator/accounts/${ada.id}/credit`, { amountUsd: '50', reason: 'paid' })
  const upTo = (maxCostPerHourUsd: string) =>
    ada.call('POST', path, { ...order, maxCostPerHourUsd }, { 'Idempotency-Key': 'price-1' })
  await setPrice('2.490000001')
  const refused = await upTo('9.96')
  expect([refused.status, refused.body.code, refused.body.reason]).toEqual([400, 'BAD_REQUEST', 'price_changed'])
  expect(refused.body.message).toContain('$9.96')
  expect(refused.body.issues[0].path).toEqual(['maxCostPerHourUsd'])
  expect(await succeed(ada.call, 'GET', path)).toEqual([])
  expect(await succeed(ada.call, 'GET', '/v2/customer/balance')).toMatchObject({ heldUsd: '0.000000000' })

  // The idempotency key was not used up, so another order may use it.
  const taken = await upTo('9.960000004')
  expect(taken.status).toBe(200)
  const { currentTerm } = await detail(taken.body.id)
  expect(currentTerm.costPerHour).toBe(9.960000004)
  // Once ordered, the same request gets the same response, whatever the price is now.
  await setPrice('3')
  expect((await upTo('9.960000004')).body).toEqual(taken.body)
  await succeed(ada.call, 'POST', `${path}/terminate`, { rentalId: taken.body.id })
})

/** Per GPU-hour, for the orders in this file. */
async function setPrice(perGpuHourUsd: string): Promise<void> {
  const row = { machineType: 'virtual-machine', region: 'mock-region', gpuType: 'h100', networkType: 'ethernet' }
  const gpus = [{ ...row, gpuCount: 4, perGpuHourUsd, enabled: true }]
  await succeed(server.operator, 'PUT', '/v2/operator/price-book', { gpus, reason: 'power is dearer' })
}

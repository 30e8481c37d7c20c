/** Limits where the interface names none: far beyond any real client, and documented. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { limits, MAX_INT32 } from '../../src/base/limits.ts'
import { startJourney, succeed, type Journey } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

const base = '/v2/alpha/on-demand'
let journey: Journey
let ada: { call: Call }
beforeAll(async () => {
  journey = await startJourney()
  ada = await journey.account({ usd: '1000' })
})
afterAll(() => journey.close())

test('accepts a long label; rejects one over the limit, naming the limit', async () => {
  const order = { gpuCount: 1, region: 'mock-region' }
  const label = 'é'.repeat(limits.labelChars)
  const made = await succeed(ada.call, 'POST', `${base}/virtual-machine-rentals`, { ...order, label })
  expect(made.label).toBe(label)
  const long = await ada.call('POST', `${base}/virtual-machine-rentals`, { ...order, label: `${label}x` })
  expect([long.status, long.body.issues[0].path]).toEqual([400, ['label']])
  expect(long.body.issues[0].message).toContain(String(limits.labelChars))
})

test('the response to an order has its custom ports', async () => {
  const order = { gpuCount: 1, region: 'mock-region', customPorts: [8080, 9000] }
  const made = await succeed(ada.call, 'POST', `${base}/virtual-machine-rentals`, order)
  expect(made.providerData.customPorts).toEqual([8080, 9000])
})

test('a bare-metal rental on Ethernet shows its variant, one on InfiniBand does not', async () => {
  for (const networkType of ['ethernet', 'infiniband']) {
    await succeed(ada.call, 'POST', `${base}/bare-metal-rentals`, { gpuCount: 8, networkType })
  }
  const listed: Array<{ connectionType: string; ethernetVariant?: string }> = await succeed(
    ada.call,
    'GET',
    `${base}/bare-metal-rentals`,
  )
  const variants = listed.map(({ connectionType, ethernetVariant }) => [connectionType, ethernetVariant])
  expect(variants).toEqual([
    ['infiniband', undefined],
    ['ethernet', 'rocev2'],
  ])
})

test('accepts any number of GPUs', async () => {
  for (const gpuCount of [1, 1.5, 1_000_001, MAX_INT32]) {
    const reply = await ada.call('POST', `${base}/request-reservation`, { gpuCount })
    expect([gpuCount, reply.status]).toEqual([gpuCount, 200])
  }
  const { events } = await succeed(ada.call, 'GET', '/v2/events?type=reservation.requested')
  expect(events.map((event: { data: { gpuCount: number } }) => event.data.gpuCount)).toContain(2)
})

test('attaches a volume to a thousand rentals in one request', async () => {
  const rentalIds = Array.from({ length: limits.attachmentsPerVolume }, (_, at) => at + 1_000_000)
  const attach = (ids: number[]) =>
    ada.call('POST', `${base}/storage-volumes/attach`, { storageVolumeId: 1, rentalIds: ids })
  expect((await attach(rentalIds)).body.reason).toBe('rental_not_found')
  const over = await attach([...rentalIds, 1])
  expect([over.status, over.body.issues[0].path]).toEqual([400, ['rentalIds']])
  expect(over.body.issues[0].message).toContain(String(limits.attachmentsPerVolume))
})

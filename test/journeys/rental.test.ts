/** Rentals of every kind through one noun: the same fields, and costs that add up to the spend of the account. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HOUR_MS } from '../../src/base/instant.ts'
import { formatUsd, sumUsd, usd } from '../../src/base/money.ts'
import { LIST_LAG_MS, startJourney, succeed, type Journey } from '../harness/journey.ts'
import type { Reply } from '../harness/exchange.ts'

const NODE = { cluster_name: 'mock-sin', node_name: 'mock-sin-a100-01', gpu_count: 1 }

let journey: Journey
beforeAll(async () => {
  journey = await startJourney()
})
afterAll(() => journey.close())

test('a rental of any kind is found by its id and by its name (issue 31, 17)', async () => {
  const ada = await journey.account({ usd: '500' })
  const { instance_id: name } = await succeed(ada.call, 'POST', '/v1/marketplace/instances/create', NODE)
  const vm = await journey.rentVirtualMachine(ada.call, { gpuCount: 1 })
  const metal = await succeed(ada.call, 'POST', '/v2/alpha/on-demand/bare-metal-rentals', {
    networkType: 'infiniband',
    gpuCount: 8,
  })
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  const { rentals } = await succeed(ada.call, 'GET', '/v2/rentals')
  const kinds = rentals.map((one: Reply['body']) => [one.kind, one.state])
  expect(kinds).toEqual([
    ['bare-metal', 'Running'],
    ['virtual-machine', 'Running'],
    ['container', 'Running'],
  ])
  for (const listed of rentals) {
    const byId = await succeed(ada.call, 'GET', `/v2/rentals/${listed.id}`)
    expect(byId).toMatchObject(listed)
    expect(await succeed(ada.call, 'GET', `/v2/rentals/${listed.name}`)).toEqual(byId)
    expect(byId.events.at(-1).type).toBe('rental.created')
  }
  expect(rentals.map((one: Reply['body']) => one.id).slice(0, 2)).toEqual([metal.id, vm.id])
  expect(rentals[2]).toMatchObject({ name, machines: [{ id: NODE.node_name, gpuCount: 1 }], gpuCount: 1 })

  const ben = await journey.account({ usd: '1' })
  const foreign = await ben.call('GET', `/v2/rentals/${rentals[2].id}`)
  expect([foreign.status, foreign.body.reason]).toEqual([404, 'rental_not_found'])

  await succeed(ada.call, 'POST', '/v1/marketplace/instances/terminate', { id: name })
  await journey.pass()
  await journey.advance(HOUR_MS)
  const first = await succeed(ada.call, 'GET', '/v2/rentals?limit=1')
  expect(first.rentals.map((one: Reply['body']) => one.id)).toEqual([metal.id])
  const next = await succeed(ada.call, 'GET', `/v2/rentals?limit=1&cursor=${first.nextCursor}`)
  expect([next.rentals[0].id, next.nextCursor]).toEqual([vm.id, null])
  const ended = await succeed(ada.call, 'GET', '/v2/rentals?ended=only')
  expect(ended.rentals).toMatchObject([{ name, state: 'Terminated', currentCostPerHourUsd: '0.000000000' }])
})

test('what rentals cost now adds up to the hourly spend: the disk of a stopped one, nothing of one that starts (issue 31, 10)', async () => {
  const ada = await journey.account({ usd: '500' })
  const stopped = await succeed(ada.call, 'POST', '/v1/marketplace/instances/create', NODE)
  await journey.rentVirtualMachine(ada.call, { gpuCount: 2 })
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  await succeed(ada.call, 'POST', `/v2/rentals/${stopped.instance_id}/stop`)
  await journey.pass()
  await journey.advance(HOUR_MS)
  await succeed(ada.call, 'POST', '/v1/marketplace/instances/create', NODE)
  const { rentals } = await succeed(ada.call, 'GET', '/v2/rentals')
  const now = rentals.map((one: Reply['body']) => [one.state, one.currentCostPerHourUsd])
  // Two H100 at $2.49, and 50 GB at $0.10 in 730 hours.
  expect(now).toEqual([
    ['Pending', '0.000000000'],
    ['Running', '4.980000000'],
    ['Stopped', '0.006849315'],
  ])
  const { hourlySpendUsd } = await succeed(ada.call, 'GET', '/v2/customer/balance')
  const perHour: string[] = rentals.map((one: Reply['body']) => one.currentCostPerHourUsd)
  expect(formatUsd(sumUsd(perHour.map(usd)))).toBe(hourlySpendUsd)
  for (const { id, costSoFarUsd } of rentals) {
    expect((await succeed(ada.call, 'GET', `/v2/rentals/${id}`)).costSoFarUsd).toBe(costSoFarUsd)
  }
})

const container = { kind: 'container', machineId: NODE.node_name, gpuCount: 1 }
const virtualMachine = {
  kind: 'virtual-machine',
  region: 'us-central-1',
  gpuType: 'h100',
  networkType: 'ethernet',
  gpuCount: 1,
}
const bareMetal = { ...virtualMachine, kind: 'bare-metal', networkType: 'infiniband', gpuCount: 8 }

test('one operation orders every kind, and answers like the operation that reads it', async () => {
  const ada = await journey.account({ usd: '2000' })
  const common = {
    label: 'train',
    metadata: { team: 'vision' },
    env: { MODE: 'fast' },
    autoTerminateAt: '2026-06-01T00:00:00.000Z',
    spendingLimitUsd: '500',
  }
  for (const order of [container, virtualMachine, bareMetal]) {
    const created = await succeed(ada.call, 'POST', '/v2/rentals', { ...order, ...common })
    expect(created).toMatchObject({
      kind: order.kind,
      state: 'Pending',
      gpuCount: order.gpuCount,
      label: 'train',
      metadata: common.metadata,
      workload: { env: common.env },
      autoTerminateAt: common.autoTerminateAt,
      spendingLimitUsd: '500.000000000',
      termPeriodDays: null,
    })
    // Events are written with the order and numbered after it, so the answer to the order has none yet.
    const { events, ...facts } = await succeed(ada.call, 'GET', `/v2/rentals/${created.id}`)
    expect({ ...facts, events: [] }).toEqual(created)
    expect(events.map((event: Reply['body']) => event.type)).toEqual(['rental.created'])
    const { order: again } = await succeed(ada.call, 'GET', `/v2/rentals/${created.id}/order`)
    const { autoTerminateAt: _, spendingLimitUsd: __, ...kept } = common
    expect(again).toEqual({ ...order, ...kept })
  }
})

test('a container goes to the machine of the order, or to the cheapest with the GPU', async () => {
  const ada = await journey.account({ usd: '100' })
  const { machineId: _, ...anywhere } = container
  const cheapest = await succeed(ada.call, 'POST', '/v2/rentals', {
    ...anywhere,
    gpuModel: 'rtx-3090',
    image: { name: 'debian', tag: '12' },
    ports: ['8888/http'],
    restart: { policy: 'always' },
  })
  expect(cheapest).toMatchObject({ image: { name: 'debian', tag: '12' }, ports: [{ port: 8888, protocol: 'http' }] })
  expect(cheapest.gpuModel).toContain('3090')
  for (const [wrong, reason, path] of [
    [{ ...anywhere }, undefined, ['machineId']],
    [{ ...container, gpuModel: 'h100' }, undefined, ['machineId']],
    [{ ...container, machineId: 'nowhere' }, 'machine_not_found', ['machineId']],
    [{ ...virtualMachine, restart: { policy: 'always' } }, undefined, ['restart']],
    [{ ...container, kind: 'mainframe' }, undefined, ['kind']],
    [{ ...virtualMachine, discountPercentage: 5 }, 'discount_not_granted', ['discountPercentage']],
    [
      { ...bareMetal, volumes: [{ volumeId: 1 }], newVolume: { label: 'more', sizeInGb: 256 } },
      undefined,
      ['newVolume'],
    ],
    [{ ...bareMetal, volumes: [{ volumeId: 999_999 }] }, 'volume_not_found', ['volumes', 0, 'volumeId']],
  ] as const) {
    const reply = await ada.call('POST', '/v2/rentals', wrong)
    expect([reply.status, reply.body.reason, reply.body.issues?.[0].path], JSON.stringify(wrong)).toEqual([
      400,
      reason,
      path,
    ])
  }
})

test('a container’s GPU model ignores case, spaces and hyphens, and needs a letter or digit (issue 38, 5)', async () => {
  const ada = await journey.account({ usd: '100' })
  const { machineId: _, ...anywhere } = container
  for (const gpuModel of ['RTX 3090', 'rtx3090', 'rtx_3090', 'NVIDIA-GeForce RTX-3090']) {
    const created = await succeed(ada.call, 'POST', '/v2/rentals', { ...anywhere, gpuCount: 1, gpuModel })
    expect(created.gpuModel, gpuModel).toContain('3090')
    await succeed(ada.call, 'DELETE', `/v2/rentals/${created.id}`)
  }
  const nothing = await ada.call('POST', '/v2/rentals', { ...anywhere, gpuCount: 1, gpuModel: ' - ' })
  expect([nothing.status, nothing.body.reason]).toEqual([400, 'no_capacity'])
})

test('a term without a discount gets the largest one; the rental shows both', async () => {
  const ada = await journey.account({ usd: '5000' })
  const terms = await succeed(ada.call, 'GET', '/v2/alpha/on-demand/reserve-options')
  const { termPeriodDays } = terms[0]
  const best = Math.max(
    ...terms
      .filter((term: Reply['body']) => term.termPeriodDays === termPeriodDays)
      .map((term: Reply['body']) => term.discountPercentage),
  )
  const created = await succeed(ada.call, 'POST', '/v2/rentals', { ...virtualMachine, termPeriodDays })
  expect(created).toMatchObject({ termPeriodDays, discountPercentage: best, convertToOnDemandOnExpiry: true })
  expect(created.commitment.endsAt).toBe(created.termEndsAt)
  const { body } = await ada.call('PATCH', `/v2/rentals/${created.id}`, { convertToOnDemandOnExpiry: false })
  expect(body.convertToOnDemandOnExpiry).toBe(false)
})

test('bare metal comes with a new storage volume', async () => {
  const ada = await journey.account({ usd: '2000' })
  const newVolume = { label: 'datasets', sizeInGb: 256 }
  const created = await succeed(ada.call, 'POST', '/v2/rentals', { ...bareMetal, newVolume })
  const attached = await succeed(ada.call, 'GET', `/v2/rentals/${created.name}/volumes`)
  expect(attached.volumes).toMatchObject([{ label: 'datasets', sizeInGb: 256 }])
})

test('the same key orders once and gives the first answer', async () => {
  const ada = await journey.account({ usd: '100' })
  const order = (body: object) => ada.call('POST', '/v2/rentals', body, { 'Idempotency-Key': 'order-1' })
  const first = await order(container)
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  const second = await order(container)
  expect([second.status, second.body]).toEqual([200, first.body])
  const other = await order({ ...container, gpuCount: 2 })
  expect([other.status, other.body.reason]).toEqual([400, 'idempotency_key_reused'])
  expect((await succeed(ada.call, 'GET', '/v2/rentals')).rentals).toHaveLength(1)
})

test('a rental is changed, found by id, name and label, and terminated, whatever its kind', async () => {
  const ada = await journey.account({ usd: '2000' })
  for (const [n, order] of [container, virtualMachine, bareMetal].entries()) {
    const { id, name } = await succeed(ada.call, 'POST', '/v2/rentals', order)
    const changed = await succeed(ada.call, 'PATCH', `/v2/rentals/${name}`, { label: `web-${n}` })
    expect(changed).toMatchObject({ id, label: `web-${n}` })
    const convert = await ada.call('PATCH', `/v2/rentals/${id}`, { convertToOnDemandOnExpiry: false })
    expect([convert.status, convert.body.reason]).toEqual(
      order.kind === 'container' ? [400, 'option_not_supported'] : [200, undefined],
    )
    for (const q of [String(id), name, name.toUpperCase(), `WEB-${n}`]) {
      const { rentals } = await succeed(ada.call, 'GET', `/v2/rentals?q=${q}&kind=${order.kind}`)
      expect(rentals.map((one: Reply['body']) => one.id)).toContain(id)
    }
    await journey.pass()
    await journey.advance(LIST_LAG_MS)
    const ended = await succeed(ada.call, 'DELETE', `/v2/rentals/${name}?reason=done`)
    expect(ended).toMatchObject({ id, state: 'Terminating', statusReason: 'customer_request' })
    const [event] = ended.events
    expect(event).toMatchObject({ type: 'rental.terminating', data: { note: 'done' } })
    await journey.pass()
    await journey.advance(HOUR_MS)
    const again = await succeed(ada.call, 'DELETE', `/v2/rentals/${id}`)
    expect([again.state, again.costSoFarUsd]).toEqual(['Terminated', ended.costSoFarUsd])
    expect((await succeed(ada.call, 'GET', `/v2/rentals?q=${name}`)).rentals).toEqual([])
    const { rentals: all } = await succeed(ada.call, 'GET', `/v2/rentals?q=web-${n}&ended=include`)
    expect(all.map((one: Reply['body']) => one.id)).toEqual([id])
  }
  const ben = await journey.account({ usd: '1' })
  expect((await succeed(ben.call, 'GET', '/v2/rentals?q=web&ended=include')).rentals).toEqual([])
})

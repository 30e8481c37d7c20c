/** The Crusoe driver passes the driver suite at its simulator; then what is special about Crusoe. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tagOf } from '../../../domain/rental.ts'
import type { ManualClock } from '../../../../test/sim/clock.ts'
import { CrusoeSim } from '../../../../test/sim/clouds/crusoe/cloud.ts'
import {
  cloudConformance,
  openBench,
  type CloudBench,
  type OpenBench,
  fleetFaults,
} from '../../../../test/harness/cloud-conformance.ts'
import { crusoe } from './cloud.ts'
import { costOf, parsePriceList } from './price-list.ts'

const region = 'us-northcentral1-a'
const type = 'h100-80gb-sxm-ib.8x'
const sims = new WeakMap<CloudBench, CrusoeSim>()

const makeBench = (clock: ManualClock): CloudBench => {
  const sim = new CrusoeSim({ clock })
  const { credentials } = sim
  const bench: CloudBench = {
    ...fleetFaults(sim, crusoe),
    credentials,
    offer: { region, type, gpus: 8, paysUsdPerGpuHour: '3.9' },
    operations: { create: 'createInstance', list: 'listInstances' },
    noCapacity: {
      kind: 'answer',
      answer: { status: 400, body: { code: 'quota_exceeded', message: 'The quota is used up.' } },
    },
    setCapacity: (units) => sim.setCapacity(type, region, units),
    // The operator has another contract.
    raiseCost: () => void (credentials.prices = 'h100-80gb-sxm-ib=3.91'),
    withdraw: () => void sim.types.delete(type),
  }
  sims.set(bench, sim)
  return bench
}

cloudConformance({ vendor: crusoe, makeBench })

describe('crusoe only', () => {
  const { signal } = new AbortController()
  const tag = tagOf('cafe000000', 'rental', { id: 7, nonce: 'c0ffee00' })
  let opened: OpenBench
  let sim: CrusoeSim
  beforeEach(async () => {
    opened = await openBench(crusoe, makeBench)
    sim = sims.get(opened.bench) as CrusoeSim
  })
  afterEach(async () => {
    await opened.close()
    if (sim.server.violations.length > 0) throw new Error(sim.server.violations.join('\n'))
  })

  it('refuses an order whose operation fails for lack of stock, tells the operator why, and removes the disk that is left (issue 31, 8: S-5)', async () => {
    sim.halfMade = 1
    // The last unit goes after the driver has looked at the capacities.
    sim.server.chaos = (operation) => {
      if (operation === 'createInstance') sim.setCapacity(type, region, 0)
      return undefined
    }
    const outcome = await opened.driver.create(tag, opened.spec(), signal)
    expect(outcome).toMatchObject({ kind: 'refused', reason: 'no_capacity' })
    expect(outcome.kind === 'refused' && outcome.detail).toMatch(/out_of_stock/i)
    expect(sim.leftovers()).toEqual([])
  })

  it('takes a machine for created when its operation cannot be followed', async () => {
    sim.server.arm(
      'getOperation',
      { kind: 'answer', answer: { status: 403, body: { code: 'forbidden', message: '' } } },
      9,
    )
    expect(await opened.driver.create(tag, opened.spec(), signal)).toMatchObject({ kind: 'created' })
    expect([...sim.launches()]).toEqual([[tag, 1]])
  })

  it('lists machines of all pages', async () => {
    for (const id of [1, 2, 3, 4, 5])
      await opened.driver.create(tagOf('cafe000000', 'rental', { id, nonce: 'c0ffee00' }), opened.spec(), signal)
    expect(await opened.driver.list('berth-cafe000000-', signal)).toHaveLength(5)
  })

  it('shows the id of the public address, and costs nothing before it runs', async () => {
    await opened.driver.create(tag, opened.spec(), signal)
    const [starting] = await opened.driver.list(tag, signal)
    expect(starting).toMatchObject({ state: 'starting', cost: { perHour: 0n } })
    opened.clock.advance(30_000)
    const [running] = await opened.driver.list(tag, signal)
    expect(running).toMatchObject({
      state: 'running',
      cost: { perHour: 31_200_000_000n, from: 'running' },
      data: { providerId: 'crusoe', resources: { vcpuCount: 176, gpuCount: 8, ramGb: 960, storageGb: 6_848 } },
    })
    const data = running?.data as { publicIpAddressId?: string }
    expect(sim.leftovers()).toContain(`address ${data.publicIpAddressId ?? ''} of ${tag}`)
  })

  const create = async (overrides: Parameters<OpenBench['spec']>[0] = {}): Promise<string> => {
    const outcome = await opened.driver.create(tag, opened.spec(overrides), signal)
    if (outcome.kind !== 'created') throw new Error(`refused: ${outcome.message}`)
    return outcome.externalId
  }
  const list = async () => (await opened.driver.list(tag, signal))[0]

  it('creates machines with InfiniBand in a partition of their own, which goes after them (issue 31, 8)', async () => {
    const id = await create()
    expect(sim.leftovers()).toContain(`partition ${tag}`)
    opened.clock.advance(30_000)
    await opened.driver.destroy(id, signal)
    opened.clock.advance(10_000)
    for (const companion of await opened.driver.companions.list(tag, signal))
      await opened.driver.companions.remove(companion, signal)
    expect(sim.leftovers()).toEqual([])
  })

  it('sells each place once, with its largest entry and within the quota (issue 31, 8)', async () => {
    const available = async () => {
      const offers = (await opened.driver.providers.offers('main', signal)) ?? []
      return offers.filter((one) => one.type === type && one.providerRegion === region).map((one) => one.available)
    }
    expect(await available()).toEqual([8])
    sim.quotas.set('h100-80gb-sxm-ib', 3)
    expect(await available()).toEqual([3])
    sim.quotas.set('h100-80gb-sxm-ib', 0)
    expect(await available()).toEqual([0])
    expect(await opened.driver.create(tag, opened.spec(), signal)).toMatchObject({ reason: 'no_capacity' })
    expect(sim.server.requests).not.toContain('createInstance')
  })

  it.each([
    { status: 403, body: { code: '403', message: 'The quota of the project is used up.' } },
    { status: 400, body: { code: '400', reason: 'OUT_OF_STOCK', message: '' } },
    { status: 400, body: { code: '400', message: 'There is no hardware available.' } },
  ])('moves an order on that is refused with $body', async (answer) => {
    sim.server.arm('createInstance', { kind: 'answer', answer })
    expect(await opened.driver.create(tag, opened.spec(), signal)).toMatchObject({ reason: 'no_capacity' })
  })

  it('fails an order that the vendor calls malformed', async () => {
    const answer = { status: 400, body: { code: '400', message: 'The field is not valid.' } }
    sim.server.arm('createInstance', { kind: 'answer', answer })
    expect(await opened.driver.create(tag, opened.spec(), signal)).toMatchObject({ reason: 'rejected_by_provider' })
  })

  it('moves an order on whose operation fails after a minute (issue 31, 8)', async () => {
    sim.lateFailureMs = 60_000
    sim.server.chaos = (operation) => {
      if (operation === 'createInstance') sim.setCapacity(type, region, 0)
      if (operation === 'getOperation') opened.clock.advance(3_000)
      return undefined
    }
    expect(await opened.driver.create(tag, opened.spec(), signal)).toMatchObject({ reason: 'no_capacity' })
    expect(sim.leftovers()).toEqual([])
  })

  it('does not take a machine for gone that is still being created (issue 31, 8)', async () => {
    sim.hiddenMs = 8_000
    // The driver cannot follow the creation.
    const answer = { status: 403, body: { code: 'forbidden', message: '' } }
    sim.server.arm('getOperation', { kind: 'answer', answer })
    const id = await create()
    await expect(opened.driver.destroy(id, signal)).rejects.toThrow('still creating')
    opened.clock.advance(30_000)
    await opened.driver.destroy(id, signal)
    opened.clock.advance(10_000)
    await expect(opened.driver.destroy(id, signal)).resolves.toBeUndefined()
    expect(sim.leftovers()).toEqual([`partition ${tag}`])
  })

  it('costs nothing in any state but running, and runs in no state that nobody knows', async () => {
    await create()
    opened.clock.advance(30_000)
    expect(await list()).toMatchObject({ state: 'running' })
    for (const state of ['STATE_SHUTOFF', 'STATE_STOPPED', 'STATE_POWER_SUSPENDED']) {
      sim.setState(tag, state)
      expect(await list()).toMatchObject({ state: 'unreachable', cost: { perHour: 0n } })
    }
  })

  it('is billed with what the driver says, and uses up no reservation (issue 31, 9)', async () => {
    await create()
    opened.clock.advance(30_000)
    const { cost } = (await list()) ?? {}
    const bill = (): bigint => sim.bills()[0]?.nanoUsd ?? 0n
    const before = bill()
    opened.clock.advance(3_600_000)
    expect(bill() - before).toBe(cost?.perHour)
  })

  it('lets every key of the order in, as the user that it shows, on a machine with its GPUs (issue 31, 9)', async () => {
    const keys = [
      'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGXu5nVxHmSpDCxlxFCdvFnBBtVRmCBkmuz6dGXZ8Kwk',
      'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBBC64HBlXQXDYDX6TAeTTIald3yTOp0PfH1BcBujHIg',
    ]
    await create({ sshKeys: keys })
    opened.clock.advance(30_000)
    const [ssh] = (await list())?.data?.sshNetworking ?? []
    for (const key of keys) expect(sim.logIn(ssh?.host ?? '', ssh?.user ?? '', key)).toEqual({ gpus: 8 })
  })

  it('reads the price list of the operator', () => {
    const prices = parsePriceList('h100-80gb-sxm-ib=3.90,\n l40s-48gb = $1.25')
    expect(costOf(prices, type)).toBe(31_200_000_000n)
    expect(costOf(prices, 'l40s-48gb.2x')).toBe(2_500_000_000n)
    expect(costOf(prices, 'a100-80gb.1x')).toBeUndefined()
    expect(() => parsePriceList('h100=cheap')).toThrow('Entry 1')
  })
})

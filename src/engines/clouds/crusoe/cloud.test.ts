/** The Crusoe driver passes the driver suite at its simulator; then what is special about Crusoe. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tagOf } from '../../../domain/rental.ts'
import type { ManualClock } from '../../../sim/clock.ts'
import { CrusoeSim } from '../../../sim/clouds/crusoe/cloud.ts'
import {
  cloudConformance,
  openBench,
  type CloudBench,
  type OpenBench,
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
    server: sim.server,
    credentials,
    offer: { region, type, gpus: 8, paysUsdPerGpuHour: '3.9' },
    operations: { create: 'createInstance', list: 'listInstances' },
    noCapacity: {
      kind: 'answer',
      answer: { status: 400, body: { code: 'quota_exceeded', message: 'The quota is used up.' } },
    },
    failBoot: () => void (sim.bootsFail = 1),
    lagList: () => void (sim.listLagMs = crusoe.listLagMs),
    loseMachine: () => void (sim.loseAfterMs = 120_000),
    refuseDestroy: () => void (sim.deleteFailures = 1),
    setCapacity: (units) => sim.setCapacity(type, region, units),
    // The operator has another contract.
    raiseCost: () => void (credentials.prices = 'h100-80gb-sxm-ib=3.91'),
    withdraw: () => void sim.types.delete(type),
    leftovers: () => sim.leftovers(),
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

  it('refuses an order whose operation fails for lack of stock, and removes the disk that is left', async () => {
    sim.halfMade = 1
    // The last unit goes after the driver has looked at the capacities.
    sim.server.chaos = (operation) => {
      if (operation === 'createInstance') sim.setCapacity(type, region, 0)
      return undefined
    }
    const outcome = await opened.driver.create(tag, opened.spec(), signal)
    expect(outcome).toMatchObject({ kind: 'refused', reason: 'no_capacity' })
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

  it('reads the price list of the operator', () => {
    const prices = parsePriceList('h100-80gb-sxm-ib=3.90,\n l40s-48gb = $1.25')
    expect(costOf(prices, type)).toBe(31_200_000_000n)
    expect(costOf(prices, 'l40s-48gb.2x')).toBe(2_500_000_000n)
    expect(costOf(prices, 'a100-80gb.1x')).toBeUndefined()
    expect(() => parsePriceList('h100=cheap')).toThrow('Entry 1')
  })
})

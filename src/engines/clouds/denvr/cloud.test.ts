/** The Denvr driver passes the driver suite at its simulator; then what is special about Denvr. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { unitId } from '../../../domain/unit.ts'
import { tagOf } from '../../../domain/rental.ts'
import type { ManualClock } from '../../../sim/clock.ts'
import { CONTRACTED, DenvrSim } from '../../../sim/clouds/denvr/cloud.ts'
import {
  cloudConformance,
  openBench,
  type CloudBench,
  type OpenBench,
} from '../../../../test/harness/cloud-conformance.ts'
import { offerIdOf } from '../offer.ts'
import { denvr } from './cloud.ts'

const region = 'Msc1'
const configuration = 'H100_80GB_SXM_8x'
const sims = new WeakMap<CloudBench, DenvrSim>()

const makeBench = (clock: ManualClock): CloudBench => {
  const sim = new DenvrSim({ clock })
  const bench: CloudBench = {
    server: sim.server,
    credentials: sim.credentials,
    offer: { region, type: `${configuration}@on-demand`, gpus: 8, paysUsdPerGpuHour: '2.9' },
    operations: { create: 'createServer', list: 'listServers' },
    noCapacity: {
      kind: 'answer',
      answer: {
        status: 400,
        body: { success: false, error: { code: 0, message: 'Not enough resources in the pool.' } },
      },
    },
    failBoot: () => void (sim.bootsFail = 1),
    lagList: () => void (sim.listLagMs = denvr.listLagMs),
    loseMachine: () => void (sim.loseAfterMs = 120_000),
    refuseDestroy: () => void (sim.destroyRefusals = 1),
    setCapacity: (units) => sim.setCapacity(configuration, region, 'on-demand', units),
    raiseCost: () => sim.setPrice(configuration, 'on-demand', '24'),
    withdraw: () => void sim.configurations.delete(configuration),
    leftovers: () => sim.leftovers(),
  }
  sims.set(bench, sim)
  return bench
}

cloudConformance({ vendor: denvr, makeBench })

describe('denvr only', () => {
  const { signal } = new AbortController()
  const tag = tagOf('cafe000000', 'rental', { id: 7, nonce: 'c0ffee00' })
  let opened: OpenBench
  let sim: DenvrSim
  beforeEach(async () => {
    opened = await openBench(denvr, makeBench)
    sim = sims.get(opened.bench) as DenvrSim
  })
  afterEach(async () => {
    await opened.close()
    if (sim.server.violations.length > 0) throw new Error(sim.server.violations.join('\n'))
  })
  const place = (pool: string) => {
    const id = offerIdOf('denvr', { account: 'main', region, type: `${configuration}@${pool}` })
    return { nodes: [{ machineId: unitId(id, 1), gpuIndexes: [0, 1, 2, 3, 4, 5, 6, 7] }] }
  }

  it('sells both pools of a cluster, each at its price', async () => {
    const offers = (await opened.driver.providers.offers('main', signal)) ?? []
    const ours = offers.filter(
      ({ type, providerRegion }) => type.startsWith(configuration) && providerRegion === region,
    )
    expect(ours.map(({ type, costPerHourUsd, available }) => [type, costPerHourUsd, available])).toEqual([
      [`${configuration}@on-demand`, '23.200000000', 8],
      [`${configuration}@${CONTRACTED}`, '18.400000000', 4],
    ])
  })

  it.each([
    ['on-demand', 'public', 23_200_000_000n],
    [CONTRACTED, 'contracted', 18_400_000_000n],
  ])('creates a machine in the pool %s and shows it as %s', async (pool, poolType, perHour) => {
    expect(await opened.driver.create(tag, opened.spec(place(pool)), signal)).toMatchObject({
      externalId: `main/${region}/${tag}`,
    })
    opened.clock.advance(30_000)
    expect(await opened.driver.list(tag, signal)).toMatchObject([
      {
        state: 'running',
        cost: { perHour },
        data: { providerId: 'denvr', poolType, resources: { vcpuCount: 200, gpuCount: 8, ramGb: 940 } },
      },
    ])
  })

  it('renews a token that expired or was rejected', async () => {
    const tokens = (): number => sim.server.requests.filter((name) => name === 'authenticate').length
    await opened.driver.list(tag, signal)
    opened.clock.advance(500_000)
    await opened.driver.list(tag, signal)
    expect(tokens()).toBe(1)
    opened.clock.advance(60_000)
    await opened.driver.list(tag, signal)
    expect(tokens()).toBe(2)
    sim.revokeTokens()
    await opened.driver.create(tag, opened.spec(), signal)
    expect(tokens()).toBe(3)
    expect([...sim.launches()]).toEqual([[tag, 1]])
  })
})

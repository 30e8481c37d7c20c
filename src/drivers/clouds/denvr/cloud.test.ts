/** The Denvr driver passes the driver suite at its simulator; then what is special about Denvr. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { unitId } from '../../../domain/unit.ts'
import { tagOf } from '../../../domain/rental.ts'
import type { ManualClock } from '../../../../test/sim/clock.ts'
import { DenvrSim } from '../../../../test/sim/clouds/denvr/cloud.ts'
import { CONTRACTED } from '../../../../test/sim/clouds/denvr/things.ts'
import {
  cloudConformance,
  openBench,
  type CloudBench,
  type OpenBench,
  fleetFaults,
} from '../../../../test/harness/cloud-conformance.ts'
import { offerIdOf } from '../offer.ts'
import { denvr } from './cloud.ts'

const region = 'Msc1'
const configuration = 'H100_80GB_SXM_8x'
const sims = new WeakMap<CloudBench, DenvrSim>()

const makeBench = (clock: ManualClock): CloudBench => {
  const sim = new DenvrSim({ clock })
  const bench: CloudBench = {
    ...fleetFaults(sim, denvr),
    credentials: sim.credentials,
    offer: { region, type: `${configuration}@on-demand`, gpus: 8, paysUsdPerGpuHour: '2.91' },
    operations: { create: 'createServer', list: 'listServers' },
    noCapacity: {
      kind: 'answer',
      answer: {
        status: 400,
        body: { success: false, error: { code: 0, message: 'Not enough resources in the pool.' } },
      },
    },
    setCapacity: (units) => sim.setCapacity(configuration, region, 'on-demand', units),
    raiseCost: () => sim.setPrice(configuration, 'on-demand', '24'),
    withdraw: () => void sim.configurations.delete(configuration),
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
      // 500 GB of disk cost 0.068493151 per hour.
      [`${configuration}@on-demand`, 23_268_493_151n, 8],
      [`${configuration}@${CONTRACTED}`, 18_468_493_151n, 4],
    ])
  })

  it.each([
    ['on-demand', 'public', 23_268_493_151n],
    [CONTRACTED, 'contracted', 18_468_493_151n],
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

  const keys = [
    'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGXu5nVxHmSpDCxlxFCdvFnBBtVRmCBkmuz6dGXZ8Kwk',
    'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBBC64HBlXQXDYDX6TAeTTIald3yTOp0PfH1BcBujHIg',
  ]
  const list = async () => (await opened.driver.list(tag, signal))[0]
  const failure = (status: number, message: string) => ({
    kind: 'answer' as const,
    answer: { status, body: { success: false, error: { code: 0, message } } },
  })
  const run = async (overrides: Parameters<OpenBench['spec']>[0] = {}): Promise<string> => {
    const outcome = await opened.driver.create(tag, opened.spec(overrides), signal)
    if (outcome.kind !== 'created') throw new Error(`refused: ${outcome.message}`)
    opened.clock.advance(30_000)
    return outcome.externalId
  }

  it('destroys a machine in the VPC where it lives, also when new ones go to another (issue 31, 8)', async () => {
    const id = await run()
    opened.world.change('main', { credentials: { ...sim.credentials, vpc: 'another-vpc' } })
    await opened.driver.destroy(id, signal)
    opened.clock.advance(10_000)
    expect(sim.leftovers()).toEqual([])
  })

  it('never takes a machine for gone that the list shows, whatever the vendor answers (issue 31, 8)', async () => {
    const id = await run()
    sim.server.arm('destroyServer', failure(404, `"${tag}" not found`))
    await expect(opened.driver.destroy(id, signal)).rejects.toThrow('not found')
    await opened.driver.destroy(id, signal)
    opened.clock.advance(10_000)
    await expect(opened.driver.destroy(id, signal)).resolves.toBeUndefined()
    sim.server.arm('destroyServer', failure(404, 'The namespace was not found.'))
    await expect(opened.driver.destroy(id, signal)).rejects.toThrow('namespace')
  })

  it('lets every key of the order in, as the user that it shows, on a machine with its GPUs (issue 31, 9)', async () => {
    await run({ sshKeys: keys })
    const [ssh] = (await list())?.data?.sshNetworking ?? []
    for (const key of keys) expect(sim.logIn(ssh?.host ?? '', ssh?.user ?? '', key)).toEqual({ gpus: 8 })
  })

  it('costs what its disk costs while it is stopped, and is not running in a state that nobody knows', async () => {
    await run()
    sim.setState(tag, 'OFFLINE')
    expect(await list()).toMatchObject({ state: 'unreachable', cost: { perHour: 68_493_151n } })
    sim.setState(tag, 'MIGRATING')
    expect(await list()).toMatchObject({ state: 'unreachable' })
  })

  it('moves an order on that the vendor has no resources for, and not one that a gateway cut off', async () => {
    sim.setCapacity(configuration, region, 'on-demand', 1)
    await run()
    sim.server.chaos = (operation) => {
      if (operation === 'listAvailability') sim.setCapacity(configuration, region, 'on-demand', 2)
      if (operation === 'createServer') sim.setCapacity(configuration, region, 'on-demand', 1)
      return undefined
    }
    const others = Array.from({ length: 8 }, (_, id) =>
      tagOf('cafe000000', 'rental', { id: 20 + id, nonce: 'c0ffee00' }),
    )
    const outcomes = await Promise.all(others.map((other) => opened.driver.create(other, opened.spec(), signal)))
    expect(new Set(outcomes.map((outcome) => outcome.kind === 'refused' && outcome.reason))).toEqual(
      new Set(['no_capacity']),
    )
    expect(opened.driver.providers.pausedUntil('main')).toBeUndefined()
    sim.server.chaos = undefined
    sim.setCapacity(configuration, region, 'on-demand', 8)
    sim.server.arm('createServer', { kind: 'answer', answer: { status: 503 } })
    await expect(opened.driver.create(others[0] ?? '', opened.spec(), signal)).rejects.toBeInstanceOf(Error)
  })

  it('uses an API key without asking for tokens', async () => {
    const { vpc, pools } = sim.credentials
    opened.world.change('main', { credentials: { apiKey: sim.apiKey, vpc, pools } })
    await run()
    expect(sim.server.requests).not.toContain('authenticate')
    // Without a price of the disk, it is recorded at no cost.
    expect(await list()).toMatchObject({ state: 'running', cost: { perHour: 23_200_000_000n } })
    const checks = (await opened.driver.providers.check('main', signal)) ?? []
    expect(checks.find(({ check }) => check === 'prices')?.result).toBe('not_tried')
  })

  it('tells the operator alone what the vendor said about a lack of resources (issue 31, 8: S-5)', async () => {
    const body = { success: false, error: { code: 0, message: 'No A100 is left, see ticket 17.' } }
    sim.server.arm('createServer', { kind: 'answer', answer: { status: 503, body } })
    const outcome = await opened.driver.create(tag, opened.spec(), signal)
    expect(outcome).toMatchObject({ reason: 'no_capacity', message: 'Denvr has no resources for the order.' })
    expect(outcome.kind === 'refused' && outcome.detail).toContain('ticket 17')
  })

  it('installs the image that the operator chose, if the vendor has it', async () => {
    const image = 'Ubuntu 20.04.6 LTS'
    opened.world.change('main', { credentials: { ...sim.credentials, image: 'Ubuntu 18' } })
    expect(await opened.driver.create(tag, opened.spec(), signal)).toMatchObject({ reason: 'no_capacity' })
    opened.world.change('main', { credentials: { ...sim.credentials, image } })
    await run()
    expect(sim.imageOf(tag)).toBe(image)
  })
})

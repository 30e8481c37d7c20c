/** The Latitude.sh driver passes the driver suite at its simulator. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { tagOf } from '../../../domain/rental.ts'
import { LatitudeSim } from '../../../sim/clouds/latitude/cloud.ts'
import type { ManualClock } from '../../../sim/clock.ts'
import {
  cloudConformance,
  openBench,
  type CloudBench,
  type OpenBench,
} from '../../../../test/harness/cloud-conformance.ts'
import { latitude } from './cloud.ts'

const region = 'DAL'
const type = 'g3-large-x86'

function benchOf(sim: LatitudeSim): CloudBench {
  return {
    server: sim.server,
    credentials: sim.credentials,
    offer: { region, type, gpus: 8, paysUsdPerGpuHour: '2.08' },
    spec: { kind: 'bare-metal', region: 'us-central-1' },
    operations: { create: 'createServer', list: 'listServers' },
    noCapacity: {
      kind: 'answer',
      answer: {
        status: 422,
        body: { errors: [{ code: 'VALIDATION_ERROR', status: '422', title: 'Out of stock', detail: 'Out of stock' }] },
      },
    },
    failBoot: () => void (sim.bootsFail = 1),
    lagList: () => void (sim.listLagMs = latitude.listLagMs),
    loseMachine: () => void (sim.loseAfterMs = 20_000),
    refuseDestroy: () => void (sim.deleteRefusals = 1),
    setCapacity: (units) => void sim.plans.get(type)?.capacity.set(region, units),
    raiseCost: () => sim.setPrice(type, 16.65),
    withdraw: () => void sim.plans.delete(type),
    leftovers: () => sim.leftovers(),
  }
}

cloudConformance({ vendor: latitude, makeBench: (clock) => benchOf(new LatitudeSim({ clock })) })

describe('latitude', () => {
  const signal = new AbortController().signal
  const prefix = 'berth-cafe000000-'
  const tagNo = (id: number): string => tagOf('cafe000000', 'rental', { id, nonce: 'c0ffee00' })
  let sim: LatitudeSim
  let opened: OpenBench
  beforeEach(async () => {
    opened = await openBench(latitude, (clock: ManualClock) => benchOf((sim = new LatitudeSim({ clock }))))
  })
  afterEach(async () => {
    const { violations } = sim.server
    await opened.close()
    if (violations.length > 0) throw new Error(violations.join('\n'))
  })

  test('shows a whole machine with its physical cores and all its disks', async () => {
    await opened.driver.create(tagNo(1), opened.spec(), signal)
    opened.clock.advance(30_000)
    const [machine] = await opened.driver.list(prefix, signal)
    expect(machine?.data).toMatchObject({
      providerId: 'latitude',
      resources: { cpuModel: 'AMD EPYC 9354', cpuCount: 64, gpuCount: 8, ramGb: 1536, storageGb: 16_160 },
      gpuFormFactor: 'sxm5',
      networkType: 'ethernet',
    })
    expect(machine?.cost?.perHour).toBe(16_640_000_000n)
  })

  test('remembers the price of a withdrawn plan, also after a restart', async () => {
    await opened.driver.create(tagNo(1), opened.spec(), signal)
    sim.plans.delete(type)
    // New credentials open the account anew, as a restart does.
    opened.world.change('main', {})
    opened.clock.advance(30_000)
    expect((await opened.driver.list(prefix, signal))[0]?.cost?.perHour).toBe(16_640_000_000n)
  })

  test('uses the SSH key of another order, since a key exists once', async () => {
    await opened.driver.create(tagNo(1), opened.spec(), signal)
    await opened.driver.create(tagNo(2), opened.spec(), signal)
    const made = await opened.driver.companions.list(prefix, signal)
    expect(made.map(({ what }) => what).sort()).toEqual(['ssh-key', 'user-data', 'user-data'])
  })

  test('lists the servers of all pages, and reads them again when they move', async () => {
    sim.plans.get(type)?.capacity.set(region, 50)
    const tags = Array.from({ length: 25 }, (_, id) => tagNo(id + 1))
    for (const tag of tags) await opened.driver.create(tag, opened.spec(), signal)
    opened.clock.advance(30_000)
    const first = (await opened.driver.list(tagNo(1), signal)).find(({ tag }) => tag === tagNo(1))
    await opened.driver.destroy(first?.externalId ?? '', signal)
    let reads = 0
    sim.server.chaos = (operation) => {
      // It is gone after the first page was read.
      if (operation === 'listServers' && (reads += 1) === 2) opened.clock.advance(5_000)
      return undefined
    }
    const listed = await opened.driver.list(prefix, signal)
    expect(new Set(listed.map(({ tag }) => tag))).toEqual(new Set(tags.slice(1)))
  })
})

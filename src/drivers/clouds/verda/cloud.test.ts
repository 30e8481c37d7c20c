/** The Verda driver passes the driver suite at its simulator; then what is special about Verda. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tagOf } from '../../../domain/rental.ts'
import { VerdaSim } from '../../../../test/sim/clouds/verda/cloud.ts'
import {
  cloudConformance,
  openBench,
  type CloudBench,
  type OpenBench,
  fleetFaults,
} from '../../../../test/harness/cloud-conformance.ts'
import type { ManualClock } from '../../../../test/sim/clock.ts'
import { verda } from './cloud.ts'

const region = 'FIN-01'
const type = '1H100.80S.30V'
const sims = new WeakMap<CloudBench, VerdaSim>()

const makeBench = (clock: ManualClock): CloudBench => {
  const sim = new VerdaSim({ clock })
  const bench: CloudBench = {
    ...fleetFaults(sim, verda),
    credentials: sim.credentials,
    // 2.29 for the machine and 200 GB of disk for 0.20 per GB and month.
    offer: { region, type, gpus: 1, paysUsdPerGpuHour: '2.344794521' },
    operations: { create: 'createInstance', list: 'listInstances' },
    noCapacity: {
      kind: 'answer',
      answer: { status: 400, body: { code: 'invalid_request', message: 'Not enough resources.' } },
    },
    setCapacity: (units) => sim.setCapacity(type, region, units),
    raiseCost: () => sim.setPrice(type, '2.30'),
    withdraw: () => void sim.types.delete(type),
    bills: () => sim.bills(),
    booted: (tag) => sim.booted(tag),
    showStrangeState: () => void (sim.runningState = 'installing'),
  }
  sims.set(bench, sim)
  return bench
}

cloudConformance({ vendor: verda, makeBench })

describe('verda only', () => {
  const { signal } = new AbortController()
  const tag = tagOf('cafe000000', 'rental', { id: 7, nonce: 'c0ffee00' })
  let opened: OpenBench
  let sim: VerdaSim
  beforeEach(async () => {
    opened = await openBench(verda, makeBench)
    sim = sims.get(opened.bench) as VerdaSim
  })
  afterEach(async () => {
    await opened.close()
    if (sim.server.violations.length > 0) throw new Error(sim.server.violations.join('\n'))
  })
  const tokens = (): number => sim.server.requests.filter((name) => name === 'createToken').length
  const create = async (): Promise<string> => {
    const outcome = await opened.driver.create(tag, opened.spec(), signal)
    if (outcome.kind !== 'created') throw new Error(outcome.message)
    return outcome.externalId
  }

  it('uses one token until shortly before its end, and asks for the next before it is rejected', async () => {
    await Promise.all([opened.driver.inventory(signal), opened.driver.list(tag, signal)])
    expect(tokens()).toBe(1)
    opened.clock.advance(3_530_000)
    await opened.driver.list(tag, signal)
    opened.clock.advance(25_000)
    await opened.driver.list(tag, signal)
    expect(tokens()).toBe(2)
  })

  it('renews a rejected token and creates one machine', async () => {
    await opened.driver.inventory(signal)
    sim.revokeTokens()
    await create()
    expect(tokens()).toBe(2)
    expect([...sim.launches()]).toEqual([[tag, 1]])
  })

  it('throws while the machine is provisioned, and deletes it with its disk afterwards', async () => {
    const id = await create()
    opened.clock.advance(5_000)
    await expect(opened.driver.destroy(id, signal)).rejects.toThrow('provisioning')
    opened.clock.advance(20_000)
    await opened.driver.destroy(id, signal)
    opened.clock.advance(10_000)
    expect(await opened.driver.list(tag, signal)).toEqual([])
    expect(sim.leftovers().filter((one) => one.includes('disk'))).toEqual([])
  })

  it('shows a disk in the trash with its cost until it is destroyed for good', async () => {
    sim.loseAfterMs = 60_000
    await create()
    opened.clock.advance(90_000)
    const [disk, ...others] = await opened.driver.list(tag, signal)
    expect(others).toEqual([])
    expect(disk).toMatchObject({ tag, state: 'failed', failure: 'machine_lost', cost: { perHour: 54_794_520n } })
    expect(sim.leftovers()).toContain(`trashed disk ${tag}`)
    await opened.driver.destroy(disk?.externalId ?? '', signal)
    await opened.driver.destroy(disk?.externalId ?? '', signal)
    expect(await opened.driver.list(tag, signal)).toEqual([])
    expect(sim.leftovers()).not.toContain(`trashed disk ${tag}`)
  })

  it('shows what the vendor has no room for after all as such, at no cost but its disk (issue 31, 8: V-1)', async () => {
    sim.roomless = 1
    const id = await create()
    opened.clock.advance(30_000)
    expect(await opened.driver.list(tag, signal)).toMatchObject([
      { externalId: id, state: 'failed', failure: 'no_capacity', cost: { perHour: 54_794_520n } },
    ])
    await opened.driver.destroy(id, signal)
    opened.clock.advance(10_000)
    expect(await opened.driver.list(tag, signal)).toEqual([])
  })

  it('shows a machine that was turned off as unreachable, and pays for it', async () => {
    await create()
    opened.clock.advance(30_000)
    sim.turnOff()
    expect(await opened.driver.list(tag, signal)).toMatchObject([
      { state: 'unreachable', cost: { perHour: 2_344_794_520n } },
    ])
  })

  it('comes back after an outage that outlasts its token (issue 31, 8: V-2)', async () => {
    await opened.driver.list(tag, signal)
    sim.server.down = true
    for (let n = 0; n < 8; n += 1) await opened.driver.list(tag, signal).catch(() => undefined)
    opened.clock.advance(3_600_000)
    await expect(opened.driver.list(tag, signal)).rejects.toBeInstanceOf(Error)
    sim.server.down = false
    opened.clock.advance(600_000)
    expect(await opened.driver.list(tag, signal)).toEqual([])
  })

  it('sells nothing whose disk has no price in USD (issue 31, 8: V-3)', async () => {
    const price = { price_per_month_per_gb: 0.2, currency: 'eur' }
    const body = [{ type: 'NVMe', price, is_shared_fs: false }]
    sim.server.arm('listVolumeTypes', { kind: 'answer', answer: { status: 200, body } })
    await expect(opened.driver.inventory(signal)).rejects.toThrow('USD')
  })

  it('takes a disk that the vendor does not know for gone (issue 31, 8: V-4)', async () => {
    const answer = { status: 400, body: { code: 'invalid_request', message: 'Invalid volume id' } }
    sim.server.arm('actOnVolume', { kind: 'answer', answer })
    await expect(opened.driver.destroy('main/disk:x', signal)).resolves.toBeUndefined()
  })

  it('sells what it can read, and never takes a machine that it cannot read for gone (issue 31, 8: S-8)', async () => {
    const id = await create()
    const strange = (body: unknown) => ({ kind: 'answer', answer: { status: 200, body }, isStrange: true }) as const
    sim.server.arm('listInstances', strange([{ id: id.slice('main/'.length), description: tag, status: 7 }]))
    expect(await opened.driver.list(tag, signal)).toMatchObject([{ externalId: id, state: 'unreachable' }])
    sim.server.arm('listInstanceTypes', strange([{ instance_type: '1H100.80S.30V' }]))
    expect(await opened.driver.inventory(signal)).toEqual([])
    expect(opened.warnings).toHaveLength(1)
  })

  it('counts the disk in the price of a machine', async () => {
    await create()
    opened.clock.advance(30_000)
    const [machine] = await opened.driver.list(tag, signal)
    expect(machine).toMatchObject({
      state: 'running',
      cost: { perHour: 2_344_794_520n, from: 'create', incrementMs: 600_000 },
      data: { providerId: 'verda', resources: { vcpuCount: 30, gpuCount: 1, ramGb: 120, storageGb: 200 } },
    })
  })
})

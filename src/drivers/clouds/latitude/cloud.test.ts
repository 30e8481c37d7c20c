/** The Latitude.sh driver passes the driver suite at its simulator. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { tagOf } from '../../../domain/rental.ts'
import { LatitudeSim } from '../../../../test/sim/clouds/latitude/cloud.ts'
import type { ManualClock } from '../../../../test/sim/clock.ts'
import {
  cloudConformance,
  openBench,
  type CloudBench,
  type OpenBench,
  fleetFaults,
} from '../../../../test/harness/cloud-conformance.ts'
import { latitude } from './cloud.ts'

const region = 'DAL'
const type = 'g3-large-x86'

function benchOf(sim: LatitudeSim): CloudBench {
  return {
    ...fleetFaults(sim, latitude, 20_000),
    credentials: sim.credentials,
    offer: { region, type, gpus: 8, paysUsdPerGpuHour: '2.08' },
    spec: { kind: 'bare-metal', region: 'us-central-1' },
    operations: { create: 'createServer', list: 'listServers' },
    noCapacity: {
      kind: 'answer',
      answer: {
        status: 422,
        body: {
          errors: [
            { code: 'VALIDATION_ERROR', status: '422', title: '', detail: 'The plan is out of stock', meta: {} },
          ],
        },
      },
    },
    setCapacity: (units) => void sim.plans.get(type)?.capacity.set(region, units),
    raiseCost: () => sim.setPrice(type, 16.65),
    withdraw: () => void sim.plans.delete(type),
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
    const companions = await opened.driver.companions.list(prefix, signal)
    expect(companions.map(({ what }) => what).sort()).toEqual(['ssh-key', 'user-data', 'user-data'])
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

  const create = async (tag: string, overrides: Parameters<OpenBench['spec']>[0] = {}): Promise<string> => {
    const outcome = await opened.driver.create(tag, opened.spec(overrides), signal)
    if (outcome.kind !== 'created') throw new Error(`refused: ${outcome.message}`)
    return outcome.externalId
  }
  const find = async (tag: string) => (await opened.driver.list(tag, signal)).find((one) => one.tag === tag)

  test('finds keys and user data of all pages (issue 31, 8)', async () => {
    sim.plans.get(type)?.capacity.set(region, 50)
    const keyOf = (id: number): string => {
      const bytes = Buffer.alloc(32, id)
      const blob = Buffer.concat([Buffer.from('0000000b7373682d6564323535313900000020', 'hex'), bytes])
      return `ssh-ed25519 ${blob.toString('base64')}`
    }
    const ids = Array.from({ length: 24 }, (_, n) => n + 1)
    for (const id of ids) await create(tagNo(id), { sshKeys: [keyOf(id)] })
    const companions = await opened.driver.companions.list(prefix, signal)
    expect(companions).toHaveLength(48)
    // The key is on the second page: it is used, and no second one is made.
    await create(tagNo(30), { sshKeys: [keyOf(24)] })
    expect(await opened.driver.companions.list(prefix, signal)).toHaveLength(49)
    for (const companion of await opened.driver.companions.list(prefix, signal))
      await opened.driver.companions.remove(companion, signal)
    expect(sim.leftovers().filter((what) => !what.startsWith('server '))).toEqual([])
  })

  test('orders, finds and ends a machine with an id of ten digits (issue 31, 8)', async () => {
    const long = tagNo(2_147_483_647)
    const id = await create(long)
    opened.clock.advance(30_000)
    expect(await find(long)).toMatchObject({ tag: long, state: 'running' })
    expect((await opened.driver.list(prefix, signal)).map(({ tag }) => tag)).toEqual([long])
    await opened.driver.destroy(id, signal)
    opened.clock.advance(10_000)
    expect(await opened.driver.list(prefix, signal)).toEqual([])
  })

  test('is billed by the hour, with what the driver says (issue 31, 9)', async () => {
    const id = await create(tagNo(1))
    opened.clock.advance(3_600_000)
    const perHour = (await find(tagNo(1)))?.cost?.perHour ?? 0n
    await opened.driver.destroy(id, signal)
    const [bill, ...others] = sim.bills().map(({ nanoUsd }) => nanoUsd)
    expect(others).toEqual([])
    expect(bill).toBeGreaterThanOrEqual(perHour)
    // Requests wait for their turns, which takes some seconds.
    expect(bill).toBeLessThan((perHour * 101n) / 100n)
  })

  test('lets every key of the order in, also one that is outside of the project (issue 31, 9)', async () => {
    const keys = [
      'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGXu5nVxHmSpDCxlxFCdvFnBBtVRmCBkmuz6dGXZ8Kwk',
      'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBBC64HBlXQXDYDX6TAeTTIald3yTOp0PfH1BcBujHIg',
    ]
    sim.addForeignKey(keys[1] ?? '')
    for (const [n, sshKeys] of [keys, keys.toReversed()].entries()) {
      await create(tagNo(n + 1), { sshKeys })
      opened.clock.advance(30_000)
      const [ssh] = (await find(tagNo(n + 1)))?.data?.sshNetworking ?? []
      for (const key of keys) expect(sim.logIn(ssh?.host ?? '', ssh?.user ?? '', key)).toEqual({ gpus: 8 })
    }
  })

  test('tells a request that is malformed from a lack of stock', async () => {
    const refuse = async (detail: string, code = 'VALIDATION_ERROR') => {
      const errors = [{ code, status: '422', title: '', detail, meta: {} }]
      sim.server.arm('createServer', { kind: 'answer', answer: { status: 422, body: { errors } } })
      const outcome = await opened.driver.create(tagNo(1), opened.spec(), signal)
      return outcome.kind === 'refused' && outcome.reason
    }
    expect(await refuse('must be filled')).toBe('rejected_by_provider')
    expect(await refuse('The plan is out of stock at this site')).toBe('no_capacity')
    expect(await refuse('The following SSH Keys were not found in project')).toBe('no_capacity')
    expect(await refuse('Not possible', 'OUT_OF_STOCK')).toBe('no_capacity')
  })

  test('says that a server is locked, and ends it once it is not', async () => {
    const id = await create(tagNo(1))
    sim.setLocked(tagNo(1), true)
    await expect(opened.driver.destroy(id, signal)).rejects.toThrow('locked')
    sim.setLocked(tagNo(1), false)
    await opened.driver.destroy(id, signal)
    expect(await find(tagNo(1))).toMatchObject({ state: 'stopping', cost: { perHour: 0n } })
  })

  test('costs the same while it is off, and runs in no state that nobody knows', async () => {
    await create(tagNo(1))
    opened.clock.advance(30_000)
    for (const status of ['off', 'rescue_mode', 'migrating']) {
      sim.setState(tagNo(1), status)
      expect(await find(tagNo(1))).toMatchObject({ state: 'unreachable', cost: { perHour: 16_640_000_000n } })
    }
  })
})

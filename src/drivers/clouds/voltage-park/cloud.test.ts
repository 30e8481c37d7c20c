/** The Voltage Park driver passes the driver suite at its simulator, with virtual machines and with bare metal. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { RentalSpec } from '../../../domain/rental.ts'
import { tagOf } from '../../../domain/rental.ts'
import { unitId } from '../../../domain/unit.ts'
import { VoltageParkSim } from '../../../../test/sim/clouds/voltage-park/cloud.ts'
import type { ManualClock } from '../../../../test/sim/clock.ts'
import {
  cloudConformance,
  openBench,
  type CloudBench,
  type OpenBench,
  fleetFaults,
} from '../../../../test/harness/cloud-conformance.ts'
import { offerIdOf } from '../offer.ts'
import { voltagePark } from './cloud.ts'

const METAL_TYPE = 'metal-infiniband'
const VM_TYPE = 'vm-2x-20000000'

function benchOf(
  sim: VoltageParkSim,
  more: Pick<CloudBench, 'offer' | 'operations'> & Partial<CloudBench>,
): CloudBench {
  return {
    ...fleetFaults(sim, voltagePark, 20_000),
    credentials: { apiToken: sim.apiToken, suborder: '7' },
    noCapacity: { kind: 'answer', answer: { status: 400, body: { detail: 'Sold out' } } },
    setCapacity: () => undefined,
    raiseCost: () => undefined,
    withdraw: () => undefined,
    bills: () => sim.bills(),
    booted: (tag) => sim.booted(tag),
    showStrangeState: () => void (sim.runningState = 'Migrating'),
    volumes: { create: 'createStorage', refuseDestroy: () => void (sim.storages.deleteRefusals = 1) },
    ...more,
  }
}

const metalSpec: Partial<RentalSpec> = { kind: 'bare-metal', networkType: 'infiniband', region: 'us-central-1' }

function metalBench(sim: VoltageParkSim): CloudBench {
  const [location] = sim.locations
  return benchOf(sim, {
    offer: { region: location?.id ?? '', type: METAL_TYPE, gpus: 8, paysUsdPerGpuHour: '2.49' },
    spec: metalSpec,
    operations: { create: 'deployMetal', list: 'listMetal' },
    setCapacity: (units) => void (location === undefined || (location.gpus.infiniband = units * 8)),
    raiseCost: () => sim.setMetalPrice('infiniband', '2.50'),
    withdraw: () => void sim.locations.splice(0),
  })
}

function vmBench(sim: VoltageParkSim): CloudBench {
  const preset = sim.presets.find(({ gpus }) => gpus === 2)
  if (preset === undefined) throw new Error('the simulator has no such preset')
  return benchOf(sim, {
    offer: { region: preset.location, type: VM_TYPE, gpus: 2, paysUsdPerGpuHour: '1.90' },
    spec: { ports: [22, 8080, 9090] },
    operations: { create: 'deployVm', list: 'listVms' },
    setCapacity: (units) => void (preset.capacity = units),
    raiseCost: () => sim.setVmPrice(preset.id, '3.790000'),
    withdraw: () => void sim.presets.splice(sim.presets.indexOf(preset), 1),
  })
}

cloudConformance({
  vendor: voltagePark,
  title: 'voltage-park with bare metal',
  parts: ['machines', 'volumes'],
  makeBench: (clock) => metalBench(new VoltageParkSim({ clock })),
})
cloudConformance({
  vendor: voltagePark,
  title: 'voltage-park with virtual machines',
  cannot: { 'boot-fails': 'it has no state for it: a machine without an address is starting' },
  makeBench: (clock) => vmBench(new VoltageParkSim({ clock })),
})

describe('voltage-park', () => {
  const signal = new AbortController().signal
  const prefix = 'berth-cafe000000-'
  const tag = tagOf('cafe000000', 'rental', { id: 7, nonce: 'c0ffee00' })
  let sim: VoltageParkSim
  let opened: OpenBench
  const open = async (make: (sim: VoltageParkSim) => CloudBench): Promise<void> => {
    opened = await openBench(voltagePark, (clock: ManualClock) => make((sim = new VoltageParkSim({ clock }))))
  }
  const runs = async () => {
    await opened.driver.list(prefix, signal)
    opened.clock.advance(30_000)
    return (await opened.driver.list(prefix, signal)).find((machine) => machine.tag === tag)
  }
  afterEach(async () => {
    const { violations } = sim.server
    await opened.close()
    if (violations.length > 0) throw new Error(violations.join('\n'))
  })

  describe('bare metal', () => {
    beforeEach(() => open(metalBench))

    test('rents several nodes as one order, under the sub-order of the account', async () => {
      const offerId = offerIdOf('voltage-park', {
        account: 'main',
        region: sim.locations[0]?.id ?? '',
        type: METAL_TYPE,
      })
      const nodes = [1, 2].map((n) => ({ machineId: unitId(offerId, n), gpuIndexes: [0, 1, 2, 3, 4, 5, 6, 7] }))
      await opened.driver.create(tag, opened.spec({ nodes, gpuCount: 16 }), signal)
      const machine = await runs()
      expect(machine?.data).toMatchObject({
        providerId: 'voltage-park',
        networkType: 'infiniband',
        gpuFormFactor: 'sxm5',
        resources: { gpuCount: 16, cpuCount: 208, ramGb: 2048 },
        subOrder: '7',
      })
      expect(machine?.data?.sshNetworking).toHaveLength(2)
      expect(machine?.data?.externalId).toBe(machine?.externalId.replace('main/metal/', ''))
      expect(machine?.cost?.perHour).toBe(16n * 2_490_000_000n)
    })

    test('grows a volume, and leaves a refused one as it is', async () => {
      const { volumes } = opened.driver
      const volumeTag = tagOf('cafe000000', 'volume', { id: 3, nonce: 'c0ffee00' })
      const outcome = await volumes?.create(volumeTag, { region: 'us-central-1', label: 'data', sizeGb: 100 }, signal)
      if (outcome?.kind !== 'created') throw new Error('refused')
      expect(await volumes?.grow?.(outcome.externalId, 200, signal)).toEqual({ kind: 'grown' })
      sim.storages.roomGb = 250
      expect(await volumes?.grow?.(outcome.externalId, 300, signal)).toMatchObject({ kind: 'refused' })
      expect(sim.storages.all().map(({ sizeGb }) => sizeGb)).toEqual([200])
      const full = { region: 'us-central-1', label: 'data', sizeGb: 100 }
      const otherTag = tagOf('cafe000000', 'volume', { id: 4, nonce: 'c0ffee00' })
      expect(await volumes?.create(otherTag, full, signal)).toMatchObject({ reason: 'no_storage_capacity' })
      // A repeated create finds the first one.
      expect(await volumes?.create(volumeTag, full, signal)).toEqual(outcome)
      sim.storages.break(sim.storages.all()[0]?.id ?? '')
      expect(await volumes?.list(volumeTag, signal)).toMatchObject([{ ready: false }])
    })

    test('lists volumes of an account that does not answer as the database knows them', async () => {
      const down = { name: 'down', baseUrl: 'http://127.0.0.1:1', credentials: opened.bench.credentials }
      opened.world.add(down)
      const known = { tag: `${prefix}v9-deadbeef`, externalId: 'down/x', vip: '10.0.0.1', attachedTo: [] }
      opened.world.volumes.push(known)
      expect(await opened.driver.volumes?.list(prefix, signal)).toEqual([known])
      const order = { region: 'us-central-1', label: 'data', sizeGb: 1 }
      await expect(opened.driver.volumes?.create(`${prefix}v9-deadbeef`, order, signal)).rejects.toBeInstanceOf(Error)
      await expect(opened.driver.volumes?.attach('down/x', 'main/metal/1', signal)).rejects.toThrow(/account/)
    })

    test('reads a list again that moves while its pages are turned', async () => {
      const volumes = Array.from({ length: 20 }, (_, n) => tagOf('cafe000000', 'volume', { id: n, nonce: 'c0ffee00' }))
      for (const one of volumes)
        await opened.driver.volumes?.create(one, { region: 'us-central-1', label: 'data', sizeGb: 1 }, signal)
      let pages = 0
      sim.server.chaos = (operation) => {
        // The first volume goes after the first page was read.
        if (operation === 'listStorage' && (pages += 1) === 2) sim.storages.lose()
        return undefined
      }
      const listed = await opened.driver.volumes?.list(prefix, signal)
      expect(new Set(listed?.map((volume) => volume.tag))).toEqual(new Set(volumes.slice(1)))
    })
  })

  describe('virtual machines', () => {
    beforeEach(() => open(vmBench))

    test('forwards the ports of the order once the machine runs, and shows them', async () => {
      await opened.driver.create(tag, opened.spec(), signal)
      const machine = await runs()
      expect(machine?.state).toBe('running')
      const data = machine?.data?.providerId === 'voltage-park' ? machine.data : undefined
      expect(data?.portForwards?.map(({ internalPort }) => internalPort)).toEqual([22, 8080, 9090])
      expect(data?.sshNetworking?.[0]?.port).toBe(data?.portForwards?.[0]?.externalPort)
      expect(data?.resources).toMatchObject({ vcpuCount: 52, gpuCount: 2 })
      expect(sim.server.requests.filter((operation) => operation === 'forwardPort')).toHaveLength(2)
    })

    test('costs its disk only once the vendor has taken it back', async () => {
      sim.loseAfterMs = 60_000
      await opened.driver.create(tag, opened.spec(), signal)
      expect((await runs())?.cost?.perHour).toBe(3_800_000_000n)
      opened.clock.advance(120_000)
      expect(await opened.driver.list(tag, signal)).toMatchObject([
        { state: 'failed', failure: 'machine_lost', cost: { perHour: 20_000_000n } },
      ])
    })

    test('never takes a machine that it cannot read for gone, and leaves out such a location (issue 31, 8: S-8)', async () => {
      const outcome = await opened.driver.create(tag, opened.spec(), signal)
      if (outcome.kind !== 'created') throw new Error(outcome.message)
      const id = outcome.externalId.replace('main/vm/', '')
      const page = (results: unknown[]) => ({ results, total_result_count: 1, has_previous: false, has_next: false })
      const strange = (results: unknown[]) =>
        ({ kind: 'answer', answer: { status: 200, body: page(results) }, isStrange: true }) as const
      sim.server.arm('listVms', strange([{ id, name: tag }]))
      expect(await opened.driver.list(tag, signal)).toMatchObject([
        { externalId: outcome.externalId, state: 'unreachable' },
      ])
      sim.server.arm('listMetalLocations', strange([{ id }]))
      expect((await opened.driver.inventory(signal)).map(({ offering }) => offering)).not.toContain('bare-metal')
      expect(opened.warnings).toHaveLength(1)
    })

    test('reads all pages of locations (issue 31, 8: VP-2)', async () => {
      const [first] = sim.locations
      if (first === undefined) throw new Error('no location')
      const ids = Array.from(
        { length: 20 },
        (_, n) => `00000000-0000-4000-8000-0000000001${String(n).padStart(2, '0')}`,
      )
      sim.locations.push(...ids.map((id) => ({ ...first, id })))
      const offers = await opened.driver.providers.offers('main', signal)
      expect(offers?.filter(({ type }) => type === 'metal-ethernet')).toHaveLength(21)
    })

    test('starts until the vendor forwards its ports', async () => {
      sim.server.arm('forwardPort', { kind: 'answer', answer: { status: 400, body: { detail: 'taken' } } }, 3)
      await opened.driver.create(tag, opened.spec(), signal)
      expect((await runs())?.state).toBe('starting')
      expect((await runs())?.state).toBe('running')
    })

    test('offers no preset that could be created in several locations, and no Windows', async () => {
      const [first] = sim.presets
      if (first === undefined) throw new Error('no preset')
      sim.presets.push({ ...first, location: '00000000-0000-4000-8000-0000000000a2' })
      const types = (await opened.driver.providers.offers('main', signal))?.map(({ type }) => type)
      expect(types).toEqual([
        'metal-ethernet',
        'metal-infiniband',
        'vm-2x-20000000',
        'vm-4x-40000000',
        'vm-8x-80000000',
      ])
    })
  })
})

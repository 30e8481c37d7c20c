/**
 * The contract of a driver, as one suite. The reconcilers rely on nothing else, so a driver that passes can be wired in.
 * Faults are part of it. A fault that a provider cannot have, or an ability that it lacks, leaves a visible line in
 * place of its tests, which fails if the driver or its harness says otherwise.
 *
 * Nothing here sleeps. The suite looks, lets a second of the provider's time pass and looks again, so that it takes
 * milliseconds on a simulated provider and as long as needed on a real one.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { providerData } from '../contract/provider-data.ts'
import {
  Bench,
  violationsOf,
  type ConformanceHarness,
  type ConformanceOptions,
  type FaultName,
} from './conformance-bench.ts'
import { elasticTests } from './conformance-elastic.ts'
import { powerTests, rebootTests } from './conformance-power.ts'

export function driverConformance(
  name: string,
  make: () => Promise<ConformanceHarness>,
  {
    cannot = {},
    parts = ['machines', 'volumes', 'power', 'reboot'],
    volumesAreDisks,
    volumesAreFixed,
    elastic = false,
  }: ConformanceOptions = {},
): void {
  describe(`${name} conforms to the driver port`, () => {
    let bench: Bench
    beforeEach(async () => {
      bench = new Bench(await make())
    })
    afterEach(() => bench.clear())

    const itWithFault: ItWithFault = (fault, promise, test) => {
      const reason = cannot[fault]
      // eslint-disable-next-line vitest/valid-title, vitest/expect-expect
      if (reason === undefined) it(promise, test)
      else it(`cannot have the fault ${fault}: ${reason}`, () => expect(bench.canInject(fault)).toBe(false))
    }

    if (parts.includes('machines')) {
      describe('machines', () => {
        machineTests(() => bench)
      })
      describe('faults of machines', () => {
        machineFaultTests(() => bench, itWithFault)
      })
    }
    if (parts.includes('volumes')) {
      describe('volumes', () => {
        volumeTests(() => bench, itWithFault)
        if (volumesAreFixed === true) fixedVolumeTest(() => bench)
        else attachTest(() => bench, volumesAreDisks === true)
      })
    }
    if (parts.includes('power')) {
      describe('power', () => {
        powerTests(() => bench)
      })
    }
    if (parts.includes('reboot')) {
      describe('reboot', () => {
        rebootTests(() => bench)
      })
    }
    if (elastic) {
      describe('offers', () => {
        elasticTests(() => bench, itWithFault)
      })
    }

    it(`has ${elastic ? 'offers' : 'machines and no offers'}`, async () => {
      const items = await bench.driver.inventory(bench.signal)
      expect(bench.driver.traits.elastic).toBe(elastic)
      expect(items.some((item) => 'available' in item)).toBe(elastic)
    })

    it('describes its inventory so that it can be sold', async () => {
      const items = await bench.driver.inventory(bench.signal)
      expect(new Set(items.map(({ id }) => id)).size).toBe(items.length)
      const wrong = items.map((item) => ({ id: item.id, rules: violationsOf(item) }))
      expect(wrong.filter(({ rules }) => rules.length > 0)).toEqual([])
    })

    itWithFault(
      'unreachable',
      'throws when the engine cannot be reached, and never answers with an empty list',
      async () => {
        const { driver, signal, prefix } = bench
        const { externalId } = await bench.create()
        await driver.check(signal)
        await bench.inject('unreachable')
        await expect(driver.list(prefix, signal)).rejects.toBeInstanceOf(Error)
        await expect(driver.check(signal)).rejects.toBeInstanceOf(Error)
        await expect(driver.inventory(signal)).rejects.toBeInstanceOf(Error)
        await expect(driver.create(bench.newTag(), bench.spec(), signal)).rejects.toBeInstanceOf(Error)
        await expect(driver.destroy(externalId, signal)).rejects.toBeInstanceOf(Error)
      },
    )
  })
}

function machineTests(get: () => Bench): void {
  it('lists a created machine by its tag within the list lag, and under no other prefix', async () => {
    const bench = get()
    const { driver, signal, prefix } = bench
    const { tag, externalId } = await bench.create()
    await bench.advance(driver.listLagMs)
    expect(await driver.list(prefix, signal)).toMatchObject([{ tag, externalId }])
    expect(await driver.list(tag, signal)).toMatchObject([{ tag, externalId }])
    for (const other of [`${prefix}x`, `x${prefix}`, `_${prefix.slice(1)}`, `%${prefix}`, prefix.toUpperCase()]) {
      expect(await driver.list(other, signal)).toEqual([])
    }
  })

  it('makes two machines for two creates', async () => {
    const bench = get()
    const [first, second] = await Promise.all([bench.create(), bench.create()])
    await bench.advance(bench.driver.listLagMs)
    expect(first.externalId).not.toBe(second.externalId)
    expect(await bench.listedIds()).toEqual([first.externalId, second.externalId].sort())
  })

  // One test, because a machine that runs costs seconds of CPU time on real providers.
  it('shows a running machine with its address, drops it once destroyed, and accepts further destroys', async () => {
    const bench = get()
    const spec = bench.spec()
    const { externalId } = await bench.create(spec)
    const running = await bench.untilState(externalId, 'running')
    const data = providerData.parse(running.data)
    expect(data.providerId).toBe(bench.driver.id)
    expect(data.resources.gpuCount).toBe(spec.gpuCount)
    expect((data.sshNetworking ?? []).length > 0).toBe(bench.driver.traits.ssh)
    expect(running.failure).toBeUndefined()
    const other = await bench.create()
    await bench.driver.destroy(externalId, bench.signal)
    await bench.driver.destroy(externalId, bench.signal)
    await bench.untilAbsent(externalId)
    await bench.driver.destroy(externalId, bench.signal)
    expect(await bench.listedIds()).toEqual([other.externalId])
  })

  it('destroys a machine before it runs, or as soon as the engine lets it', async () => {
    const bench = get()
    const { externalId } = await bench.create()
    await bench.retryUntilDone(() => bench.driver.destroy(externalId, bench.signal))
    await bench.advance(bench.driver.listLagMs)
    await bench.untilAbsent(externalId)
    expect(await bench.listedIds()).toEqual([])
  })

  it('accepts the destroy of a machine that never existed', async () => {
    const bench = get()
    await expect(bench.driver.destroy(bench.unknownId(), bench.signal)).resolves.toBeUndefined()
  })

  it('rejects an aborted call, and makes nothing for an aborted create', async () => {
    const bench = get()
    const { driver, prefix } = bench
    const aborted = AbortSignal.abort()
    await expect(driver.create(bench.newTag(), bench.spec(), aborted)).rejects.toBeInstanceOf(Error)
    await expect(driver.list(prefix, aborted)).rejects.toBeInstanceOf(Error)
    await expect(driver.destroy(bench.unknownId(), aborted)).rejects.toBeInstanceOf(Error)
    await expect(driver.inventory(aborted)).rejects.toBeInstanceOf(Error)
    await expect(driver.check(aborted)).rejects.toBeInstanceOf(Error)
    await bench.advance(driver.listLagMs)
    expect(await bench.listedIds()).toEqual([])
  })
}

type ItWithFault = (fault: FaultName, promise: string, test: () => Promise<void>) => void

function machineFaultTests(get: () => Bench, itWithFault: ItWithFault): void {
  itWithFault('create-timeout', 'lists by its tag a machine whose create timed out', async () => {
    const bench = get()
    const tag = bench.newTag()
    const spec = bench.spec(await bench.inject('create-timeout'))
    await expect(bench.driver.create(tag, spec, bench.signal)).rejects.toBeInstanceOf(Error)
    await bench.advance(bench.driver.listLagMs)
    expect(await bench.driver.list(tag, bench.signal)).toMatchObject([{ tag }])
  })

  itWithFault('create-lost', 'leaves nothing of a create that was lost', async () => {
    const bench = get()
    const spec = bench.spec(await bench.inject('create-lost'))
    await expect(bench.driver.create(bench.newTag(), spec, bench.signal)).rejects.toBeInstanceOf(Error)
    await bench.advance(bench.driver.listLagMs)
    expect(await bench.listedIds()).toEqual([])
  })

  itWithFault('no-capacity', 'refuses for lack of capacity with a sentence, and makes nothing', async () => {
    const bench = get()
    const spec = bench.spec(await bench.inject('no-capacity'))
    const outcome = await bench.driver.create(bench.newTag(), spec, bench.signal)
    const message: unknown = expect.stringMatching(/^[A-Z].*\.$/)
    expect(outcome).toMatchObject({ kind: 'refused', reason: 'no_capacity', message })
    await bench.advance(bench.driver.listLagMs)
    expect(await bench.listedIds()).toEqual([])
  })

  itWithFault('boot-fails', 'shows a failed boot with its reason until it is destroyed', async () => {
    const bench = get()
    const { externalId } = await bench.create(bench.spec(await bench.inject('boot-fails')))
    const failed = await bench.untilState(externalId, 'failed')
    expect(failed.failure).toMatch(/^[a-z][a-z0-9_]+$/)
    await bench.driver.destroy(externalId, bench.signal)
    await bench.untilAbsent(externalId)
  })

  itWithFault('list-lag', 'lists a late machine by the end of the list lag', async () => {
    const bench = get()
    const { externalId } = await bench.create(bench.spec(await bench.inject('list-lag')))
    expect(await bench.listedIds()).toEqual([])
    await bench.advance(bench.driver.listLagMs)
    expect(await bench.listedIds()).toEqual([externalId])
  })

  itWithFault('vanish', 'shows a vanished machine as absent or failed, without an error', async () => {
    const bench = get()
    const { externalId } = await bench.create(bench.spec(await bench.inject('vanish')))
    await bench.advance(bench.driver.listLagMs)
    expect(await bench.listedIds()).toEqual([externalId])
    await bench.untilLost(externalId)
    await bench.driver.destroy(externalId, bench.signal)
    await bench.untilAbsent(externalId)
  })

  itWithFault(
    'destroy-refused',
    'throws on a refused destroy, keeps the machine listed, and destroys it in the end',
    async () => {
      const bench = get()
      const { externalId } = await bench.create(bench.spec(await bench.inject('destroy-refused')))
      await bench.advance(bench.driver.listLagMs)
      await expect(bench.driver.destroy(externalId, bench.signal)).rejects.toBeInstanceOf(Error)
      expect(await bench.listedIds()).toEqual([externalId])
      await bench.retryUntilDone(() => bench.driver.destroy(externalId, bench.signal))
      await bench.untilAbsent(externalId)
    },
  )
}

function volumeTests(get: () => Bench, itWithFault: ItWithFault): void {
  it('lists a volume with its address within the list lag, and not among the machines', async () => {
    const bench = get()
    const volumes = bench.volumes()
    const { tag, externalId, vip } = await bench.createVolume(volumes)
    await bench.advance(bench.driver.listLagMs)
    expect(await volumes.list(bench.prefix, bench.signal)).toMatchObject([{ externalId, tag, vip, attachedTo: [] }])
    expect(await volumes.list(`${bench.prefix}x`, bench.signal)).toEqual([])
    expect(vip).not.toBe('')
    expect(await bench.listedIds()).toEqual([])
  })

  it('drops a destroyed volume from the list, and accepts further destroys and unknown ids', async () => {
    const bench = get()
    const volumes = bench.volumes()
    const other = await bench.createVolume(volumes)
    const { externalId } = await bench.createVolume(volumes)
    await bench.advance(bench.driver.listLagMs)
    await volumes.destroy(externalId, bench.signal)
    await volumes.destroy(externalId, bench.signal)
    await bench.untilVolumeAbsent(volumes, externalId)
    await volumes.destroy(externalId, bench.signal)
    await volumes.destroy(bench.unknownId(), bench.signal)
    expect(await volumes.list(bench.prefix, bench.signal)).toMatchObject([{ externalId: other.externalId }])
  })

  itWithFault('volume-create-timeout', 'lists by its tag a volume whose create timed out', async () => {
    const bench = get()
    const volumes = bench.volumes()
    const tag = bench.newTag('volume')
    const spec = bench.volumeSpec(await bench.injectVolume('volume-create-timeout'))
    await expect(volumes.create(tag, spec, bench.signal)).rejects.toBeInstanceOf(Error)
    await bench.advance(bench.driver.listLagMs)
    expect(await volumes.list(tag, bench.signal)).toMatchObject([{ tag }])
  })

  itWithFault(
    'volume-destroy-refused',
    'throws on a refused destroy of a volume, keeps it, and destroys it in the end',
    async () => {
      const bench = get()
      const volumes = bench.volumes()
      const { externalId } = await bench.createVolume(volumes, await bench.injectVolume('volume-destroy-refused'))
      await bench.advance(bench.driver.listLagMs)
      await expect(volumes.destroy(externalId, bench.signal)).rejects.toBeInstanceOf(Error)
      expect(await bench.findVolume(volumes, externalId)).toBeDefined()
      await bench.retryUntilDone(() => volumes.destroy(externalId, bench.signal))
      await bench.untilVolumeAbsent(volumes, externalId)
    },
  )

  itWithFault(
    'unreachable',
    'throws for volumes when the engine cannot be reached, and never answers with an empty list',
    async () => {
      const bench = get()
      const volumes = bench.volumes()
      const { externalId } = await bench.createVolume(volumes)
      await bench.inject('unreachable')
      await expect(volumes.list(bench.prefix, bench.signal)).rejects.toBeInstanceOf(Error)
      await expect(volumes.destroy(externalId, bench.signal)).rejects.toBeInstanceOf(Error)
    },
  )
}

function attachTest(get: () => Bench, areDisks: boolean): void {
  it('attaches and detaches a volume, and accepts a repeated call', async () => {
    const bench = get()
    const volumes = bench.volumes()
    const [one, other] = await Promise.all([bench.create(), bench.create()])
    await Promise.all([bench.untilState(one.externalId, 'running'), bench.untilState(other.externalId, 'running')])
    const { externalId } = await bench.createVolume(volumes)
    await bench.advance(bench.driver.listLagMs)
    const attachedTo = async () => [...((await bench.findVolume(volumes, externalId))?.attachedTo ?? [])].sort()

    await volumes.attach(externalId, one.externalId, bench.signal)
    await volumes.attach(externalId, one.externalId, bench.signal)
    expect(await attachedTo()).toEqual([one.externalId])
    const second = volumes.attach(externalId, other.externalId, bench.signal)
    expect(await second.then(() => 'attached', String)).toMatch(areDisks ? /^Error/ : 'attached')
    const both = [one.externalId, other.externalId].sort()
    expect(await attachedTo()).toEqual(areDisks ? [one.externalId] : both)
    await volumes.detach(externalId, one.externalId, bench.signal)
    await volumes.detach(externalId, one.externalId, bench.signal)
    expect(await attachedTo()).toEqual(areDisks ? [] : [other.externalId])
    await volumes.attach(externalId, other.externalId, bench.signal)
    expect(await attachedTo()).toEqual([other.externalId])
  })
}

function fixedVolumeTest(get: () => Bench): void {
  it('gives a machine the volumes of its order, keeps them after it, and attaches none later', async () => {
    const bench = get()
    const volumes = bench.volumes()
    const { externalId } = await bench.createVolume(volumes)
    const disks = [{ volumeId: externalId, path: '/data', readOnly: false }]
    const [one, other] = [await bench.create(bench.spec({ disks })), await bench.create()]
    await Promise.all([bench.untilState(one.externalId, 'running'), bench.untilState(other.externalId, 'running')])
    const attachedTo = async () => (await bench.findVolume(volumes, externalId))?.attachedTo
    await volumes.attach(externalId, one.externalId, bench.signal)
    expect(await attachedTo()).toEqual([one.externalId])
    await expect(volumes.attach(externalId, other.externalId, bench.signal)).rejects.toBeInstanceOf(Error)
    await bench.driver.destroy(one.externalId, bench.signal)
    await bench.untilAbsent(one.externalId)
    await volumes.detach(externalId, one.externalId, bench.signal)
    await volumes.detach(externalId, other.externalId, bench.signal)
    expect(await attachedTo()).toEqual([])
  })
}

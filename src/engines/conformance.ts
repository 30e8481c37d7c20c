/**
 * What every driver must do, as one suite. The reconcilers rely on nothing else, so a driver that passes can be wired
 * in. Faults are part of it: a driver that cannot have one says why.
 *
 * Nothing here sleeps. The suite looks, lets a second of the engine's time pass and looks again, so that it takes
 * milliseconds on a simulated engine and as long as it takes on a real one.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { providerData } from '../contract/provider-data.ts'
import {
  Bench,
  wrongWith,
  type ConformanceHarness,
  type ConformanceOptions,
  type FaultName,
} from './conformance-bench.ts'

export function driverConformance(
  name: string,
  make: () => Promise<ConformanceHarness>,
  { cannot = {}, parts = ['machines', 'volumes'], volumesAreDisks }: ConformanceOptions = {},
): void {
  /** A test of a fault; one that the engine cannot have is not a test of it. */
  const itCan: ItCan = (fault, promise, test) => {
    // eslint-disable-next-line vitest/valid-title, vitest/expect-expect
    if (cannot[fault] === undefined) it(promise, test)
  }
  describe(`${name} keeps the promises of a driver`, () => {
    let bench: Bench
    beforeEach(async () => {
      bench = new Bench(await make())
    })
    afterEach(() => bench.clear())

    if (parts.includes('machines')) {
      describe('machines', () => {
        machineTests(() => bench)
      })
      describe('faults of machines', () => {
        machineFaultTests(() => bench, itCan)
      })
    }
    if (parts.includes('volumes')) {
      describe('volumes', () => {
        volumeTests(() => bench, itCan, volumesAreDisks === true)
      })
    }

    it('offers machines that can be sold as they are described', async () => {
      const machines = await bench.driver.inventory(bench.signal)
      expect(new Set(machines.map((machine) => machine.id)).size).toBe(machines.length)
      const wrong = machines.map((machine) => ({ id: machine.id, rules: wrongWith(machine) }))
      expect(wrong.filter(({ rules }) => rules.length > 0)).toEqual([])
    })

    itCan('unreachable', 'throws when the engine cannot be reached, and never answers with an empty list', async () => {
      const { driver, signal, prefix } = bench
      const { externalId } = await bench.create()
      await driver.check(signal)
      await bench.inject('unreachable')
      await expect(driver.list(prefix, signal)).rejects.toBeInstanceOf(Error)
      await expect(driver.check(signal)).rejects.toBeInstanceOf(Error)
      await expect(driver.inventory(signal)).rejects.toBeInstanceOf(Error)
      await expect(driver.create(bench.newTag(), bench.spec(), signal)).rejects.toBeInstanceOf(Error)
      await expect(driver.destroy(externalId, signal)).rejects.toBeInstanceOf(Error)
    })
  })
}

function machineTests(get: () => Bench): void {
  it('a created machine is listed by its tag within the list lag, and not under another prefix', async () => {
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

  it('a machine comes to run, and says where to reach it', async () => {
    const bench = get()
    const spec = bench.spec()
    const { externalId } = await bench.create(spec)
    const running = await bench.untilState(externalId, 'running')
    const data = providerData.parse(running.data)
    expect(data.providerId).toBe(bench.driver.id)
    expect(data.resources.gpuCount).toBe(spec.gpuCount)
    expect((data.sshNetworking ?? []).length > 0).toBe(bench.driver.traits.ssh)
    expect(running.failure).toBeUndefined()
  })

  it('two creates make two machines', async () => {
    const bench = get()
    const [first, second] = await Promise.all([bench.create(), bench.create()])
    await bench.advance(bench.driver.listLagMs)
    expect(first.externalId).not.toBe(second.externalId)
    expect(await bench.listedIds()).toEqual([first.externalId, second.externalId].sort())
  })

  it('a destroyed machine goes from the list, and to destroy it again succeeds at every stage', async () => {
    const bench = get()
    const kept = await bench.create()
    const { externalId } = await bench.create()
    await bench.untilState(externalId, 'running')
    await bench.untilState(kept.externalId, 'running')
    await bench.driver.destroy(externalId, bench.signal)
    await bench.driver.destroy(externalId, bench.signal)
    await bench.untilAbsent(externalId)
    await bench.driver.destroy(externalId, bench.signal)
    expect(await bench.listedIds()).toEqual([kept.externalId])
  })

  it('a machine can be destroyed before it runs', async () => {
    const bench = get()
    const { externalId } = await bench.create()
    await bench.driver.destroy(externalId, bench.signal)
    await bench.advance(bench.driver.listLagMs)
    await bench.untilAbsent(externalId)
    expect(await bench.listedIds()).toEqual([])
  })

  it('to destroy a machine that never was succeeds', async () => {
    const bench = get()
    await expect(bench.driver.destroy(bench.unknownId(), bench.signal)).resolves.toBeUndefined()
  })

  it('an aborted call is rejected, and an aborted create makes nothing', async () => {
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

type ItCan = (fault: FaultName, promise: string, test: () => Promise<void>) => void

function machineFaultTests(get: () => Bench, itCan: ItCan): void {
  itCan('create-timeout', 'a create that timed out after the machine was made is found by its tag', async () => {
    const bench = get()
    const tag = bench.newTag()
    const spec = bench.spec(await bench.inject('create-timeout'))
    await expect(bench.driver.create(tag, spec, bench.signal)).rejects.toBeInstanceOf(Error)
    await bench.advance(bench.driver.listLagMs)
    expect(await bench.driver.list(tag, bench.signal)).toMatchObject([{ tag }])
  })

  itCan('create-lost', 'a create that was lost leaves nothing', async () => {
    const bench = get()
    const spec = bench.spec(await bench.inject('create-lost'))
    await expect(bench.driver.create(bench.newTag(), spec, bench.signal)).rejects.toBeInstanceOf(Error)
    await bench.advance(bench.driver.listLagMs)
    expect(await bench.listedIds()).toEqual([])
  })

  itCan('no-capacity', 'capacity that is gone is a refusal in words, and nothing is made', async () => {
    const bench = get()
    const spec = bench.spec(await bench.inject('no-capacity'))
    const outcome = await bench.driver.create(bench.newTag(), spec, bench.signal)
    expect(outcome).toEqual({ kind: 'refused', reason: 'no_capacity', message: expect.stringMatching(/^[A-Z].*\.$/) })
    await bench.advance(bench.driver.listLagMs)
    expect(await bench.listedIds()).toEqual([])
  })

  itCan('boot-fails', 'a failed boot is shown as failed, with the reason, until it is destroyed', async () => {
    const bench = get()
    const { externalId } = await bench.create(bench.spec(await bench.inject('boot-fails')))
    const failed = await bench.untilState(externalId, 'failed')
    expect(failed.failure).toMatch(/^[a-z][a-z0-9_]+$/)
    await bench.driver.destroy(externalId, bench.signal)
    await bench.untilAbsent(externalId)
  })

  itCan('list-lag', 'a list that lags behind a create shows the machine by the end of the lag', async () => {
    const bench = get()
    const { externalId } = await bench.create(bench.spec(await bench.inject('list-lag')))
    expect(await bench.listedIds()).toEqual([])
    await bench.advance(bench.driver.listLagMs)
    expect(await bench.listedIds()).toEqual([externalId])
  })

  itCan(
    'vanish',
    'a machine that vanished behind our back is absent from the list or failed, and no error',
    async () => {
      const bench = get()
      const { externalId } = await bench.create(bench.spec(await bench.inject('vanish')))
      await bench.advance(bench.driver.listLagMs)
      expect(await bench.listedIds()).toEqual([externalId])
      await bench.untilLost(externalId)
      await bench.driver.destroy(externalId, bench.signal)
      await bench.untilAbsent(externalId)
    },
  )

  itCan(
    'destroy-refused',
    'a refused destroy throws and leaves the machine listed; asking on succeeds in the end',
    async () => {
      const bench = get()
      const { externalId } = await bench.create(bench.spec(await bench.inject('destroy-refused')))
      await bench.untilState(externalId, 'running')
      await expect(bench.driver.destroy(externalId, bench.signal)).rejects.toBeInstanceOf(Error)
      expect(await bench.listedIds()).toEqual([externalId])
      await bench.insist(() => bench.driver.destroy(externalId, bench.signal))
      await bench.untilAbsent(externalId)
    },
  )
}

function volumeTests(get: () => Bench, itCan: ItCan, areDisks: boolean): void {
  it('a volume is listed with its address within the list lag, and not among the machines', async () => {
    const bench = get()
    const volumes = bench.volumes()
    const { tag, externalId, vip } = await bench.createVolume(volumes)
    await bench.advance(bench.driver.listLagMs)
    expect(await volumes.list(bench.prefix, bench.signal)).toEqual([{ externalId, tag, vip, attachedTo: [] }])
    expect(await volumes.list(`${bench.prefix}x`, bench.signal)).toEqual([])
    expect(vip).not.toBe('')
    expect(await bench.listedIds()).toEqual([])
  })

  it('a volume is attached and detached, and to ask for what is so already succeeds', async () => {
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

  it('a destroyed volume goes from the list, and to destroy it again or one that never was succeeds', async () => {
    const bench = get()
    const volumes = bench.volumes()
    const kept = await bench.createVolume(volumes)
    const { externalId } = await bench.createVolume(volumes)
    await bench.advance(bench.driver.listLagMs)
    await volumes.destroy(externalId, bench.signal)
    await volumes.destroy(externalId, bench.signal)
    await bench.untilVolumeAbsent(volumes, externalId)
    await volumes.destroy(externalId, bench.signal)
    await volumes.destroy(bench.unknownId(), bench.signal)
    expect(await volumes.list(bench.prefix, bench.signal)).toMatchObject([{ externalId: kept.externalId }])
  })

  itCan('volume-create-timeout', 'a volume whose create timed out after it was made is found by its tag', async () => {
    const bench = get()
    const volumes = bench.volumes()
    const tag = bench.newTag('volume')
    const spec = bench.volumeSpec(await bench.injectVolume('volume-create-timeout'))
    await expect(volumes.create(tag, spec, bench.signal)).rejects.toBeInstanceOf(Error)
    await bench.advance(bench.driver.listLagMs)
    expect(await volumes.list(tag, bench.signal)).toMatchObject([{ tag }])
  })

  itCan(
    'volume-destroy-refused',
    'a refused destroy of a volume throws and leaves it; asking on succeeds in the end',
    async () => {
      const bench = get()
      const volumes = bench.volumes()
      const { externalId } = await bench.createVolume(volumes, await bench.injectVolume('volume-destroy-refused'))
      await bench.advance(bench.driver.listLagMs)
      await expect(volumes.destroy(externalId, bench.signal)).rejects.toBeInstanceOf(Error)
      expect(await bench.findVolume(volumes, externalId)).toBeDefined()
      await bench.insist(() => volumes.destroy(externalId, bench.signal))
      await bench.untilVolumeAbsent(volumes, externalId)
    },
  )

  itCan(
    'unreachable',
    'volumes of an engine that cannot be reached are an error, and never an empty list',
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

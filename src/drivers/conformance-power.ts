/** The conformance of a provider that stops, starts and reboots machines; see conformance.ts. */
import { expect, it } from 'vitest'
import type { Bench } from './conformance-bench.ts'
import type { DriverMachine, PowerDriver } from './driver.ts'

export function powerTests(get: () => Bench): void {
  it('declares what it can do, and does that for the kinds it declares', () => {
    const { traits, power } = get().driver
    expect(power !== undefined).toBe(traits.power.stop.length + traits.power.reboot.length > 0)
  })

  it('turns a machine off and on again under the same id, and accepts repeated calls', async () => {
    const bench = get()
    const spec = bench.spec()
    const { externalId, tag } = await bench.create(spec)
    const power = powerOf(bench)
    await bench.untilState(externalId, 'running')
    await power.stop(externalId, bench.signal)
    await power.stop(externalId, bench.signal)
    const off = await bench.untilState(externalId, 'stopped')
    expect(off).toMatchObject({ externalId, tag })
    await power.stop(externalId, bench.signal)
    expect(await power.start(externalId, spec, bench.signal)).toEqual({ kind: 'starting' })
    expect(await power.start(externalId, spec, bench.signal)).toEqual({ kind: 'starting' })
    const on = await bench.untilState(externalId, 'running')
    expect(on.data).toBeDefined()
    expect(await bench.listedIds()).toEqual([externalId])
  })

  it('destroys a machine that is off, and does not start one that is going', async () => {
    const bench = get()
    const spec = bench.spec()
    const { externalId } = await bench.create(spec)
    await bench.untilState(externalId, 'running')
    await powerOf(bench).stop(externalId, bench.signal)
    await bench.untilState(externalId, 'stopped')
    await bench.driver.destroy(externalId, bench.signal)
    // Either answer is right, as long as it goes.
    await powerOf(bench)
      .start(externalId, spec, bench.signal)
      .catch(() => {})
    await bench.untilAbsent(externalId)
    expect(await bench.listedIds()).toEqual([])
  })
}

export function rebootTests(get: () => Bench): void {
  it('reboots a machine once for each count; it stays under its id and in another run', async () => {
    const bench = get()
    const { driver } = bench
    const { externalId } = await bench.create()
    const before = await bench.untilState(externalId, 'running')
    await powerOf(bench).reboot(externalId, 1, bench.signal)
    await powerOf(bench).reboot(externalId, 1, bench.signal)
    await bench.advance(1_000)
    const after = await bench.eventually('the machine runs again', async () => {
      const machines = await driver.list(bench.prefix, bench.signal)
      const isBack = ({ state, incarnation }: DriverMachine): boolean =>
        state === 'running' && (before.incarnation === undefined || incarnation !== before.incarnation)
      return machines.find(isBack)
    })
    await powerOf(bench).reboot(externalId, 1, bench.signal)
    await bench.advance(1_000)
    expect(await bench.untilState(externalId, 'running')).toEqual(after)
    expect(await bench.listedIds()).toEqual([externalId])
  })

  it('destroys a machine that was just told to reboot', async () => {
    const bench = get()
    const { externalId } = await bench.create()
    await bench.untilState(externalId, 'running')
    await powerOf(bench).reboot(externalId, 1, bench.signal)
    await bench.driver.destroy(externalId, bench.signal)
    await bench.untilAbsent(externalId)
    expect(await bench.listedIds()).toEqual([])
  })
}

function powerOf(bench: Bench): PowerDriver {
  const { power } = bench.driver
  if (power === undefined) throw new Error(`${bench.driver.id} has no power control`)
  return power
}

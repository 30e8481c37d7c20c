/** The conformance of an engine that stops, starts and reboots machines; see conformance.ts. */
import { expect, it } from 'vitest'
import type { Bench } from './conformance-bench.ts'
import type { PowerEngine } from './driver.ts'

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
    expect(await power.start(externalId, spec.nodes, bench.signal)).toEqual({ kind: 'starting' })
    expect(await power.start(externalId, spec.nodes, bench.signal)).toEqual({ kind: 'starting' })
    const on = await bench.untilState(externalId, 'running')
    expect(on.data).toBeDefined()
    expect(await bench.listedIds()).toEqual([externalId])
  })

  it('reboots a machine, which stays under its id, and accepts the same count again', async () => {
    const bench = get()
    const { externalId } = await bench.create()
    await bench.untilState(externalId, 'running')
    await powerOf(bench).reboot(externalId, 1, bench.signal)
    await powerOf(bench).reboot(externalId, 1, bench.signal)
    await bench.advance(1_000)
    await bench.untilState(externalId, 'running')
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
      .start(externalId, spec.nodes, bench.signal)
      .catch(() => {})
    await bench.untilAbsent(externalId)
    expect(await bench.listedIds()).toEqual([])
  })
}

function powerOf(bench: Bench): PowerEngine {
  const { power } = bench.driver
  if (power === undefined) throw new Error(`${bench.driver.id} cannot stop machines`)
  return power
}

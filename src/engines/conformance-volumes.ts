/**
 * What every engine of volumes must do when its disk is full, when a create breaks off half-way and when data vanishes.
 * One rule is behind all of it: an engine says `created`, and shows a volume as ready, only while the data is there. A
 * customer pays from that word on.
 */
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tagOf, tagPrefix } from '../domain/rental.ts'
import type { EngineVolume, VolumeEngine } from './driver.ts'

export interface VolumeHarness {
  readonly engine: VolumeEngine
  readonly region: string
  /** At least two of this size fit at once. */
  readonly sizeGb: number
  /** Lets the list catch up with what was made. */
  settle(): Promise<void>
  /** From now on there is no room for another one. The label that an order must have for that, where it matters. */
  fill(): Promise<string>
  /** From now on a create breaks off after it has begun, however much room was counted. Likewise. */
  breakCreates(): Promise<string>
  /** Ends both. */
  repair(): Promise<void>
  /** The data of a volume goes behind the engine's back. */
  lose(externalId: string): Promise<void>
  /** Names of everything that is kept for volumes, half made things too. */
  traces(): Promise<string[]>
  dispose(): Promise<void>
}

export function volumeConformance(name: string, make: () => Promise<VolumeHarness>): void {
  describe(`${name} sells only volumes that exist`, () => {
    const { signal } = new AbortController()
    const installation = randomBytes(5).toString('hex')
    let harness: VolumeHarness
    let tags = 0
    beforeEach(async () => {
      harness = await make()
    })
    afterEach(() => harness.dispose())

    const newTag = (): string => tagOf(installation, 'volume', { id: (tags += 1), nonce: 'c0ffee00' })
    const order = (tag: string, label = 'plain') => {
      const { engine, region, sizeGb } = harness
      return engine.create(tag, { region, label, sizeGb }, signal)
    }
    const create = async (tag = newTag()): Promise<string> => {
      const outcome = await order(tag)
      if (outcome.kind === 'refused') throw new Error(outcome.message)
      await harness.settle()
      return outcome.externalId
    }
    const list = (): Promise<EngineVolume[]> => harness.engine.list(tagPrefix(installation), signal)
    const isReady = async (externalId: string): Promise<boolean> =>
      (await list()).some((one) => one.externalId === externalId && one.ready !== false)
    const roomGb = async () => (await harness.engine.roomGb?.([harness.region], signal))?.get(harness.region)

    it('what it has made is there: on its disk, in its list, and no longer in its room', async () => {
      const before = await roomGb()
      const traces = await harness.traces()
      const externalId = await create()
      expect(await isReady(externalId)).toBe(true)
      expect((await harness.traces()).length).toBeGreaterThan(traces.length)
      // undefined: the engine knows no limit.
      const takenGb = before === undefined ? harness.sizeGb : before - ((await roomGb()) ?? before)
      // Others may write to the same disk.
      expect(takenGb).toBeGreaterThanOrEqual(harness.sizeGb)
      await harness.engine.destroy(externalId, signal)
      await harness.settle()
      expect(await harness.traces()).toEqual(traces)
    })

    it('without room it refuses with a reason, and neither shows nor keeps anything', async () => {
      const externalId = await create()
      const label = await harness.fill()
      const traces = await harness.traces()
      const outcome = await order(newTag(), label)
      expect(outcome).toEqual({
        kind: 'refused',
        reason: 'no_storage_capacity',
        message: expect.stringMatching(/^[A-Z].*\.$/),
      })
      await harness.settle()
      expect((await list()).map((one) => one.externalId)).toEqual([externalId])
      expect(await isReady(externalId)).toBe(true)
      expect(await harness.traces()).toEqual(traces)
      const left = await roomGb()
      // undefined: the engine knows no limit.
      expect(left ?? 0).toBeLessThan(harness.sizeGb)
    })

    it('a create that breaks off half-way is no volume, leaves nothing on the disk, and can be repeated', async () => {
      const traces = await harness.traces()
      const label = await harness.breakCreates()
      const tag = newTag()
      const outcome = await order(tag, label).then(
        ({ kind }) => kind,
        () => 'failed',
      )
      expect(outcome).not.toBe('created')
      await harness.settle()
      expect((await list()).filter((one) => one.ready !== false)).toEqual([])
      expect(await harness.traces()).toEqual(traces)
      await harness.repair()
      await harness.settle()
      const externalId = await create(tag)
      expect((await list()).map((one) => one.externalId)).toEqual([externalId])
      expect(await isReady(externalId)).toBe(true)
    })

    it('a create that broke off can be given up: nothing of it is shown after that', async () => {
      const label = await harness.breakCreates()
      await order(newTag(), label).catch(() => undefined)
      await harness.repair()
      for (const { externalId } of await list()) await harness.engine.destroy(externalId, signal)
      await harness.settle()
      expect(await list()).toEqual([])
    })

    it('a volume whose data has vanished is not shown as ready, does not hide the others, and can be destroyed', async () => {
      const [lost, kept] = [await create(), await create()]
      await harness.lose(lost)
      await harness.settle()
      expect(await isReady(lost)).toBe(false)
      expect(await isReady(kept)).toBe(true)
      await harness.engine.destroy(lost, signal)
      await harness.settle()
      expect((await list()).map((one) => one.externalId)).toEqual([kept])
    })
  })
}

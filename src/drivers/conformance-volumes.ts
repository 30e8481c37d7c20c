/**
 * The contract of a volume provider for full disks, interrupted creates and lost data. The rule behind it: a provider
 * answers `created`, and lists a volume as ready, only while its data exists, since the customer pays from then on.
 */
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tagOf, tagPrefix } from '../domain/rental.ts'
import type { DriverVolume, Near, VolumeDriver } from './driver.ts'

export interface VolumeHarness {
  readonly engine: VolumeDriver
  readonly region: string
  /** Some drivers need to know it. */
  readonly near?: Near
  /** At least two of this size fit at once. */
  readonly sizeGb: number
  /** Waits for the list lag. */
  settle(): Promise<void>
  /** Uses up all space. Returns the label that an order needs to hit that. */
  fill(): Promise<string>
  /** Makes creates fail half-way, whatever space was counted. Returns the label likewise. */
  breakCreates(): Promise<string>
  /** Undoes both. */
  repair(): Promise<void>
  /** Deletes the data of a volume behind the provider's back. */
  lose(externalId: string): Promise<void>
  /** Names of all files kept for volumes, including partial ones. */
  traces(): Promise<string[]>
  dispose(): Promise<void>
}

/** Tests that a driver may leave out. */
interface Abilities {
  readonly grows: boolean
  readonly copies: boolean
}

export function volumeConformance(
  name: string,
  make: () => Promise<VolumeHarness>,
  { grows, copies }: Abilities = { grows: true, copies: true },
): void {
  describe(`${name} conforms to the volume engine port`, () => {
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
      const { engine, region, sizeGb, near } = harness
      return engine.create(tag, { region, label, sizeGb, ...(near === undefined ? {} : { near }) }, signal)
    }
    const create = async (tag = newTag()): Promise<string> => {
      const outcome = await order(tag)
      if (outcome.kind === 'refused') throw new Error(outcome.message)
      await harness.settle()
      return outcome.externalId
    }
    const list = (): Promise<DriverVolume[]> => harness.engine.list(tagPrefix(installation), signal)
    const isReady = async (externalId: string): Promise<boolean> =>
      (await list()).some((one) => one.externalId === externalId && one.ready !== false)
    const roomGb = async () =>
      (await harness.engine.roomGb?.([harness.region], signal, harness.near))?.get(harness.region)

    it('creates a volume on disk, lists it and subtracts it from the free space', async () => {
      const before = await roomGb()
      const traces = await harness.traces()
      const externalId = await create()
      expect(await isReady(externalId)).toBe(true)
      expect((await harness.traces()).length).toBeGreaterThan(traces.length)
      // undefined: the provider knows no limit.
      const takenGb = before === undefined ? harness.sizeGb : before - ((await roomGb()) ?? before)
      // Others may write to the same disk.
      expect(takenGb).toBeGreaterThanOrEqual(harness.sizeGb)
      await harness.engine.destroy(externalId, signal)
      await harness.settle()
      expect(await harness.traces()).toEqual(traces)
    })

    it('refuses without space, and leaves nothing behind', async () => {
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
      const remainingGb = await roomGb()
      // undefined: the provider knows no limit.
      expect(remainingGb ?? 0).toBeLessThan(harness.sizeGb)
    })

    it('leaves nothing of an interrupted create, which can be repeated', async () => {
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

    it('forgets an interrupted create once it is destroyed', async () => {
      const label = await harness.breakCreates()
      await order(newTag(), label).catch(() => undefined)
      await harness.repair()
      for (const { externalId } of await list()) await harness.engine.destroy(externalId, signal)
      await harness.settle()
      expect(await list()).toEqual([])
    })

    it('offers growth and copies only where it can', () => {
      const { engine } = harness
      expect([engine.grow !== undefined, engine.copies === true]).toEqual([grows, copies])
    })

    if (grows)
      it('grows a volume, again without effect, and refuses to without space', async () => {
        const { engine, sizeGb } = harness
        if (engine.grow === undefined) throw new Error('it cannot grow')
        const externalId = await create()
        const before = await roomGb()
        expect(await engine.grow(externalId, sizeGb + 1, signal)).toEqual({ kind: 'grown' })
        expect(await engine.grow(externalId, sizeGb + 1, signal)).toEqual({ kind: 'grown' })
        await harness.settle()
        expect(await isReady(externalId)).toBe(true)
        // undefined: the provider knows no limit.
        if (before === undefined) return
        expect(before - ((await roomGb()) ?? before)).toBeGreaterThanOrEqual(1)
        await harness.fill()
        expect(await engine.grow(externalId, sizeGb + 2, signal)).toEqual({
          kind: 'refused',
          message: expect.stringMatching(/^[A-Z].*\.$/),
        })
        expect(await isReady(externalId)).toBe(true)
      })

    if (copies)
      it('copies a volume, and the copy stays without the original', async () => {
        const { engine, region, sizeGb } = harness
        const original = await create()
        const near = { volume: original }
        const order = { region, label: 'copy', sizeGb, near, copyOf: original }
        const copy = await engine.create(newTag(), order, signal)
        if (copy.kind === 'refused') throw new Error(copy.message)
        await harness.settle()
        expect([await isReady(original), await isReady(copy.externalId)]).toEqual([true, true])
        await engine.destroy(original, signal)
        await harness.settle()
        expect((await list()).map((one) => one.externalId)).toEqual([copy.externalId])
        expect(await isReady(copy.externalId)).toBe(true)
      })

    it('lists a volume without its data as not ready, keeps the others, and destroys it', async () => {
      const [lost, intact] = [await create(), await create()]
      await harness.lose(lost)
      await harness.settle()
      expect(await isReady(lost)).toBe(false)
      expect(await isReady(intact)).toBe(true)
      await harness.engine.destroy(lost, signal)
      await harness.settle()
      expect((await list()).map((one) => one.externalId)).toEqual([intact])
    })
  })
}

/** The contract of offers, for drivers whose provider creates machines on demand. */
import { expect, it } from 'vitest'
import type { Bench, FaultName } from './conformance-bench.ts'
import type { InventoryOffer } from './driver.ts'

type ItWithFault = (fault: FaultName, promise: string, test: () => Promise<void>) => void

export function elasticTests(get: () => Bench, itWithFault: ItWithFault): void {
  const offerNow = async (): Promise<InventoryOffer | undefined> => {
    const { driver, signal } = get()
    const items = await driver.inventory(signal)
    return items.flatMap((item) => ('available' in item ? [item] : [])).find(({ id }) => id === get().elastic().offerId)
  }
  /** Places an order that the provider must refuse, and returns the machines left behind. */
  const tryOrder = async () => {
    const bench = get()
    const before = await bench.listedIds()
    const outcome = await bench.driver.create(bench.newTag(), bench.elastic().order(1), bench.signal)
    await bench.advance(bench.driver.listLagMs)
    const remaining = (await bench.listedIds()).filter((id) => !before.includes(id))
    return { outcome, left: remaining }
  }
  const noCapacity = {
    outcome: expect.objectContaining({
      kind: 'refused',
      reason: 'no_capacity',
      message: expect.stringMatching(/^[A-Z].*\.$/),
    }),
    left: [],
  }

  it('counts a rented unit as no longer available, unless the engine gives no count, and gives it back', async () => {
    const bench = get()
    const before = (await offerNow())?.available ?? null
    const { externalId } = await bench.create(bench.elastic().order(1))
    await bench.untilState(externalId, 'running')
    expect((await offerNow())?.available ?? null).toBe(before === null ? null : before - 1)
    await bench.driver.destroy(externalId, bench.signal)
    await bench.untilAbsent(externalId)
    expect((await offerNow())?.available ?? null).toBe(before)
  })

  it('refuses an order whose capacity vanished after the listing', async () => {
    await offerNow()
    await get().elastic().setCapacity(0)
    expect(await tryOrder()).toEqual(noCapacity)
  })

  it('never creates more units than there are', async () => {
    const bench = get()
    await bench.elastic().setCapacity(1)
    const orders = [bench.newTag(), bench.newTag(), bench.newTag()]
    const outcomes = await Promise.all(
      orders.map((tag) => bench.driver.create(tag, bench.elastic().order(1), bench.signal)),
    )
    expect(outcomes.filter(({ kind }) => kind === 'created').length).toBeLessThanOrEqual(1)
    await bench.advance(bench.driver.listLagMs)
    expect((await bench.listedIds()).length).toBeLessThanOrEqual(1)
  })

  it('refuses an order that pays less than the engine charges by now', async () => {
    await get().elastic().raiseCost()
    expect(await tryOrder()).toEqual(noCapacity)
  })

  it('refuses an order for an offer that was withdrawn', async () => {
    await get().elastic().withdraw()
    expect(await offerNow()).toBeUndefined()
    expect(await tryOrder()).toEqual(noCapacity)
  })

  it('keeps a rented machine running when its offer is withdrawn, sold out or more expensive', async () => {
    const bench = get()
    const { externalId } = await bench.create(bench.elastic().order(1))
    await bench.untilState(externalId, 'running')
    await bench.elastic().setCapacity(0)
    await bench.elastic().raiseCost()
    expect(await bench.untilState(externalId, 'running')).toMatchObject({ externalId })
    await bench.elastic().withdraw()
    expect(await bench.untilState(externalId, 'running')).toMatchObject({ externalId })
    await bench.driver.destroy(externalId, bench.signal)
    await bench.untilAbsent(externalId)
  })

  itWithFault(
    'create-timeout',
    'lists a machine whose create answered too late, and counts its unit as rented',
    async () => {
      const bench = get()
      await bench.elastic().setCapacity(1)
      const tag = bench.newTag()
      const spec = bench.elastic().order(1, await bench.inject('create-timeout'))
      await expect(bench.driver.create(tag, spec, bench.signal)).rejects.toBeInstanceOf(Error)
      await bench.advance(bench.driver.listLagMs)
      expect(await bench.driver.list(tag, bench.signal)).toMatchObject([{ tag }])
      expect(await tryOrder()).toEqual(noCapacity)
    },
  )
}

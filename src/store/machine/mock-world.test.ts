/**
 * The simulated cloud in PostgreSQL: the driver on it passes the same suite as in memory, and its operations stay
 * atomic when several servers call them at once.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { addMs } from '../../base/instant.ts'
import { faultsByLabel, sampleSpec } from '../../drivers/conformance-bench.ts'
import { driverConformance } from '../../drivers/conformance.ts'
import { mockDriver } from '../../drivers/mock/driver.ts'
import { DESTROY_REFUSALS } from '../../drivers/mock/faults.ts'
import { memoryWorld, type MockMachine, type MockVolume, type MockWorld } from '../../drivers/mock/world.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { testDatabase, type TestDatabase } from '../../../test/harness/database.ts'
import { openDatabase, type Database } from '../platform/database.ts'
import { postgresMockWorld } from './mock-world.ts'

const clock = manualClock()
const now = clock.now()
let own: TestDatabase
let database: Database
let world: MockWorld

beforeAll(async () => {
  own = await testDatabase()
  database = openDatabase({ url: own.url, clock })
  world = postgresMockWorld(database.db)
})
afterAll(async () => {
  await database.close()
  await own.drop()
})

driverConformance('mock in PostgreSQL', async () => {
  const clockOfTest = manualClock()
  const server = openDatabase({ url: own.url, clock: clockOfTest, poolSize: 2 })
  let closing: Promise<void> | undefined
  const closeOnce = (): Promise<void> => (closing ??= server.close())
  const times = { bootMs: 20_000, destroyMs: 5_000, listLagMs: 2_000 }
  return {
    driver: mockDriver({ world: postgresMockWorld(server.db), clock: clockOfTest, ...times }),
    advance: async (ms) => clockOfTest.advance(ms),
    spec: sampleSpec,
    faults: { ...faultsByLabel((name) => `fault-${name.replace('volume-', '')}`), unreachable: { arm: closeOnce } },
    dispose: closeOnce,
  }
})

const thing = {
  createdAt: now,
  listedAt: now,
  hiddenFrom: null,
  hiddenUntil: null,
  goneAt: null,
  destroyAskedAt: null,
  destroyMs: 1_000,
  destroyRefusalsLeft: 0,
}

function machine(externalId: string, overrides: Partial<MockMachine> = {}): MockMachine {
  const spec = sampleSpec({ label: 'a', ports: [80] })
  const life = { runningAt: now, failedAt: null, offAt: null, reboots: 0 }
  return { ...thing, ...life, externalId, tag: `tag-${externalId}`, spec, ...overrides }
}

function volume(externalId: string, overrides: Partial<MockVolume> = {}): MockVolume {
  const shape = { label: 'data', region: 'us-central-1', sizeGb: 256, vip: '198.51.100.7', attachRefusalsLeft: 0 }
  return { ...thing, ...shape, externalId, tag: `tag-${externalId}`, attachedTo: [], ...overrides }
}

const many = Array.from({ length: 20 }, (_, i) => i)

describe('the world in PostgreSQL, called by several servers at once', () => {
  it('stores a row unchanged, to the millisecond', async () => {
    const one = machine('kept', {
      runningAt: null,
      failedAt: addMs(now, 1),
      hiddenFrom: addMs(now, 2),
      hiddenUntil: addMs(now, 3),
      goneAt: addMs(now, 123_457),
      destroyRefusalsLeft: 2,
    })
    expect(await world.addMachine(one)).toBe(true)
    expect(await world.findMachine('kept')).toEqual(one)
    expect(await world.listMachines('tag-kept', addMs(now, 123_456))).toEqual([one])
    expect(await world.listMachines('tag-kept', addMs(now, 123_457))).toEqual([])
  })

  it('adds one machine under one id', async () => {
    const added = await Promise.all(many.map(() => world.addMachine(machine('once'))))
    expect(added.filter(Boolean)).toHaveLength(1)
  })

  it('uses each refusal once, and grants the same end to all others', async () => {
    await world.addMachine(machine('refusing', { destroyRefusalsLeft: DESTROY_REFUSALS }))
    const answers = await Promise.all(many.map((i) => world.requestMachineDestroy('refusing', addMs(now, i))))
    const granted = answers.filter((after) => typeof after?.destroyAskedAt === 'number')
    expect(answers.length - granted.length).toBe(DESTROY_REFUSALS)
    const final = await world.findMachine('refusing')
    expect(final?.goneAt).toBe(Math.min(...granted.map((after) => after?.goneAt ?? Infinity)))
  })

  it('loses no attachment', async () => {
    const ids = many.map((i) => `attached-${i}`)
    await Promise.all(ids.map((id) => world.addMachine(machine(id))))
    await world.addVolume(volume('shared'))
    await Promise.all(ids.flatMap((id) => [id, id]).map((id) => world.attachVolume('shared', id, now)))
    expect([...((await world.listVolumes('tag-shared', now))[0]?.attachedTo ?? [])].sort()).toEqual([...ids].sort())
    await Promise.all(ids.slice(1).map((id) => world.detachVolume('shared', id)))
    expect((await world.listVolumes('tag-shared', now))[0]?.attachedTo).toEqual(ids.slice(0, 1))
  })

  it('deletes old rows concurrently without a deadlock', async () => {
    const ids = many.map((i) => `old-${i}`)
    await Promise.all(ids.map((id) => world.addMachine(machine(id, { goneAt: addMs(now, -10) }))))
    await Promise.all(many.map(() => world.forgetGone(now)))
    expect(await Promise.all(ids.map((id) => world.findMachine(id)))).toEqual(ids.map(() => undefined))
  })
})

/** Both implementations behave the same. */
describe('the world in PostgreSQL and the one in memory', () => {
  it('return the same results', async () => {
    const calls: Array<(world: MockWorld) => Promise<unknown>> = [
      (w) => w.addMachine(machine('alike-m', { destroyRefusalsLeft: 1 })),
      (w) => w.addMachine(machine('alike-m')),
      (w) => w.addVolume(volume('alike-v', { destroyRefusalsLeft: 1, attachRefusalsLeft: 1 })),
      (w) => w.attachVolume('alike-v', 'alike-m', now),
      (w) => w.attachVolume('alike-v', 'alike-m', now),
      (w) => w.attachVolume('alike-v', 'nobody', now),
      (w) => w.attachVolume('nothing', 'alike-m', now),
      (w) => w.askVolumeDestroy('alike-v', now),
      (w) => w.listVolumes('tag-alike', now),
      (w) => w.requestMachineDestroy('alike-m', now),
      (w) => w.requestMachineDestroy('alike-m', addMs(now, 1)),
      (w) => w.requestMachineDestroy('alike-m', addMs(now, 2)),
      (w) => w.requestMachineDestroy('nobody', now),
      (w) => w.listMachines('tag-alike', addMs(now, 1_000)),
      (w) => w.listMachines('tag-alike', addMs(now, 1_001)),
      (w) => w.listVolumes('tag-alike', addMs(now, 1_001)),
      (w) => w.askVolumeDestroy('alike-v', addMs(now, 1_001)),
      (w) => w.askVolumeDestroy('alike-v', addMs(now, 1_002)),
      (w) => w.markVolumeGone('alike-v', addMs(now, 1_003)),
      (w) => w.markMachineGone('alike-m', addMs(now, 5_000)),
      (w) => w.findMachine('alike-m'),
      (w) => w.listVolumes('tag-alike', addMs(now, 1_002)),
      (w) => w.listVolumes('tag-alike', addMs(now, 1_003)),
      (w) => w.forgetGone(addMs(now, 1_001)),
      (w) => w.findMachine('alike-m'),
      (w) => w.forgetGone(addMs(now, 1_002)),
      (w) => w.findMachine('alike-m'),
    ]
    const memory = memoryWorld()
    for (const [n, call] of calls.entries()) {
      expect({ n, answer: await call(world) }).toEqual({ n, answer: await call(memory) })
    }
  })
})

/**
 * The cause of a failed provider call is logged once, counted each time, stored on the row, and shown to operators
 * only.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { App, DriverFault } from '../app/app.ts'
import { MINUTE_MS } from '../base/instant.ts'
import type { Driver, VolumeDriver } from '../drivers/driver.ts'
import { startJourney, succeed, LIST_LAG_MS, type Journey } from '../../test/harness/journey.ts'
import type { Call } from '../../test/harness/server.ts'
import { reconcileAttachments } from './attachments.ts'
import type { Reconciler } from './loop.ts'
import { observeVolumes } from './observe-volumes.ts'
import { provision } from './provision.ts'
import { terminate } from './terminate.ts'
import { reconcileVolumes } from './volumes.ts'

const machines = '/v2/alpha/on-demand/virtual-machine-rentals'
const metal = '/v2/alpha/on-demand/bare-metal-rentals'
const volumes = '/v2/alpha/on-demand/storage-volumes'
const CAUSE = 'HTTP 403 from 10.0.0.7: token has no right'
const { signal } = new AbortController()

let journey: Journey
let ada: { call: Call }
beforeAll(async () => {
  journey = await startJourney()
  ada = await journey.account({ usd: '5000' })
})
afterAll(() => journey.close())

/** The simulated provider, with one call that fails while `cause` is set. */
function failingApp(call: keyof Driver | `volumes.${keyof VolumeDriver}`) {
  const real = journey.app.drivers.get('mock')
  if (real?.volumes === undefined) throw new Error('there is no simulated engine')
  const faults: DriverFault[] = []
  const state: { cause: Error | undefined } = { cause: new Error(CAUSE) }
  const wrap = <T extends object>(engine: T, name: string): T =>
    new Proxy(engine, {
      get: (target, key) => {
        if (key === name && state.cause !== undefined) return () => Promise.reject(state.cause)
        const value: unknown = Reflect.get(target, key)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
  const [first, second] = call.split('.') as [string, string | undefined]
  const engine = { ...real, volumes: second === undefined ? real.volumes : wrap(real.volumes, second) }
  const driver = second === undefined ? wrap(engine, first) : engine
  const app: App = {
    ...journey.app,
    drivers: new Map([['mock', driver]]),
    driverFault: (fault) => void faults.push(fault),
  }
  return { app, faults, state }
}

const rowOf = async (table: 'rental' | 'volume', id: number) =>
  journey.app.database.db
    .selectFrom(table)
    .select(['last_error', 'last_error_at'])
    .where('id', '=', id)
    .executeTakeFirst()
const attachmentOf = async (id: number) =>
  journey.app.database.db
    .selectFrom('attachment')
    .select(['last_error', 'last_error_at'])
    .where('volume_id', '=', id)
    .executeTakeFirst()

async function newRental(): Promise<number> {
  return (await succeed(ada.call, 'POST', machines, { gpuCount: 1, region: 'mock-region' })).id
}
async function newVolume(): Promise<number> {
  const order = { region: 'us-central-1', label: 'datasets', sizeInGb: 256 }
  return (await succeed(ada.call, 'POST', volumes, order)).storageVolumeId
}
const settle = async (): Promise<void> => {
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
}

interface Case {
  readonly loop: string
  readonly call: Parameters<typeof failingApp>[0]
  readonly make: (app: App) => Reconciler
  /** Creates work for the loop. Returns how to read its row. */
  readonly arrange: () => Promise<
    () => Promise<{ last_error: string | null; last_error_at: number | null } | undefined>
  >
}

const cases: readonly Case[] = [
  {
    loop: 'provision',
    call: 'create',
    make: provision,
    arrange: async () => {
      const id = await newRental()
      return () => rowOf('rental', id)
    },
  },
  {
    loop: 'terminate',
    call: 'destroy',
    make: terminate,
    arrange: async () => {
      const id = await newRental()
      await settle()
      await succeed(ada.call, 'POST', `${machines}/terminate`, { rentalId: id })
      return () => rowOf('rental', id)
    },
  },
  {
    loop: 'volumes',
    call: 'volumes.create',
    make: reconcileVolumes,
    arrange: async () => {
      const id = await newVolume()
      return () => rowOf('volume', id)
    },
  },
  {
    loop: 'volumes',
    call: 'volumes.destroy',
    make: reconcileVolumes,
    arrange: async () => {
      const id = await newVolume()
      await settle()
      await succeed(ada.call, 'POST', `${volumes}/terminate`, { storageVolumeId: id })
      return () => rowOf('volume', id)
    },
  },
  {
    loop: 'attachments',
    call: 'volumes.attach',
    make: reconcileAttachments,
    arrange: async () => {
      const order = { gpuCount: 8, networkType: 'ethernet' }
      const [{ id: rentalId }, volumeId] = [await succeed(ada.call, 'POST', metal, order), await newVolume()]
      await settle()
      await succeed(ada.call, 'POST', `${volumes}/attach`, { storageVolumeId: volumeId, rentalIds: [rentalId] })
      return () => attachmentOf(volumeId)
    },
  },
]

describe.each(cases)('$loop, when $call fails', ({ loop, call, make, arrange }) => {
  test('counts every failure, logs each cause once, and keeps it on the row until the call succeeds', async () => {
    const { app, faults, state } = failingApp(call)
    const read = await arrange()
    const reconciler = make(app)
    const again = async (): Promise<void> => {
      journey.clock.advance(MINUTE_MS)
      await reconciler.run(signal)
    }
    await reconciler.run(signal)
    expect(await read()).toMatchObject({ last_error: CAUSE, last_error_at: journey.clock.now() })
    await again()
    // A rental that waits for a lost answer fails again one pass later.
    if (faults.length === 1) await again()
    expect(faults.map(({ isNew }) => isNew)).toEqual([true, false])
    expect(faults[0]).toMatchObject({
      loop,
      driver: 'mock',
      subject: expect.stringMatching(/^(rental|volume|attachment) \d/),
    })
    state.cause = new TypeError("Cannot read properties of undefined (reading 'id')")
    await again()
    if (faults.length === 2) await again()
    expect(faults.at(-1)?.isNew).toBe(true)
    expect((await read())?.last_error).toContain('Cannot read properties')
    state.cause = undefined
    await again()
    expect(await read()).toMatchObject({ last_error: null, last_error_at: null })
    await journey.advance(MINUTE_MS)
  })
})

test('shows the cause to an operator but not to the customer, as one short line', async () => {
  const { app, state } = failingApp('create')
  state.cause = new Error(`${CAUSE}\n${'x'.repeat(5_000)}`, { cause: new Error('connect ECONNREFUSED') })
  const id = await newRental()
  await provision(app).run(signal)
  const { rentals } = await succeed(journey.operator, 'GET', '/v2/operator/rentals?limit=100')
  const seen = (rentals as Array<{ id: number; lastError: string; lastErrorAt: string }>).find((one) => one.id === id)
  expect(seen?.lastErrorAt).toBe(journey.now())
  expect(seen?.lastError).toHaveLength(500)
  expect(seen?.lastError.startsWith(`${CAUSE} xxx`)).toBe(true)
  for (const path of [`/v2/alpha/on-demand/rentals/${id}`, '/v2/events?limit=1000', machines]) {
    expect(JSON.stringify(await succeed(ada.call, 'GET', path))).not.toContain('10.0.0.7')
  }
})

test('an engine that does not answer stops the bill of its volumes, and none becomes unknown', async () => {
  const id = await newVolume()
  await settle()
  const { app, state } = failingApp('volumes.list')
  await expect(observeVolumes(app).run(signal)).rejects.toThrow(CAUSE)
  state.cause = undefined
  await observeVolumes(app).run(signal)
  expect(await rowOf('volume', id)).toMatchObject({ last_error: null })
  expect((await succeed(ada.call, 'GET', volumes)).find((one: { id: number }) => one.id === id).status).toBe('active')
})

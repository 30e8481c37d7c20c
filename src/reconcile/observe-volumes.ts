/**
 * Checks that the providers still have the data of each volume. A volume missing from its provider's list becomes
 * `unknown` and costs nothing from the last time it was listed until it is listed again; its owner sees that. The meter
 * never charges a volume past the last good list (`loop.done_at`), so a provider that does not answer stops the bills
 * too.
 */
import { addMs, later, type Instant } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { recordVolumeEvent, volumeMemo } from '../app/rental/volume.ts'
import { tagPrefix } from '../domain/rental.ts'
import type { Driver, DriverVolume, VolumeDriver } from '../drivers/driver.ts'
import { transact, type Tx } from '../store/platform/database.ts'
import { endTurn, readDoneAt, takeTurn } from '../store/platform/lease.ts'
import { closeMeter, findOpenSegment } from '../store/ledger/segment.ts'
import {
  detach,
  findVolumeDrivers,
  listWatchedVolumes,
  lockVolume,
  moveVolume,
  type Volume,
} from '../store/volume/volume.ts'
import { saveVolumeUse } from '../store/volume/volume-growth.ts'
import { attempt, noteFailure, volumeTask } from './attempt.ts'
import { driversToList } from './drivers.ts'
import { callSignal, eachOf, type Reconciler } from './loop.ts'
import { recordPurchases } from './purchases.ts'
import { resumeMeter } from './volumes.ts'

const LOOP = 'observe-volumes'
const EVERY_MS = 5_000
/** Providers without volumes are listed only in every n-th pass. */
const UNUSED_PASSES = 6
const WIDTH = 8
const LEASE_SLACK_MS = 15_000

export function observeVolumes(app: App): Reconciler {
  const driversNow = driversToList(app, UNUSED_PASSES, findVolumeDrivers)
  return {
    name: LOOP,
    everyMs: EVERY_MS,
    run: async (signal) => {
      const drivers = await driversNow()
      await eachOf(drivers, drivers.length, (driver) =>
        driver.volumes === undefined ? Promise.resolve() : observeDriver(app, driver, driver.volumes, signal),
      )
      return false
    },
  }
}

async function observeDriver(app: App, driver: Driver, volumeDriver: VolumeDriver, signal: AbortSignal): Promise<void> {
  const { db } = app.database
  const loop = `${LOOP}:${driver.id}`
  const now = app.clock.now()
  const token = await takeTurn(db, loop, { now, leaseMs: driver.callTimeoutMs + LEASE_SLACK_MS })
  if (token === undefined) return
  let good = false
  try {
    const lastGood = await readDoneAt(db, loop)
    // The database is read before the list: a row without a listed volume cannot be newer than the list.
    const volumes = await listWatchedVolumes(db, driver.id)
    const list = await volumeDriver.list(tagPrefix(app.installationId), callSignal(signal, driver.callTimeoutMs))
    good = true
    await recordPurchases(app, driver, 'volume', list, now)
    const byExternalId = new Map(list.map((one) => [one.externalId, one]))
    await eachOf(volumes, WIDTH, async (volume) => {
      const one = byExternalId.get(volume.external_id ?? '')
      const isThere = one !== undefined && one.ready !== false
      const isSettled = volume.started_at === null || addMs(volume.started_at, driver.listLagMs) <= now
      if (volume.state === 'active' && !isThere && isSettled) await lose(app, volume, one, lastGood)
      else if (volume.state === 'unknown' && isThere) await recover(app, volume, signal)
    })
    const used = volumes.flatMap(({ id, external_id: externalId }): Array<[number, number]> => {
      const usedGb = byExternalId.get(externalId ?? '')?.usedGb
      return usedGb === undefined ? [] : [[id, usedGb]]
    })
    await saveVolumeUse(db, new Map(used))
  } finally {
    await endTurn(db, loop, token, good ? now : undefined)
  }
}

async function lose(
  app: App,
  volume: Volume,
  listing: DriverVolume | undefined,
  lastGood: Instant | null,
): Promise<void> {
  const isLost = await transact(app.database, async (tx) => {
    if (!(await isUnchanged(tx, volume))) return false
    const metered = { rentalId: null, volumeId: volume.id }
    const open = await findOpenSegment(tx.db, metered)
    const seenAt = later(open?.settled_until ?? tx.clock.now(), lastGood ?? tx.clock.now())
    await moveVolume(tx, volume.id, 'unknown', { state_reason: 'data_not_found' })
    await closeMeter(tx, metered, seenAt, volumeMemo(volume))
    recordVolumeEvent(tx, volume, 'volume.unknown', { lastSeenAt: new Date(seenAt).toISOString() })
    return true
  })
  if (!isLost) return
  const why = listing?.message ?? 'The volume is not in the list of its engine.'
  await noteFailure(app, volumeTask(LOOP, volume), new Error(why))
}

async function recover(app: App, volume: Volume, stop: AbortSignal): Promise<void> {
  await attempt(app, volumeTask(LOOP, volume), stop, async () => {
    await transact(app.database, async (tx) => {
      if (!(await isUnchanged(tx, volume))) return
      if (await resumeMeter(tx, volume)) {
        recordVolumeEvent(tx, volume, 'volume.recovered')
        tx.wake.add('attachments')
        return
      }
      await moveVolume(tx, volume.id, 'suspended', { state_reason: 'balance_empty' })
      await detach(tx, { volumeId: volume.id })
      recordVolumeEvent(tx, volume, 'volume.suspended', { reason: 'balance_empty' })
      tx.wake.add('attachments').add('volumes')
    })
    return 'done'
  })
}

/** Whether the state has not changed since the row was read. */
async function isUnchanged(tx: Tx, volume: Volume): Promise<boolean> {
  return (await lockVolume(tx, volume.id))?.state === volume.state
}

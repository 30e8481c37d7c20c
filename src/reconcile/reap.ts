/**
 * Destroys orphans at the providers: machines of ended rentals, deleted volumes, duplicates under one tag, and
 * companions (keys, addresses) of orders that have ended or moved to another provider. A tag that is not in the
 * database is left alone and reported by the audit: the database was restored from a backup, and a person must decide.
 * A driver cleans up its own caches.
 */
import type { App } from '../app/app.ts'
import { MINUTE_MS } from '../base/instant.ts'
import { compareDriver } from '../app/supply/driver-audit.ts'
import { rentalTag } from '../app/rental/rental.ts'
import { idOfTag, tagPrefix } from '../domain/rental.ts'
import type { Driver } from '../drivers/driver.ts'
import { endTurn, takeTurn } from '../store/platform/lease.ts'
import { findRentalsForAudit } from '../store/rental/rental.ts'
import { callSignal, eachOf, type Reconciler } from './loop.ts'

/** Lists read per provider: machines, companions and volumes. */
const LISTS = 3
const LEASE_SLACK_MS = 60_000

export function reap(
  app: App,
  onReaped: (driver: string, externalId: string, why: string) => void = () => {},
): Reconciler {
  return {
    name: 'reap',
    everyMs: MINUTE_MS / 2,
    run: async (signal) => {
      await eachOf([...app.drivers.values()], app.drivers.size, (driver) => reapDriver(app, driver, onReaped, signal))
      return false
    },
  }
}

async function reapDriver(
  app: App,
  driver: Driver,
  onReaped: (driver: string, externalId: string, why: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const { db } = app.database
  const now = app.clock.now()
  const leaseMs = LISTS * driver.callTimeoutMs + LEASE_SLACK_MS
  const token = await takeTurn(db, `reap:${driver.id}`, { now, leaseMs })
  if (token === undefined) return
  const newSignal = (): AbortSignal => callSignal(signal, driver.callTimeoutMs)
  try {
    const { orphans, orphanVolumes } = await compareDriver(app, driver, newSignal)
    // A failed destroy call must not prevent the others.
    await eachOf(
      orphans.filter((one) => one.endIt),
      1,
      async (orphan) => {
        await driver.destroy(orphan.externalId, newSignal())
        onReaped(driver.id, orphan.externalId, orphan.why)
      },
    )
    await sweepCompanions(app, driver, onReaped, signal)
    await eachOf(
      orphanVolumes.filter((one) => one.endIt),
      1,
      async (orphan) => {
        await driver.volumes?.destroy(orphan.externalId, newSignal())
        onReaped(driver.id, orphan.externalId, orphan.why)
      },
    )
    await driver.tidy?.(newSignal())
  } finally {
    await endTurn(db, `reap:${driver.id}`, token)
  }
}

async function sweepCompanions(
  app: App,
  driver: Driver,
  onReaped: (driver: string, externalId: string, why: string) => void,
  signal: AbortSignal,
): Promise<void> {
  if (driver.companions === undefined) return
  const { companions } = driver
  const prefix = tagPrefix(app.installationId)
  const list = await companions.list(prefix, callSignal(signal, driver.callTimeoutMs))
  const ids = list.flatMap(({ tag }) => idOfTag(app.installationId, 'rental', tag) ?? [])
  const rows = await findRentalsForAudit(app.database.db, ids)
  const unused = list.filter(({ tag }) => {
    const row = rows.get(idOfTag(app.installationId, 'rental', tag) ?? -1)
    return row !== undefined && rentalTag(app, row) === tag && (row.released || row.driver !== driver.id)
  })
  await eachOf(unused, 1, async (companion) => {
    await companions.remove(companion, callSignal(signal, driver.callTimeoutMs))
    onReaped(driver.id, companion.externalId, `unused_${companion.what}`)
  })
}

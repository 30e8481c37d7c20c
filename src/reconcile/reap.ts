/**
 * Destroys orphans at the engines: machines of ended rentals, deleted volumes, and duplicates under one tag. A tag that
 * the database does not know is left alone and reported by the audit: the database was restored from a backup, and a
 * person must decide.
 */
import type { App } from '../app/app.ts'
import { MINUTE_MS } from '../base/instant.ts'
import { compareEngine } from '../app/engine-audit.ts'
import type { Driver } from '../engines/driver.ts'
import { endTurn, takeTurn } from '../store/lease.ts'
import { callSignal, eachOf, type Reconciler } from './loop.ts'

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
  const token = await takeTurn(db, `reap:${driver.id}`, { now, leaseMs: driver.callTimeoutMs + LEASE_SLACK_MS })
  if (token === undefined) return
  try {
    const { orphans, orphanVolumes } = await compareEngine(app, driver, callSignal(signal, driver.callTimeoutMs))
    // One failed destroy call must not keep the others.
    await eachOf(
      orphans.filter((one) => one.endIt),
      1,
      async (orphan) => {
        await driver.destroy(orphan.externalId, callSignal(signal, driver.callTimeoutMs))
        onReaped(driver.id, orphan.externalId, orphan.why)
      },
    )
    await eachOf(
      orphanVolumes.filter((one) => one.endIt),
      1,
      async (orphan) => {
        await driver.volumes?.destroy(orphan.externalId, callSignal(signal, driver.callTimeoutMs))
        onReaped(driver.id, orphan.externalId, orphan.why)
      },
    )
  } finally {
    await endTurn(db, `reap:${driver.id}`, token)
  }
}

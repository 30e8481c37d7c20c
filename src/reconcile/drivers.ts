/** The providers that this server drives. Other servers may drive others. */
import type { App } from '../app/app.ts'
import type { ProviderId } from '../contract/provider-data.ts'
import type { Driver } from '../drivers/driver.ts'
import type { Db } from '../store/platform/database.ts'

export function driverIds(app: App): ProviderId[] {
  return [...app.drivers.keys()]
}

/** The longest timeout of a provider call. A lease must last at least this long. */
export function longestCallMs(app: App): number {
  return Math.max(0, ...[...app.drivers.values()].map((driver) => driver.callTimeoutMs))
}

/**
 * The providers to list in a pass. Providers in use are listed in every pass; the others, beginning with the first
 * pass, in every so many passes, to learn whether they can be reached and what they cost.
 */
export function driversToList(
  app: App,
  unusedPasses: number,
  findUsed: (db: Db, drivers: readonly ProviderId[]) => Promise<ReadonlySet<ProviderId>>,
): () => Promise<Driver[]> {
  let passes = 0
  return async () => {
    const isOfAll = passes % unusedPasses === 0
    passes += 1
    const drivers = [...app.drivers.values()]
    if (isOfAll) return drivers
    const used = await findUsed(app.database.steady, driverIds(app))
    return drivers.filter(({ id }) => used.has(id))
  }
}

/** The engines that this server drives. Other servers may drive others. */
import type { App } from '../app/app.ts'
import type { ProviderId } from '../contract/provider-data.ts'

export function driverIds(app: App): ProviderId[] {
  return [...app.drivers.keys()]
}

/** A lease must last at least this long. */
export function longestCallMs(app: App): number {
  return Math.max(0, ...[...app.drivers.values()].map((driver) => driver.callTimeoutMs))
}

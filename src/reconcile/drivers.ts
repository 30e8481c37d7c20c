/** What the loops need to know of the engines that this server has. Others may have other ones. */
import { sql, type RawBuilder } from 'kysely'
import type { App } from '../app/app.ts'

/** For `claimDue`: rows of an engine that this server does not have are left to a server that has it. */
export function ofOurDrivers(app: App): RawBuilder<boolean> {
  return sql<boolean>`t.driver = any (${[...app.drivers.keys()]}::text[])`
}

/** How long a claim must last at least. */
export function longestCallMs(app: App): number {
  return Math.max(0, ...[...app.drivers.values()].map((driver) => driver.callTimeoutMs))
}

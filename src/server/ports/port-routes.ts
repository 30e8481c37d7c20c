/**
 * The HTTP ports that requests name. A page loads dozens of files, so a route is read once and used for a second. This
 * server forgets it at once when it changes the tokens of a port itself.
 */
import { remember } from '../../base/remember.ts'
import type { Database } from '../../store/platform/database.ts'
import { findPortRoute, type PortRoute } from '../../store/rental/port.ts'
import type { PortName } from './port-domain.ts'

const KEPT_MS = 1_000
const MAX_ROUTES = 10_000

export interface PortRoutes {
  /** undefined: there is no such port. */
  find(name: PortName): Promise<PortRoute | undefined>
  forget(rentalId: number): void
}

interface Entry {
  readonly untilMs: number
  readonly reading: Promise<PortRoute | undefined>
  route?: PortRoute | undefined
}

export function makePortRoutes({ db }: Pick<Database, 'db'>): PortRoutes {
  const entries = new Map<string, Entry>()
  return {
    find: ({ rentalName, port }) => {
      const key = `${rentalName} ${port}`
      const cached = entries.get(key)
      if (cached !== undefined && cached.untilMs > performance.now()) return cached.reading
      const reading = findPortRoute(db, rentalName, port)
      const entry: Entry = { untilMs: performance.now() + KEPT_MS, reading }
      entries.delete(key)
      remember(entries, key, entry, MAX_ROUTES)
      reading.then(
        (route) => (entry.route = route),
        // The caller gets the error; the next caller reads again.
        () => entries.get(key) === entry && entries.delete(key),
      )
      return reading
    },
    forget: (rentalId) => {
      for (const [key, { route }] of entries)
        if (route === undefined || route.rentalId === rentalId) entries.delete(key)
    },
  }
}

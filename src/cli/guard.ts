/** When a machine ends by itself: what `berth rent` and `berth change` take for it. */
import { addMs, formatInstant, HOUR_MS, systemClock } from '../base/instant.ts'
import { parseWhole } from './supply.ts'

const MAX_HOURS = 24 * 366

export const parseHours = parseWhole(1, MAX_HOURS)

/** So many hours from now, as the server takes it. */
export function endAfter(hours: number): string {
  return formatInstant(addMs(systemClock.now(), hours * HOUR_MS))
}

/** When a machine ends by itself: what `berth rent` and `berth change` take for it. */
import { InvalidArgumentError } from 'commander'
import { addMs, formatInstant, HOUR_MS, systemClock } from '../base/instant.ts'
import { parseUsd } from '../base/money.ts'
import { parseWhole } from './supply.ts'

const MOST_HOURS = 24 * 366

export const parseHours = parseWhole(1, MOST_HOURS)

/** USD. */
export function parseLimit(text: string): string {
  const amount = parseUsd(text)
  if (amount === undefined || amount <= 0n) throw new InvalidArgumentError('An amount reads as 12.50.')
  return text
}

/** So many hours from now, as the server takes it. */
export function endAfter(hours: number): string {
  return formatInstant(addMs(systemClock.now(), hours * HOUR_MS))
}

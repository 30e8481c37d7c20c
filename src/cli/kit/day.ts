/** Days on the command line: `2026-11-01`, and `7d` for the last seven. */
import { InvalidArgumentError } from 'commander'
import { addMs, DAY_MS, formatDay, parseInstant, startOfDay, systemClock } from '../../base/instant.ts'

const MAX_DAYS = 366

export function parseSince(text: string): string {
  const days = /^(\d{1,3})d$/.exec(text)?.[1]
  if (days === undefined) return parseDay(text)
  const n = Number.parseInt(days, 10)
  if (n < 1 || n > MAX_DAYS) throw new InvalidArgumentError(`Must be from 1d to ${MAX_DAYS}d.`)
  return formatDay(addMs(startOfDay(systemClock.now()), (1 - n) * DAY_MS))
}

export function parseDay(text: string): string {
  const at = /^\d{4}-\d\d-\d\d$/.test(text) ? parseInstant(text) : undefined
  if (at === undefined || formatDay(at) !== text)
    throw new InvalidArgumentError('Must be a day such as 2026-11-01, or 7d.')
  return text
}

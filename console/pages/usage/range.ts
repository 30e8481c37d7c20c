/** The days of the usage page, in UTC as in the ledger. */
import {
  addMs,
  DAY_MS,
  formatInstant,
  parseInstant,
  startOfDay,
  startOfMonth,
  type Instant,
} from '../../../src/base/instant.ts'

/** The longest range that the server sums up: a leap year. */
const MAX_DAYS = 366
const DEFAULT_DAYS = 30

export interface Range {
  readonly from: string
  readonly to: string
}

interface Preset extends Range {
  readonly name: string
}

export function presetsAt(now: Instant): readonly Preset[] {
  const to = dayOf(now)
  const last = (days: number): Preset => ({
    name: `${days} days`,
    from: dayOf(addMs(startOfDay(now), (1 - days) * DAY_MS)),
    to,
  })
  return [last(7), last(DEFAULT_DAYS), last(90), { name: 'This month', from: dayOf(startOfMonth(now)), to }]
}

/** The range in the URL; by default the last thirty days. */
export function rangeOf(search: { from?: string | undefined; to?: string | undefined }, now: Instant): Range {
  const to = search.to ?? dayOf(now)
  const end = parseInstant(to) ?? now
  return { from: search.from ?? dayOf(addMs(end, (1 - DEFAULT_DAYS) * DAY_MS)), to }
}

export function rangeFault(range: Range): string | undefined {
  const days = countDays(range)
  if (days < 1) return 'The first day must not be after the last'
  return days > MAX_DAYS ? `Choose at most ${MAX_DAYS} days` : undefined
}

/** Every day of a valid range. */
export function daysOf(range: Range): string[] {
  const first = parseInstant(range.from)
  if (first === undefined) return []
  return Array.from({ length: countDays(range) }, (_, n) => dayOf(addMs(first, n * DAY_MS)))
}

const short = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric', timeZone: 'UTC' })

/** "Nov 15". */
export function shortDay(day: string): string {
  return short.format(Date.parse(day))
}

function countDays({ from, to }: Range): number {
  return Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS) + 1
}

function dayOf(at: Instant): string {
  return formatInstant(at).slice(0, 'YYYY-MM-DD'.length)
}

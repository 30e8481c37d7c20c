/**
 * Repeating times in the five fields of cron: minute, hour, day of the month, month, day of the week. All times are
 * UTC.
 */
import { DAY_MS, instantOf, MINUTE_MS, type Instant } from './instant.ts'

export interface Cron {
  readonly minutes: ReadonlySet<number>
  readonly hours: ReadonlySet<number>
  readonly days: ReadonlySet<number>
  readonly months: ReadonlySet<number>
  /** 0 is Sunday. */
  readonly weekdays: ReadonlySet<number>
  /** Both day fields are restricted, so that a match of either is enough. */
  readonly isEitherDay: boolean
}

const shorthands: Readonly<Record<string, string>> = {
  '@hourly': '0 * * * *',
  '@daily': '0 0 * * *',
  '@weekly': '0 0 * * 0',
  '@monthly': '0 0 1 * *',
}
const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const weekdays = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']

/** undefined: the text is not valid, or its day never comes. */
export function parseCron(text: string): Cron | undefined {
  const fields = (shorthands[text.trim()] ?? text).trim().split(/\s+/)
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = fields
  const parts = {
    minutes: parseField(minute, 0, 59),
    hours: parseField(hour, 0, 23),
    days: parseField(day, 1, 31),
    months: parseField(month, 1, 12, months, 1),
    weekdays: parseField(weekday, 0, 7, weekdays, 0),
  }
  const { minutes, hours, days, months: inMonths, weekdays: onDays } = parts
  const isWhole = fields.length === 5 && minutes && hours && days && inMonths && onDays
  if (!isWhole) return undefined
  const cron: Cron = {
    minutes,
    hours,
    days,
    months: inMonths,
    weekdays: new Set([...onDays].map((one) => one % 7)),
    isEitherDay: !day.startsWith('*') && !weekday.startsWith('*'),
  }
  return nextTime(cron, instantOf(0)) === undefined ? undefined : cron
}

/** `1,5-10,20-40/5`, `*` or a name. */
function parseField(
  text: string,
  min: number,
  max: number,
  names: readonly string[] = [],
  firstName = 0,
): ReadonlySet<number> | undefined {
  const values = new Set<number>()
  for (const part of text.toLowerCase().split(',')) {
    const [, from = '', to, step] = /^(\*|\w+)(?:-(\w+))?(?:\/(\d{1,2}))?$/.exec(part) ?? []
    const first = from === '*' ? min : valueOf(from)
    const last = to === undefined ? (from === '*' || step !== undefined ? max : first) : valueOf(to)
    const every = step === undefined ? 1 : Number(step)
    const isValid = first >= min && last <= max && first <= last && every > 0 && !(from === '*' && to !== undefined)
    if (!isValid) return undefined
    for (let value = first; value <= last; value += every) values.add(value)
  }
  return values

  function valueOf(word: string): number {
    const at = names.indexOf(word)
    if (at >= 0) return at + firstName
    return /^\d{1,2}$/.test(word) ? Number(word) : Number.NaN
  }
}

/** 29 February comes once in eight years around 2100. */
const MAX_DAYS = 8 * 366 + 1

/** Returns the first matching time after `after`. undefined: there is none. */
export function nextTime(cron: Cron, after: Instant): Instant | undefined {
  const first = Math.floor(after / DAY_MS) * DAY_MS
  const clockTimes = [...cron.hours]
    .flatMap((hour) => [...cron.minutes].map((minute) => (hour * 60 + minute) * MINUTE_MS))
    .sort((a, b) => a - b)
  for (let n = 0; n < MAX_DAYS; n += 1) {
    const midnight = first + n * DAY_MS
    if (!isOnDay(cron, new Date(midnight))) continue
    const ms = clockTimes.find((one) => midnight + one > after)
    if (ms !== undefined) return instantOf(midnight + ms)
  }
  return undefined
}

function isOnDay({ days, months: inMonths, weekdays: onDays, isEitherDay }: Cron, date: Date): boolean {
  if (!inMonths.has(date.getUTCMonth() + 1)) return false
  const isDay = days.has(date.getUTCDate())
  const isWeekday = onDays.has(date.getUTCDay())
  return isEitherDay ? isDay || isWeekday : isDay && isWeekday
}

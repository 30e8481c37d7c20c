/** Times and spans as people read them. */
import { DAY_MS, formatInstant, HOUR_MS, MINUTE_MS, parseInstant, SECOND_MS } from '../base/instant.ts'
import { count, number } from './number.ts'

/** Shown in a browser for a missing time. */
const NONE = '—'

// Made when they are needed: commands load this file and show times in UTC.
let localTimes: Intl.DateTimeFormat | undefined
let localDates: Intl.DateTimeFormat | undefined

/** OpenAI's form of a time, in that of the other operations. */
export function timeOfSeconds(seconds: number): string
export function timeOfSeconds(seconds: number | null): string | null
export function timeOfSeconds(seconds: number | null): string | null {
  return seconds === null ? null : new Date(seconds * SECOND_MS).toISOString()
}

/** The time in the reader's time zone and format. */
export function localTime(text: string | null | undefined): string {
  if (text === null || text === undefined) return NONE
  localTimes ??= new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
  return localTimes.format(Date.parse(text))
}

export function localDate(text: string | null | undefined): string {
  if (text === null || text === undefined) return NONE
  localDates ??= new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' })
  return localDates.format(Date.parse(text))
}

/** The time for terminals and logs: `2026-11-14 12:00:00Z`. Empty for null. */
export function utcTime(text: string | null): string {
  const at = text === null ? undefined : parseInstant(text)
  if (at === undefined) return ''
  return formatInstant(at)
    .replace('T', ' ')
    .replace(/\.\d+Z$/, 'Z')
}

/** `2026-11-14`. Empty for null. */
export function utcDay(text: string | null): string {
  return utcTime(text).slice(0, '2026-11-14'.length)
}

/** The largest unit first; a span names this one and the next. */
const units = [
  { noun: 'day', letter: 'd', ms: DAY_MS },
  { noun: 'hour', letter: 'h', ms: HOUR_MS },
  { noun: 'minute', letter: 'm', ms: MINUTE_MS },
  { noun: 'second', letter: 's', ms: SECOND_MS },
] as const

function largestUnit(ms: number): (typeof units)[number] {
  return units.find((unit) => ms >= unit.ms) ?? units[3]
}

/** `3 days 4 hours`, `2 hours`, `5 minutes`, `40 seconds`. Seconds are left out from a minute on. */
export function span(ms: number): string {
  if (!Number.isFinite(ms)) return 'indefinitely'
  const { noun, ms: size } = largestUnit(ms)
  const whole = Math.max(0, Math.floor(ms / size))
  const next = noun === 'day' ? units[1] : noun === 'hour' ? units[2] : undefined
  const smaller = next === undefined ? 0 : Math.floor((ms % size) / next.ms)
  return next === undefined || smaller === 0 ? count(whole, noun) : `${count(whole, noun)} ${count(smaller, next.noun)}`
}

/** The largest unit alone, for narrow columns: `3d`, `2h`, `5m`, `40s`. */
export function shortSpan(ms: number): string {
  const { letter, ms: size } = largestUnit(ms)
  return `${number(Math.max(0, Math.floor(ms / size)))}${letter}`
}

/** The time since then, as `shortSpan`. Empty for null. */
export function age(text: string | null, nowMs: number): string {
  const at = text === null ? undefined : parseInstant(text)
  return at === undefined ? '' : shortSpan(nowMs - at)
}

/** `3 minutes ago`, `in 2 days`, `just now`. */
export function relativeTime(text: string | null | undefined, nowMs: number): string {
  if (text === null || text === undefined) return NONE
  const ms = Date.parse(text) - nowMs
  if (Math.abs(ms) < SECOND_MS) return 'just now'
  const { noun, ms: size } = largestUnit(Math.abs(ms))
  const whole = count(Math.floor(Math.abs(ms) / size), noun)
  return ms < 0 ? `${whole} ago` : `in ${whole}`
}

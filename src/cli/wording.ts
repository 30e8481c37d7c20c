/** Amounts, times and counts, as people read them. */
import { DAY_MS, formatInstant, HOUR_MS, MINUTE_MS, parseInstant, type Instant } from '../base/instant.ts'
import { formatUsdForPeople, parseUsd } from '../base/money.ts'

/** `100.000000000` → `$100.00`. */
export function money(usd: string): string {
  const amount = parseUsd(usd)
  return amount === undefined ? usd : formatUsdForPeople(amount)
}

/** `2026-11-14T12:00:00.000Z` → `2026-11-14 12:00:00Z`. */
export function time(text: string | null): string {
  const at = text === null ? undefined : parseInstant(text)
  return at === undefined
    ? ''
    : formatInstant(at)
        .replace('T', ' ')
        .replace(/\.\d+Z$/, 'Z')
}

/** How far ahead: `in 1 d 16 h`. */
export function until(text: string, now: Instant): string {
  const ms = (parseInstant(text) ?? now) - now
  return ms <= 0 ? 'now' : `in ${span(ms)}`
}

/** In the two largest units: `1 d 16 h`. */
export function span(ms: number): string {
  const days = Math.floor(ms / DAY_MS)
  const hours = Math.floor((ms % DAY_MS) / HOUR_MS)
  if (days > 0) return `${days.toLocaleString('en-US')} d ${hours} h`
  const minutes = Math.floor((ms % HOUR_MS) / MINUTE_MS)
  return hours > 0 ? `${hours} h ${minutes} min` : `${Math.max(1, minutes)} min`
}

/** In the largest unit alone, for narrow columns: `3 h`. */
export function age(text: string | null, now: Instant): string {
  const at = text === null ? undefined : parseInstant(text)
  if (at === undefined) return ''
  const [number = '', unit = ''] = span(Math.max(0, now - at)).split(' ')
  return `${number} ${unit}`
}

export function count(n: number, noun: string): string {
  return `${n.toLocaleString('en-US')} ${noun}${n === 1 ? '' : 's'}`
}

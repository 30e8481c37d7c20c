/** How amounts and times read. Money arrives as decimal text and stays exact; only its last digits may be left out. */
import {
  centsRoundedDown,
  formatUsd,
  formatUsdForPeople,
  parseUsd,
  usdFromNumber,
  type NanoUsd,
} from '../../src/base/money.ts'

/** "12.5" → "$12.50"; small prices keep the digits that matter: "$0.0001". */
export function money(usd: string | NanoUsd): string {
  const amount = typeof usd === 'string' ? parseUsd(usd) : usd
  if (amount === undefined) return `$${String(usd)}`
  const text = formatUsdForPeople(amount)
  return text.replace('-', '−')
}

/** As one would type it: "2.490000000" is "2.49", and nothing is nothing. */
export function typedUsd(usd: string | null): string {
  const amount = usd === null ? undefined : parseUsd(usd)
  if (amount === undefined) return ''
  const [units = '', fraction = ''] = formatUsd(amount).split('.')
  return `${units}.${fraction.replace(/0+$/, '').padEnd(2, '0')}`
}

/** Whole cents, rounded down: where the eye passes by, and the width must not change with every reading. */
export function cents(usd: string): string {
  const amount = parseUsd(usd)
  return amount === undefined ? money(usd) : `$${(centsRoundedDown(amount) / 100).toFixed(2)}`
}

/** For prices that the interface gives as numbers. */
export function moneyOfNumber(usd: number): string {
  return money(usdFromNumber(usd) ?? String(usd))
}

const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
const dateOnly = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' })
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' })
const whole = new Intl.NumberFormat('en')

export function time(text: string | null | undefined): string {
  return text === null || text === undefined ? '—' : dateTime.format(Date.parse(text))
}

export function date(text: string | null | undefined): string {
  return text === null || text === undefined ? '—' : dateOnly.format(Date.parse(text))
}

const units = [
  { unit: 'second', ms: 1_000, until: 60_000 },
  { unit: 'minute', ms: 60_000, until: 3_600_000 },
  { unit: 'hour', ms: 3_600_000, until: 86_400_000 },
  { unit: 'day', ms: 86_400_000, until: Number.POSITIVE_INFINITY },
] as const

/** "3 min. ago", "in 2 days". */
export function ago(text: string | null | undefined, nowMs: number): string {
  if (text === null || text === undefined) return '—'
  const ms = Date.parse(text) - nowMs
  const fit = units.find((one) => Math.abs(ms) < one.until) ?? units[3]
  return relative.format(Math.round(ms / fit.ms), fit.unit)
}

/** "3 d 4 h", "2 h 5 min", "12 s". */
export function span(ms: number): string {
  if (!Number.isFinite(ms)) return 'for ever'
  const s = Math.max(0, Math.floor(ms / 1_000))
  if (s < 60) return `${s} s`
  if (s < 3_600) return `${Math.floor(s / 60)} min`
  if (s < 86_400) return `${Math.floor(s / 3_600)} h ${Math.floor((s % 3_600) / 60)} min`
  return `${whole.format(Math.floor(s / 86_400))} d ${Math.floor((s % 86_400) / 3_600)} h`
}

export function number(value: number): string {
  return whole.format(value)
}

/** "1 GPU", "8 GPUs". */
export function count(value: number, noun: string): string {
  return `${whole.format(value)} ${noun}${value === 1 ? '' : 's'}`
}

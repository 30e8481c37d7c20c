/**
 * Money is whole nano-USD (1e-9 USD) in a bigint. Floats appear only at the edge, where the wire format requires a
 * JSON number, and never re-enter arithmetic. Each division documents its rounding.
 */

declare const nanoUsd: unique symbol
export type NanoUsd = bigint & { readonly [nanoUsd]: true }

const NANO_PER_USD = 1_000_000_000n
const NANO_PER_CENT = 10_000_000n
const MS_PER_HOUR = 3_600_000n

export const zeroUsd = 0n as NanoUsd

export function nanoUsdOf(amount: bigint): NanoUsd {
  return amount as NanoUsd
}

/**
 * Parses a decimal text such as `12.50` or `-0.000000001`, up to the largest sum of ledgers that `formatUsd` writes.
 * Rejects more than nine decimals instead of rounding. Limits for requests are in the contract.
 */
export function parseUsd(text: string): NanoUsd | undefined {
  const match = /^(-)?(\d{1,12})(?:\.(\d{1,9}))?$/.exec(text)
  if (!match) return undefined
  const [, minus, whole = '0', fraction = ''] = match
  const magnitude = BigInt(whole) * NANO_PER_USD + BigInt(fraction.padEnd(9, '0'))
  return nanoUsdOf(minus ? -magnitude : magnitude)
}

/** For literals in code and seeds: throws on invalid text. */
export function usd(text: string): NanoUsd {
  const amount = parseUsd(text)
  if (amount === undefined) throw new Error(`not an amount in USD: ${text}`)
  return amount
}

/** Converts a JSON number, such as a price, to exact nano-USD. Above a billion a double lacks the digits. */
export function usdFromNumber(amount: number): NanoUsd | undefined {
  return Math.abs(amount) < 1e9 ? parseUsd(amount.toFixed(9)) : undefined
}

/** Full precision, for statements and machine readers: `3.614200000`. */
export function formatUsd(amount: NanoUsd): string {
  const magnitude = amount < 0n ? 0n - amount : amount
  const fraction = (magnitude % NANO_PER_USD).toString().padStart(9, '0')
  return `${amount < 0n ? '-' : ''}${magnitude / NANO_PER_USD}.${fraction}`
}

/**
 * For people: `$1,234.50`. Two decimals from one dollar up, up to four below, rounded to the nearest. A smaller
 * amount is `<$0.0001`, so that a cost never looks like zero.
 */
export function formatUsdForPeople(amount: NanoUsd): string {
  const magnitude = amount < 0n ? 0n - amount : amount
  const step = magnitude < NANO_PER_USD ? NANO_PER_CENT / 100n : NANO_PER_CENT
  if (magnitude > 0n && magnitude < NANO_PER_CENT / 100n) return amount < 0n ? '-<$0.0001' : '<$0.0001'
  const rounded = floorDivide(magnitude + step / 2n, step) * step
  return formatUsdExactly(nanoUsdOf(amount < 0n ? -rounded : rounded))
}

/** All digits, for tooltips and unit prices: `$0.00005`. At least two decimals. */
export function formatUsdExactly(amount: NanoUsd): string {
  const [whole = '0', fraction = ''] = formatUsd(amount < 0n ? nanoUsdOf(0n - amount) : amount).split('.')
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',')
  const decimals = fraction.replace(/0+$/, '').padEnd(2, '0')
  return `${amount < 0n ? '-' : ''}$${grouped}.${decimals}`
}

/** USD as a JSON number, for the wire only. */
export function usdToNumber(amount: NanoUsd): number {
  return Number.parseFloat(formatUsd(amount))
}

/** nano-USD as a JSON number, for the wire only. More than a safe integer ($9 million) is a bug in the caller. */
export function nanoUsdToNumber(amount: NanoUsd): number {
  const value = Number(amount)
  if (!Number.isSafeInteger(value)) throw new RangeError('an amount of nano-USD does not fit a JSON number')
  return value
}

/** Whole cents, rounded down (towards minus infinity), as a JSON number. */
export function centsRoundedDown(amount: NanoUsd): number {
  return Number(floorDivide(amount, NANO_PER_CENT))
}

/** The cost of `ms` milliseconds at a price per hour, rounded down in the customer's favor. */
export function costOfSpan(pricePerHour: NanoUsd, ms: number): NanoUsd {
  return nanoUsdOf(floorDivide(pricePerHour * BigInt(ms), MS_PER_HOUR))
}

/** The longest whole number of milliseconds whose `costOfSpan` does not exceed `budget`. */
export function spanAffordable(pricePerHour: NanoUsd, budget: NanoUsd): number {
  if (pricePerHour <= 0n) return Number.MAX_SAFE_INTEGER
  if (budget < 0n) return 0
  // costOfSpan rounds down, so the span can run until the next whole nano-dollar is due.
  const ms = ((budget + 1n) * MS_PER_HOUR - 1n) / pricePerHour
  return ms > BigInt(Number.MAX_SAFE_INTEGER) ? Number.MAX_SAFE_INTEGER : Number(ms)
}

/** `amount` × `basisPoints` / 10,000, rounded down. */
export function shareOf(amount: NanoUsd, basisPoints: number): NanoUsd {
  return nanoUsdOf(floorDivide(amount * BigInt(basisPoints), 10_000n))
}

/** The share of `part` in `whole`, in whole percent, rounded down. */
export function percentOf(part: NanoUsd, whole: NanoUsd): number {
  return Number(floorDivide(part * 100n, whole))
}

/** `price` less a discount in percent (two decimals count), rounded down in the customer's favor. */
export function discounted(price: NanoUsd, percentage: number): NanoUsd {
  return shareOf(price, 10_000 - Math.round(percentage * 100))
}

/** For sorting: the smaller amount first. */
export function compareUsd(a: NanoUsd, b: NanoUsd): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

export function minUsd(a: NanoUsd, b: NanoUsd): NanoUsd {
  return a < b ? a : b
}

export function maxUsd(a: NanoUsd, b: NanoUsd): NanoUsd {
  return a > b ? a : b
}

export function sumUsd(amounts: Iterable<NanoUsd>): NanoUsd {
  let sum = 0n
  for (const amount of amounts) sum += amount
  return nanoUsdOf(sum)
}

export function floorDivide(dividend: bigint, divisor: bigint): bigint {
  const quotient = dividend / divisor
  return dividend % divisor !== 0n && dividend < 0n !== divisor < 0n ? quotient - 1n : quotient
}

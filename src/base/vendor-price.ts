/** Prices as vendors write them, exactly as nano-USD. More than nine decimals are rounded up: a cost is never too low. */
import { nanoUsdOf, parseUsd, type NanoUsd } from './money.ts'

const NANO_PER_CENT = 10_000_000n

/** Converts whole cents. */
export function fromCents(cents: number): NanoUsd {
  if (!Number.isSafeInteger(cents) || cents < 0) throw new Error(`${cents} is not a number of cents`)
  return nanoUsdOf(BigInt(cents) * NANO_PER_CENT)
}

/** Converts a decimal text such as `2.49`, `0.0000000001` or `1.5e-3`. For JSON numbers, use `fromNumber`. */
export function fromDecimal(text: string): NanoUsd {
  const match = /^(\d{1,12})(?:\.(\d{1,30}))?(?:e([+-]?\d{1,2}))?$/i.exec(text.trim())
  if (match === null) throw new Error(`${text.slice(0, 40)} is not a price`)
  const [, whole = '0', fraction = '', exponent = '0'] = match
  const point = whole.length + Number.parseInt(exponent, 10)
  const digits = `${whole}${fraction}`.padEnd(Math.max(point, 0), '0')
  const shifted = point > 0 ? digits : `${'0'.repeat(1 - point)}${digits}`
  const at = Math.max(point, 1)
  const decimals = shifted.slice(at)
  const exact = parseUsd(`${shifted.slice(0, at).replace(/^0+(?=\d)/, '')}.${decimals.slice(0, 9).padEnd(9, '0')}`)
  if (exact === undefined) throw new Error(`${text.slice(0, 40)} is not a price`)
  return nanoUsdOf(exact + (/[1-9]/.test(decimals.slice(9)) ? 1n : 0n))
}

/** Converts a JSON number. Its shortest decimal form is what the vendor wrote. */
export function fromNumber(amount: number): NanoUsd {
  if (!Number.isFinite(amount) || amount < 0) throw new Error(`${amount} is not a price`)
  return fromDecimal(String(amount))
}

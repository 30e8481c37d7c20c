/** Amounts that are typed. */
import { InvalidArgumentError } from 'commander'
import { nonNegativeUsdText, positiveUsdText } from '../contract/shared.ts'

/** USD above zero. */
export function parseAmount(text: string): string {
  if (positiveUsdText.safeParse(text).success) return text
  throw new InvalidArgumentError('An amount is above zero, without a sign, with nine decimals at most, such as 12.50.')
}

/** USD, zero included. */
export function parseAmountOrZero(text: string): string {
  if (nonNegativeUsdText.safeParse(text).success) return text
  throw new InvalidArgumentError('An amount is zero or more, with nine decimals at most, such as 12.50.')
}

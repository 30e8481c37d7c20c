/** Amounts that are typed. */
import { InvalidArgumentError } from 'commander'
import { positiveUsdText } from '../contract/shared.ts'

/** USD above zero. */
export function parseAmount(text: string): string {
  if (positiveUsdText.safeParse(text).success) return text
  throw new InvalidArgumentError('An amount is above zero, without a sign, with nine decimals at most, such as 12.50.')
}

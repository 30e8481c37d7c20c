/** A price in the environment. */
import { z } from 'zod'
import { parseUsd, usd } from '../base/money.ts'

/** Far above what disks cost; a typing error in the unit is larger. */
const MAX_PRICE = usd('1000')

export function priceSetting(usual: string) {
  return z
    .string()
    .transform((text, context) => {
      const price = parseUsd(text)
      if (price !== undefined && price >= 0n && price <= MAX_PRICE) return price
      context.addIssue({ code: 'custom', message: `must be an amount in USD from 0 to 1000, such as ${usual}` })
      return z.NEVER
    })
    .default(usd(usual))
}

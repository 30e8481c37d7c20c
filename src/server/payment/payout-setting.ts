/** The settings of payouts to suppliers. */
import { z } from 'zod'
import { DAY_MS } from '../../base/instant.ts'
import { parseUsd, usd, type NanoUsd } from '../../base/money.ts'
import { MAX_HOLDER_CHARS, readBic, readIban } from '../../domain/bank-account.ts'
import { defaultPayoutSettings, weekdays, type PayoutSettings } from '../../domain/payout.ts'
import { SettingsError } from '../settings-error.ts'

const MAX_HOLDBACK_DAYS = 365
const MIN_PAYOUT = usd('0.01')
const MAX_MINIMUM = usd('100000')

export const payoutEnvironment = {
  BERTH_PAYOUT_HOLDBACK_DAYS: z.coerce
    .number()
    .min(0)
    .max(MAX_HOLDBACK_DAYS)
    .default(defaultPayoutSettings.holdbackMs / DAY_MS),
  BERTH_PAYOUT_MIN_USD: z
    .string()
    .transform((text, context): NanoUsd => {
      const minimum = parseUsd(text)
      if (minimum !== undefined && minimum >= MIN_PAYOUT && minimum <= MAX_MINIMUM) return minimum
      context.addIssue({ code: 'custom', message: 'must be an amount in USD from 0.01 to 100000, such as 50' })
      return z.NEVER
    })
    .default(defaultPayoutSettings.minimum),
  BERTH_PAYOUT_WEEKDAY: z.enum([...weekdays, 'off']).default(defaultPayoutSettings.weekday ?? 'off'),
  BERTH_PAYOUT_NAME: z.string().trim().min(1).max(MAX_HOLDER_CHARS).optional(),
  BERTH_PAYOUT_IBAN: z.string().optional(),
  BERTH_PAYOUT_BIC: z.string().optional(),
}

type PayoutEnvironment = z.output<z.ZodObject<typeof payoutEnvironment>>

export function readPayoutSettings(read: PayoutEnvironment): PayoutSettings {
  const weekday = read.BERTH_PAYOUT_WEEKDAY
  return {
    holdbackMs: read.BERTH_PAYOUT_HOLDBACK_DAYS * DAY_MS,
    minimum: read.BERTH_PAYOUT_MIN_USD,
    weekday: weekday === 'off' ? null : weekday,
    debtor: debtorOf(read),
  }
}

function debtorOf(read: PayoutEnvironment): PayoutSettings['debtor'] {
  const { BERTH_PAYOUT_NAME: name, BERTH_PAYOUT_IBAN: number, BERTH_PAYOUT_BIC: code } = read
  if (number === undefined) {
    if (name === undefined && code === undefined) return null
    throw new SettingsError('Invalid setting: BERTH_PAYOUT_NAME and BERTH_PAYOUT_BIC need BERTH_PAYOUT_IBAN')
  }
  const iban = readIban(number)
  if (iban === undefined) throw new SettingsError('Invalid setting: BERTH_PAYOUT_IBAN must be an IBAN')
  if (name === undefined)
    throw new SettingsError('Invalid setting: BERTH_PAYOUT_IBAN needs BERTH_PAYOUT_NAME, the holder of the account')
  const bic = code === undefined ? null : readBic(code)
  if (bic === undefined) throw new SettingsError('Invalid setting: BERTH_PAYOUT_BIC must be a BIC')
  return { name, iban, bic }
}

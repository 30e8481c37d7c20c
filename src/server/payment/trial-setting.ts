/** The trial credit of new customers: off unless an amount is set. */
import { z } from 'zod'
import type { Trial } from '../../app/app.ts'
import { limits } from '../../base/limits.ts'
import { usd } from '../../base/money.ts'
import { SettingsError } from '../settings-error.ts'

const DEFAULT_DAYS = 30

export const trialEnvironment = {
  BERTH_TRIAL_USD: z
    .string()
    .regex(/^\d{1,6}(\.\d{1,2})?$/, 'must be an amount in USD such as 5 or 12.50')
    .default('0'),
  BERTH_TRIAL_DAYS: z.coerce.number().int().min(1).max(limits.creditDays).default(DEFAULT_DAYS),
}

/** A trial comes with a card, so that nobody without one gets it. undefined: new customers get none. */
export function readTrial(read: {
  readonly BERTH_TRIAL_USD: string
  readonly BERTH_TRIAL_DAYS: number
  readonly BERTH_STRIPE_KEY?: string | undefined
}): Trial | undefined {
  const amount = usd(read.BERTH_TRIAL_USD)
  if (amount === 0n) return undefined
  if (read.BERTH_STRIPE_KEY === undefined)
    throw new SettingsError('Invalid setting: BERTH_TRIAL_USD needs BERTH_STRIPE_KEY, since a trial comes with a card')
  return { amount, days: read.BERTH_TRIAL_DAYS }
}

/** The settings of payments through Stripe. Without a key nothing of it is there. */
import { z } from 'zod'
import { SettingsError } from '../settings-error.ts'

/** The current secret of the webhook, and the ones before while they change. */
const MAX_SECRETS = 4
const KEY = /^(sk|rk)_(test|live)_[A-Za-z0-9]{8,250}$/
const SECRET = /^whsec_[A-Za-z0-9+/=_-]{8,250}$/

export const stripeEnvironment = {
  BERTH_STRIPE_KEY: z.string().regex(KEY, 'must be a key such as sk_live_…').optional(),
  BERTH_STRIPE_WEBHOOK_SECRETS: z
    .string()
    .transform((text) => text.split(',').map((secret) => secret.trim()))
    .pipe(z.array(z.string().regex(SECRET, 'must be secrets such as whsec_…, separated by commas')).max(MAX_SECRETS))
    .default([]),
  BERTH_STRIPE_URL: z.url({ protocol: /^https?$/ }).default('https://api.stripe.com'),
}

export interface StripeSettings {
  readonly key: string
  /** The key says it: a test key moves no money. */
  readonly isLive: boolean
  /** Empty: no message is accepted, and money arrives a few minutes later. */
  readonly webhookSecrets: readonly string[]
  readonly url: string
}

export function readStripe(read: {
  readonly BERTH_STRIPE_KEY?: string | undefined
  readonly BERTH_STRIPE_WEBHOOK_SECRETS: readonly string[]
  readonly BERTH_STRIPE_URL: string
  readonly BERTH_PUBLIC_URL?: string | undefined
}): StripeSettings | undefined {
  const { BERTH_STRIPE_KEY: key, BERTH_STRIPE_WEBHOOK_SECRETS: webhookSecrets, BERTH_STRIPE_URL: url } = read
  if (key === undefined) {
    if (webhookSecrets.length > 0)
      throw new SettingsError('Invalid setting: BERTH_STRIPE_WEBHOOK_SECRETS needs BERTH_STRIPE_KEY')
    return undefined
  }
  if (read.BERTH_PUBLIC_URL === undefined)
    throw new SettingsError('Invalid setting: BERTH_STRIPE_KEY needs BERTH_PUBLIC_URL, where customers return to')
  return { key, isLive: key.includes('_live_'), webhookSecrets, url }
}

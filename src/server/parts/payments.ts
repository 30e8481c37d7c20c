/** Opens the payment processor of the settings. Its library is loaded only where one is configured. */
import type { App } from '../../app/app.ts'
import type { Context, Part } from './part.ts'

export interface Payments extends Part {
  readonly app: Pick<App, 'processor'>
}

export async function openPayments({ settings, clock }: Context): Promise<Payments> {
  const { stripe, publicUrl, allowPrivateAddresses: allowPrivate } = settings
  if (stripe === undefined || publicUrl === undefined) return { app: {}, close: () => {} }
  const { openStripe } = await import('../payment/stripe.ts')
  const processor = openStripe({ settings: stripe, publicUrl, clock, allowPrivate })
  return { app: { processor }, close: () => processor.close() }
}

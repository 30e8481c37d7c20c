/** Saved cards at Stripe: charges without their owner, removal, and the page on which customers manage them. */
import { Stripe } from 'stripe'
import { MINUTE_MS } from '../../base/instant.ts'
import { ProcessorError, type Intent, type Processor } from '../../domain/processor.ts'
import { answer, answerOrNone, intentOf, PAYMENT_KEY, processorError, TAX_CODE } from './stripe-answer.ts'

const EXPAND = ['latest_charge', 'payment_method']
const PAGE = 100
/** Clocks differ. */
const OVERLAP_MS = 10 * MINUTE_MS

/** The parts that all charges without their owner share. */
const offSession = {
  currency: 'usd',
  automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
  off_session: true,
  confirm: true,
  description: 'Berth credit',
  expand: EXPAND,
} as const

type ChargeCalls = Pick<Processor, 'calculateTax' | 'findCharge' | 'chargeCard' | 'cancelCharge'>
type CardCalls = Pick<Processor, 'detachCard' | 'createPortal'>

export function chargeCalls(stripe: Stripe): ChargeCalls {
  return {
    calculateTax: async ({ key, customerId, cents }) => {
      const calculation = await answer(
        stripe.tax.calculations.create(
          {
            currency: 'usd',
            customer: customerId,
            line_items: [{ amount: cents, reference: 'credit', tax_behavior: 'exclusive', tax_code: TAX_CODE }],
          },
          { idempotencyKey: key },
        ),
      )
      if (calculation.id === null) throw new ProcessorError('calculation_without_id', false)
      return { calculationId: calculation.id, taxCents: calculation.tax_amount_exclusive }
    },

    findCharge: async ({ id, customerId, since }) => {
      const created = { gte: Math.floor((since - OVERLAP_MS) / 1_000) }
      const intents = await answer(
        stripe.paymentIntents.list({
          customer: customerId,
          created,
          limit: PAGE,
          expand: EXPAND.map((path) => `data.${path}`),
        }),
      )
      const intent = intents.data.find(({ metadata }) => metadata[PAYMENT_KEY] === id)
      // With more than a page of payments in minutes nobody knows, and a second charge would be worse than none.
      if (intent === undefined && intents.has_more) throw new ProcessorError('too_many_payments', false)
      return intent && intentOf(intent)
    },

    chargeCard: async ({ id, customerId, cardId, cents, calculationId }) => {
      const charge: Stripe.PaymentIntentCreateParams = {
        ...offSession,
        amount: cents,
        customer: customerId,
        payment_method: cardId,
        hooks: { inputs: { tax: { calculation: calculationId } } },
        metadata: { [PAYMENT_KEY]: id },
      }
      try {
        return intentOf(await stripe.paymentIntents.create(charge, { idempotencyKey: id }))
      } catch (error) {
        const declined = declinedIntent(error)
        if (declined === undefined) throw processorError(error)
        return declined
      }
    },

    cancelCharge: async (intentId) => {
      try {
        await stripe.paymentIntents.cancel(intentId)
      } catch (error) {
        const cause = processorError(error)
        // It is over already: which way, the intent says.
        if (!(cause instanceof ProcessorError && cause.isFinal)) throw cause
      }
      const intent = await answerOrNone(stripe.paymentIntents.retrieve(intentId, { expand: EXPAND }))
      return intent && intentOf(intent)
    },
  }
}

export function cardCalls(stripe: Stripe, publicUrl: string): CardCalls {
  return {
    detachCard: async (cardId) => {
      try {
        await stripe.paymentMethods.detach(cardId)
      } catch (error) {
        const cause = processorError(error)
        // No such card, or one of nobody: that is what was asked for.
        if (!(cause instanceof ProcessorError && cause.isFinal)) throw cause
      }
    },

    createPortal: async (customerId) => {
      const returnTo = { customer: customerId, return_url: `${publicUrl}/billing` }
      return (await answer(stripe.billingPortal.sessions.create(returnTo))).url
    },
  }
}

/** A refusal of the bank comes as an error that has the intent. */
function declinedIntent(error: unknown): Intent | undefined {
  if (!(error instanceof Stripe.errors.StripeCardError) || error.payment_intent === undefined) return undefined
  return intentOf(error.payment_intent)
}

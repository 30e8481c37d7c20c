/**
 * Stripe as the processor. Calls are made once: the loops retry, with the same idempotency key, and objects are read again
 * after every message.
 */
import { Stripe } from 'stripe'
import { fetch } from 'undici'
import { outboundAgent } from '../../base/net/outbound.ts'
import { instantOf, type Clock, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Checkout, DisputeFacts, Processor, ProcessorMessage, RefundFacts } from '../../domain/processor.ts'
import { answer, answerOrNone, idOf, intentOf, PAYMENT_KEY, TAX_CODE } from './stripe-answer.ts'
import { cardCalls, chargeCalls } from './stripe-card.ts'
import { payeeCalls } from './stripe-payee.ts'
import type { StripeSettings } from './stripe-setting.ts'
import { listTransactions } from './stripe-transaction.ts'

const SIGNED_WITHIN_S = 300
const REFUND_KEY = 'berth_refund'
const PAGE = 100

const eventTypes = [
  'checkout.session.completed',
  'checkout.session.async_payment_succeeded',
  'checkout.session.async_payment_failed',
  'checkout.session.expired',
  'payment_intent.succeeded',
  'payment_intent.payment_failed',
  'refund.updated',
  'refund.failed',
  'charge.dispute.created',
  'charge.dispute.funds_withdrawn',
  'charge.dispute.funds_reinstated',
  'charge.dispute.closed',
  'radar.early_fraud_warning.created',
  'payment_method.detached',
  'account.updated',
  'transfer.reversed',
] as const

export interface StripeOptions {
  readonly settings: StripeSettings
  readonly publicUrl: string
  readonly clock: Clock
  /** For simulators on loopback. */
  readonly allowPrivate: boolean
}

export function openStripe({ settings, publicUrl, clock, allowPrivate }: StripeOptions): Processor {
  const agent = outboundAgent({ allowPrivate, timeoutMs: limits.processorTimeoutMs })
  const { protocol, hostname, port } = new URL(settings.url)
  const guardedFetch = (url: string, init: object) => fetch(url, { ...init, dispatcher: agent, redirect: 'error' })
  const stripe = new Stripe(settings.key, {
    httpClient: Stripe.createFetchHttpClient(guardedFetch as unknown as typeof globalThis.fetch),
    host: hostname,
    ...(port === '' ? {} : { port }),
    protocol: protocol === 'http:' ? 'http' : 'https',
    maxNetworkRetries: 0,
    timeout: limits.processorTimeoutMs,
    telemetry: false,
  })
  const { isLive } = settings
  return {
    isLive,
    ...checkoutCalls(stripe, publicUrl),
    ...chargeCalls(stripe),
    ...cardCalls(stripe, publicUrl),
    ...moneyBackCalls(stripe, isLive),
    ...payeeCalls(stripe, publicUrl),
    listEvents: (since) => listEvents(stripe, since),
    listTransactions: (from, until) =>
      listTransactions((params) => answer(stripe.balanceTransactions.list(params)), from, until),
    openMessage: (body, signature) => openMessage(stripe, settings.webhookSecrets, body, signature, clock),
    close: () => agent.destroy(),
  }
}

type CheckoutCalls = Pick<Processor, 'createCustomer' | 'createCheckout' | 'readCheckout' | 'readIntent'>

function checkoutCalls(stripe: Stripe, publicUrl: string): CheckoutCalls {
  return {
    createCustomer: async ({ key, accountId, name }) => {
      const params = { name, metadata: { berth_account: accountId } }
      return (await answer(stripe.customers.create(params, { idempotencyKey: key }))).id
    },

    createCheckout: async ({ id, customerId, cents, savesCard, expiresAt }) => {
      const session = await answer(
        stripe.checkout.sessions.create(
          {
            mode: 'payment',
            customer: customerId,
            client_reference_id: id,
            line_items: [
              {
                quantity: 1,
                price_data: {
                  currency: 'usd',
                  unit_amount: cents,
                  tax_behavior: 'exclusive',
                  product_data: { name: 'Berth credit', tax_code: TAX_CODE },
                },
              },
            ],
            automatic_tax: { enabled: true },
            customer_update: { address: 'auto', name: 'auto' },
            tax_id_collection: { enabled: true },
            payment_intent_data: {
              metadata: { [PAYMENT_KEY]: id },
              ...(savesCard ? { setup_future_usage: 'off_session' } : {}),
            },
            expires_at: Math.floor(expiresAt / 1_000),
            success_url: `${publicUrl}/billing?payment=${id}`,
            cancel_url: `${publicUrl}/billing`,
          },
          { idempotencyKey: id },
        ),
      )
      return { sessionId: session.id, url: session.url }
    },

    readCheckout: async (sessionId) => {
      const expand = ['payment_intent.latest_charge', 'payment_intent.payment_method']
      const session = await answerOrNone(stripe.checkout.sessions.retrieve(sessionId, { expand }))
      return session && checkoutOf(session)
    },

    readIntent: async (intentId) => {
      const expand = ['latest_charge', 'payment_method']
      const intent = await answerOrNone(stripe.paymentIntents.retrieve(intentId, { expand }))
      return intent && intentOf(intent)
    },
  }
}

type MoneyBackCalls = Pick<Processor, 'createRefund' | 'readRefund' | 'readDispute' | 'readWarning'>

function moneyBackCalls(stripe: Stripe, isLive: boolean): MoneyBackCalls {
  return {
    createRefund: async ({ key, intentId, cents }) => {
      // Idempotency keys are forgotten after a day, and a lost answer must not refund twice even after that.
      const earlier = await answer(stripe.refunds.list({ payment_intent: intentId, limit: PAGE }))
      const sameRefund = earlier.data.find(({ metadata }) => metadata?.[REFUND_KEY] === key)
      if (sameRefund !== undefined) return refundOf(sameRefund)
      const params = { payment_intent: intentId, amount: cents, metadata: { [REFUND_KEY]: key } }
      return refundOf(await answer(stripe.refunds.create(params, { idempotencyKey: key })))
    },

    readRefund: async (refundId) => {
      const refund = await answerOrNone(stripe.refunds.retrieve(refundId))
      return refund && refundOf(refund)
    },

    readDispute: async (disputeId) => {
      const dispute = await answerOrNone(stripe.disputes.retrieve(disputeId))
      return dispute && disputeOf(dispute)
    },

    readWarning: async (warningId) => {
      const warning = await answerOrNone(stripe.radar.earlyFraudWarnings.retrieve(warningId))
      if (warning === undefined || warning.livemode !== isLive) return undefined
      return { intentId: idOf(warning.payment_intent), chargeId: idOf(warning.charge) ?? '' }
    },
  }
}

async function* listEvents(stripe: Stripe, since: Instant): AsyncGenerator<ProcessorMessage> {
  let after: string | undefined
  for (let count = 0; count < limits.processorMessages; count += PAGE) {
    const page = await answer(
      stripe.events.list({
        types: [...eventTypes],
        created: { gte: Math.floor(since / 1_000) },
        limit: PAGE,
        ...(after === undefined ? {} : { starting_after: after }),
      }),
    )
    for (const event of page.data) yield messageOf(event)
    after = page.data.at(-1)?.id
    if (!page.has_more || after === undefined) return
  }
}

function openMessage(
  stripe: Stripe,
  secrets: readonly string[],
  body: Buffer,
  signature: string,
  clock: Clock,
): ProcessorMessage | undefined {
  for (const secret of secrets) {
    try {
      const now = clock.now()
      return messageOf(stripe.webhooks.constructEvent(body, signature, secret, SIGNED_WITHIN_S, undefined, now))
    } catch {
      // Signed with another secret, altered, too old, or no JSON: all the same to a stranger.
    }
  }
  return undefined
}

function messageOf(event: Stripe.Event): ProcessorMessage {
  const { id } = event.data.object as { id?: string }
  return {
    id: event.id,
    isLive: event.livemode,
    type: event.type,
    objectId: id ?? '',
    at: instantOf(event.created * 1_000),
  }
}

function checkoutOf(session: Stripe.Checkout.Session): Checkout {
  const { payment_intent: intent } = session
  return {
    sessionId: session.id,
    isLive: session.livemode,
    mode: session.mode,
    status: session.status,
    paymentStatus: session.payment_status,
    currency: session.currency,
    subtotalCents: session.amount_subtotal,
    taxCents: session.total_details?.amount_tax ?? 0,
    totalCents: session.amount_total,
    customerId: idOf(session.customer),
    reference: session.client_reference_id,
    intent: intent === null || typeof intent === 'string' ? null : intentOf(intent),
  }
}

function refundOf(refund: Stripe.Refund): RefundFacts {
  const isOver = refund.status === 'failed' || refund.status === 'canceled'
  return {
    id: refund.id,
    status: isOver ? 'failed' : refund.status === 'succeeded' ? 'succeeded' : 'pending',
    failure: refund.failure_reason ?? null,
  }
}

/** Every withdrawal and return is a balance transaction of the dispute. */
function disputeOf(dispute: Stripe.Dispute): DisputeFacts {
  const balance = dispute.balance_transactions.reduce((sum, { amount }) => sum + amount, 0)
  return {
    id: dispute.id,
    isLive: dispute.livemode,
    intentId: idOf(dispute.payment_intent),
    chargeId: idOf(dispute.charge) ?? '',
    status: dispute.status,
    reason: dispute.reason,
    cents: dispute.amount,
    currency: dispute.currency,
    isWithdrawn: balance < 0,
  }
}

/** Payments by card over HTTP. */
import { createOnce } from '../../app/idempotency.ts'
import { comparePayments, type ComparedPayments } from '../../app/payment/compare-payments.ts'
import { refundPayment } from '../../app/payment/refund.ts'
import { createTopUp, openTopUp, readTopUp } from '../../app/payment/top-up.ts'
import { limits } from '../../base/limits.ts'
import { zeroUsd } from '../../base/money.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { fail, ok } from '../../contract/result.ts'
import { listPayments, listTaken, type Taken } from '../../store/payment/payment.ts'
import { readComparison } from '../../store/payment/payment-comparison.ts'
import { listAlerts } from '../../store/payment/processor-event.ts'
import type { Payment, PaymentRefund } from '../../store/payment/payment-posting.ts'
import type { Db } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'
import { mapOk } from './billing.ts'

export const paymentHandlers = {
  createTopUp: async (app, { operation, actor, body, idempotencyKey }) => {
    const once = { key: idempotencyKey, operation, request: { body } }
    const created = await createOnce(app, actor, once, async (tx) => {
      const order = { amount: body.amountUsd, savesCard: body.saveCard }
      return mapOk(await createTopUp(app, tx, actor, order), (payment) => paymentOnWire(payment))
    })
    if (!created.ok) return created
    // The processor is called after the commit; a repeated request gets the same page.
    const payment = await openTopUp(app, created.value.id)
    return payment === undefined ? fail('payment_not_found') : ok(paymentOnWire(payment))
  },

  listTopUps: async ({ processor, database: { db } }, { actor }) => {
    const payments = await listPayments(db, limits.listedPayments, actor.accountId)
    return ok({ takesCards: processor !== undefined, payments: await paymentsOnWire(db, payments) })
  },

  getTopUp: async (app, { actor, params }) => {
    const payment = await readTopUp(app, actor, params.id)
    if (!payment.ok) return payment
    const takenById = await listTaken(app.database.db, [payment.value.id])
    return ok(paymentOnWire(payment.value, takenById.get(payment.value.id)))
  },

  listPayments: async ({ database: { db }, processor }) => {
    const compared = processor && (await readComparison(db, processor.isLive))
    const [alerts, payments] = [
      await listAlerts(db, limits.listedPayments),
      await listPayments(db, limits.listedPayments),
    ]
    return ok({
      comparison: compared === undefined ? null : comparisonOnWire(compared),
      alerts: alerts.map(({ kind, subject, account_id: accountId, detail, at }) => ({
        kind,
        subject,
        accountId,
        detail,
        at,
      })),
      payments: (await paymentsOnWire(db, payments)).map((payment, n) => ({
        ...payment,
        accountId: payments[n]?.account_id ?? '',
      })),
    })
  },

  comparePayments: async (app) => mapOk(await comparePayments(app), comparisonOnWire),

  refundPayment: async (app, { operation, actor, params, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { params, body } }, async (tx) => {
      const order = { paymentId: params.id, amount: body.amountUsd, reason: body.reason }
      return mapOk(await refundPayment(app, tx, actor, order), refundOnWire)
    }),
} satisfies Partial<Handlers>

async function paymentsOnWire(db: Db, payments: readonly Payment[]): Promise<Array<ResponseOf<Api['getTopUp']>>> {
  const ids = payments.map(({ id }) => id)
  const takenById = await listTaken(db, ids)
  return payments.map((payment) => paymentOnWire(payment, takenById.get(payment.id)))
}

/** Without `back`, nothing went back, as of a new payment. */
function paymentOnWire(payment: Payment, back?: Taken): ResponseOf<Api['getTopUp']> {
  return {
    id: payment.id,
    kind: payment.kind,
    state: payment.state,
    amountUsd: payment.amount_nano,
    taxUsd: payment.tax_nano,
    url: payment.state === 'open' ? payment.session_url : null,
    failure: payment.state === 'mismatch' ? null : payment.failure,
    refundedUsd: back?.refunded ?? zeroUsd,
    disputedUsd: back?.disputed ?? zeroUsd,
    createdAt: payment.created_at,
    expiresAt: payment.expires_at,
    paidAt: payment.paid_at,
  }
}

function comparisonOnWire({ comparison, differences }: ComparedPayments): ResponseOf<Api['comparePayments']> {
  return {
    day: comparison.day,
    comparedAt: comparison.compared_at,
    until: comparison.until,
    objects: comparison.objects,
    processorUsd: comparison.processor_nano,
    recordedUsd: comparison.recorded_nano,
    feesUsd: comparison.fees_nano,
    differencesTotal: comparison.differences,
    differences: differences.map(({ subject, kind, processor_nano: processorUsd, recorded_nano: recordedUsd }) => ({
      subject,
      kind,
      processorUsd,
      recordedUsd,
    })),
  }
}

function refundOnWire(refund: PaymentRefund): ResponseOf<Api['refundPayment']> {
  return {
    id: refund.id,
    paymentId: refund.payment_id,
    state: refund.state,
    amountUsd: refund.amount_nano,
    taxUsd: refund.tax_nano,
    reason: refund.reason,
    createdAt: refund.created_at,
  }
}

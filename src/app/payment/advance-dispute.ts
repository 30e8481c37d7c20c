/** Disputes: takes what the processor has withdrawn, gives back what it has returned, and tells the operator. */
import { formatUsd } from '../../base/money.ts'
import { usdOfCents } from '../../domain/payment.ts'
import type { DisputeFacts, Processor } from '../../domain/processor.ts'
import { saveDispute } from '../../store/payment/payment-dispute.ts'
import { wakePayment } from '../../store/payment/payment.ts'
import { lockPayment, returnDispute, takeDispute, type PaymentDispute } from '../../store/payment/payment-posting.ts'
import { raiseAlert } from '../../store/payment/processor-event.ts'
import { transact } from '../../store/platform/database.ts'
import type { App } from '../app.ts'
import { announceMoney } from './advance-payment.ts'
import { turnOff } from './auto-top-up.ts'
import { findPaymentOfCharge } from './find-payment.ts'

/** Money of a payment cannot be taken before it was credited: the message is handled again after that. */
class PaymentNotCredited extends Error {
  constructor(id: string) {
    super(`payment ${id} is not credited yet`)
  }
}

export async function advanceDispute(app: App, processor: Processor, disputeId: string): Promise<void> {
  const facts = await processor.readDispute(disputeId)
  if (facts === undefined || facts.isLive !== processor.isLive) return
  const named = await findPaymentOfCharge(app, processor, facts)
  if (named === undefined || facts.currency !== 'usd') {
    const detail = `A dispute of ${facts.cents / 100} ${facts.currency} about a payment that Berth does not know`
    return transact(app.database, (tx) =>
      raiseAlert(tx, { kind: 'foreign', subject: disputeId, accountId: named?.account_id ?? null, detail }),
    )
  }
  if (named.state !== 'paid') {
    await transact(app.database, (tx) => wakePayment(tx, named.id))
    throw new PaymentNotCredited(named.id)
  }
  await transact(app.database, async (tx) => {
    const payment = await lockPayment(tx, named.id)
    if (payment === undefined) return
    const dispute = await saveDispute(tx, payment.id, {
      id: facts.id,
      state: stateOf(facts),
      reason: facts.reason,
      amount: usdOfCents(facts.cents),
    })
    await raiseAlert(tx, {
      kind: 'dispute',
      subject: facts.id,
      accountId: payment.account_id,
      detail: `${formatUsd(dispute.amount_nano)} USD (${facts.reason}). Answer it at the processor`,
    })
    if (facts.isWithdrawn) {
      const part = await takeDispute(tx, payment, dispute)
      // A card whose owner objects is not charged again by itself.
      await turnOff(tx, payment.account_id, 'dispute')
      if (part.amount > 0n) await announceMoney(tx, payment.account_id, `-${formatUsd(part.amount)}`, 'dispute')
    } else if (await returnDispute(tx, payment, dispute)) {
      await announceMoney(tx, payment.account_id, formatUsd(dispute.taken_nano), 'dispute_return')
    }
  })
}

function stateOf({ status, isWithdrawn }: DisputeFacts): PaymentDispute['state'] {
  if (status === 'won' || status === 'lost') return status
  if (status === 'warning_closed' || status === 'prevented') return 'closed'
  return isWithdrawn ? 'open' : status.startsWith('warning_') ? 'inquiry' : 'open'
}

/**
 * When a bank wants the customer to confirm an automatic top-up, a page to pay on takes its place. The customer hears of it
 * once: with its address as soon as there is one, or without if there never is.
 */
import { randomId } from '../../base/id.ts'
import { addMs } from '../../base/instant.ts'
import { formatUsd } from '../../base/money.ts'
import { CONFIRMATION_MS } from '../../domain/auto-top-up.ts'
import { recordEvent } from '../../store/notice/event.ts'
import { insertCheckout, saveSession } from '../../store/payment/payment.ts'
import type { Payment } from '../../store/payment/payment-posting.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { App } from '../app.ts'

/** The card that is entered there is saved: its owner has then agreed to the charges that follow. */
export async function insertConfirmation(tx: Tx, payment: Payment): Promise<void> {
  const now = tx.clock.now()
  await insertCheckout(tx, {
    id: randomId('pay'),
    accountId: payment.account_id,
    personId: null,
    confirmsId: payment.id,
    isLive: payment.is_live,
    amount: payment.amount_nano,
    savesCard: true,
    dueAt: now,
    expiresAt: addMs(now, CONFIRMATION_MS),
  })
  tx.wake.add('payments')
}

export async function keepSession(
  app: App,
  payment: Payment,
  session: Parameters<typeof saveSession>[2],
): Promise<void> {
  await transact(app.database, async (tx) => {
    if (await saveSession(tx.db, payment.id, session)) announceConfirmation(tx, payment, session.url)
  })
}

/** Does nothing for a page that a person has asked for. */
export function announceConfirmation(tx: Tx, payment: Payment, url: string | null): void {
  if (payment.confirms_id === null) return
  recordEvent(tx, {
    accountId: payment.account_id,
    type: 'balance.auto_top_up_off',
    subject: { kind: 'balance', id: payment.account_id },
    data: { reason: 'authentication', paymentId: payment.id, amountUsd: formatUsd(payment.amount_nano), url },
  })
}

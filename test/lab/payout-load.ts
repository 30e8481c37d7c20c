/** Suppliers who earn, an operator who approves runs, and reversals at Stripe: the payouts of a crash run. */
import { randomInt } from 'node:crypto'
import { addMs, DAY_MS, toDate } from '../../src/base/instant.ts'
import { usdOfCents } from '../../src/domain/payment.ts'
import { savePayee } from '../../src/store/payment/payout-account.ts'
import { transact, type Database } from '../../src/store/platform/database.ts'
import { earnAtOnce } from '../harness/payout.ts'
import type { Call } from '../harness/server.ts'
import type { StripeSimulator } from '../sim/stripe-server.ts'

export interface PayoutWorld {
  readonly stripe: StripeSimulator
  readonly database: Database
  readonly operator: Call
}

/** Settings of the server: no holdback, since earnings of a crash run are seconds old. */
export const payoutEnv = { BERTH_PAYOUT_HOLDBACK_DAYS: '0', BERTH_PAYOUT_MIN_USD: '1', BERTH_PAYOUT_WEEKDAY: 'off' }

const SUPPLIERS = 3
const FINGERPRINT = 'fp6789'

/** Suppliers whose connected accounts are complete, and old enough to be paid. */
export async function openSuppliers({ stripe, database, operator }: PayoutWorld): Promise<string[]> {
  const ids: string[] = []
  for (let n = 1; n <= SUPPLIERS; n += 1) {
    const { body } = await operator('POST', '/v2/operator/accounts', {
      name: `Supplier ${n}`,
      ownerEmail: `supplier-${n}@example.test`,
      platformFeePercentage: 10,
    })
    const id = String(body.account.id)
    const [, account] = stripe.connect.create('accounts', { type: 'express' }) ?? []
    const payeeId = String(account?.['id'])
    stripe.connect.onboard(payeeId)
    await transact(database, async (tx) => {
      await savePayee(tx, { accountId: id, changedBy: 'test' }, { id: payeeId, isLive: false, country: null })
      const changedAt = toDate(addMs(tx.clock.now(), -10 * DAY_MS))
      const change = { is_confirmed: true, fingerprint: FINGERPRINT, changed_at: changedAt, due_at: null }
      await tx.db.updateTable('payout_account').set(change).where('account_id', '=', id).execute()
    })
    ids.push(id)
  }
  return ids
}

export function payoutActs({ stripe, database, operator }: PayoutWorld, suppliers: readonly string[]) {
  const earn = async (): Promise<void> => {
    const accountId = suppliers[randomInt(suppliers.length)] ?? ''
    await earnAtOnce({ database }, accountId, usdOfCents(randomInt(100, 5_000)))
  }
  /** What an operator does who gets no answer: looks, and approves the draft that is there. */
  const payOut = async (): Promise<void> => {
    try {
      await operator('POST', '/v2/operator/payouts')
      const { body } = await operator('GET', '/v2/operator/payouts')
      const runs = (body.runs ?? []) as Array<{ id: string; state: string }>
      const draft = runs.find(({ state }) => state === 'draft')
      if (draft === undefined) return
      const verb = randomInt(10) === 0 ? 'cancel' : 'approve'
      await operator('POST', `/v2/operator/payouts/${draft.id}/${verb}`)
    } catch {
      // The server is away. The next turn looks again.
    }
  }
  const reverse = (): void => {
    const transfers = stripe.all('transfer').filter((one) => restOf(one) > 0)
    const transfer = transfers.length === 0 ? undefined : transfers[randomInt(transfers.length)]
    if (transfer === undefined || randomInt(4) > 0) return
    const rest = restOf(transfer)
    stripe.connect.reverse(String(transfer['id']), randomInt(2) === 0 ? rest : randomInt(1, rest + 1))
  }
  const fund = (): void => {
    stripe.connect.funds = randomInt(3) === 0 ? 100 : Number.POSITIVE_INFINITY
  }
  return [earn, earn, payOut, payOut, reverse, fund]
}

function restOf(transfer: { readonly [name: string]: unknown }): number {
  return (transfer['amount'] as number) - (transfer['amount_reversed'] as number)
}

/** Takes back what is left of credit that has expired. */
import { formatUsd, nanoUsdOf } from '../../base/money.ts'
import { readBalances } from '../../store/ledger/ledger.ts'
import { recordEvent } from '../../store/notice/event.ts'
import { expireGrant, listDueGrants } from '../../store/payment/credit-grant.ts'
import { transact } from '../../store/platform/database.ts'
import type { App } from '../app.ts'

/** True: there may be more. */
export async function expireCredit(app: App, limit: number): Promise<boolean> {
  const grants = await listDueGrants(app.database.db, app.clock.now(), limit)
  for (const { id, account_id: accountId } of grants) {
    await transact(app.database, async (tx) => {
      const amount = await expireGrant(tx, id)
      if (amount === 0n) return
      const { available } = await readBalances(tx.db, accountId)
      recordEvent(tx, {
        accountId,
        type: 'balance.adjusted',
        subject: { kind: 'balance', id: accountId },
        data: {
          amountUsd: formatUsd(nanoUsdOf(0n - amount)),
          kind: 'credit_expiry',
          availableUsd: formatUsd(available),
        },
      })
      tx.wake.add('meter')
    })
  }
  return grants.length === limit
}

/** Tells a customer that the balance has changed. */
import { formatUsd } from '../../base/money.ts'
import { resumeBatches } from '../../store/batch/batch.ts'
import { readBalances } from '../../store/ledger/ledger.ts'
import { recordEvent } from '../../store/notice/event.ts'
import type { Tx } from '../../store/platform/database.ts'

/** Records the event, and wakes the loops that may wait for money. */
export async function announceMoney(tx: Tx, accountId: string, amountUsd: string, kind: string): Promise<void> {
  await resumeBatches(tx, accountId)
  const { available } = await readBalances(tx.db, accountId)
  recordEvent(tx, {
    accountId,
    type: kind === 'dispute' ? 'balance.adjusted' : 'balance.credited',
    subject: { kind: 'balance', id: accountId },
    data: { amountUsd, kind, availableUsd: formatUsd(available) },
  })
  tx.wake.add('meter')
  tx.wake.add('volumes')
}

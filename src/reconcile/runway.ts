/** Warns each account once when its balance comes to last for less than 24, 6 and 1 hours. */
import { MINUTE_MS } from '../base/instant.ts'
import { formatUsd } from '../base/money.ts'
import type { App } from '../app/app.ts'
import { runwayChange, type RunwayChange } from '../domain/runway.ts'
import { transact, type Tx } from '../store/database.ts'
import { recordEvent } from '../store/event.ts'
import { listSpending, setRunwayWarned, type Spending } from '../store/spending.ts'
import type { Reconciler } from './loop.ts'

export function watchRunway(app: App): Reconciler {
  return {
    name: 'runway',
    everyMs: MINUTE_MS / 2,
    run: async () => {
      for (const account of await listSpending(app.database.db, app.clock.now())) {
        const change = runwayChange(account.balance, account.hourlySpend, account.warnedH)
        if (change.kind !== 'none') await transact(app.database, (tx) => tell(tx, account, change))
      }
      return false
    },
  }
}

async function tell(tx: Tx, account: Spending, change: Exclude<RunwayChange, { kind: 'none' }>): Promise<void> {
  // Two servers may look at once: only the one that changes the mark tells.
  const changed = await setRunwayWarned(tx, account, change.kind === 'clear' ? null : change.hours)
  if (!changed || change.kind !== 'warn') return
  recordEvent(tx, {
    accountId: account.accountId,
    type: 'balance.runway_low',
    subject: { kind: 'balance', id: account.accountId },
    data: {
      hours: change.hours,
      balanceUsd: formatUsd(account.balance),
      hourlySpendUsd: formatUsd(account.hourlySpend),
    },
  })
}

/** Warns each account once when its balance lasts for less than 24, 6 and 1 hours. */
import { MINUTE_MS } from '../base/instant.ts'
import { formatUsd } from '../base/money.ts'
import type { App } from '../app/app.ts'
import { balanceOf, type Balance } from '../domain/balance.ts'
import { runwayChange, type RunwayChange } from '../domain/runway.ts'
import { readSnapshot } from '../store/ledger/billing.ts'
import { transact, type Tx } from '../store/platform/database.ts'
import { recordEvent } from '../store/notice/event.ts'
import { listWatched, readStandings, setRunwayWarned, type Watched } from '../store/ledger/standing.ts'
import type { Reconciler } from './loop.ts'

/** Accounts read at a time, each with all its running resources. */
const BATCH = 200

export function watchRunway(app: App): Reconciler {
  return {
    name: 'runway',
    everyMs: MINUTE_MS / 2,
    run: async () => {
      for (let after = ''; ;) {
        const { accounts, standings } = await readSnapshot(app.database, async (db) => {
          const accounts = await listWatched(db, after, BATCH)
          const ids = accounts.map(({ accountId }) => accountId)
          return { accounts, standings: await readStandings(db, ids) }
        })
        for (const account of accounts) {
          const standing = standings.get(account.accountId)
          if (standing === undefined) continue
          const balance = balanceOf(standing, app.clock.now())
          const change = runwayChange(balance.runway.funds, balance.runway.hourlySpend, account.warnedH)
          if (change.kind !== 'none') await transact(app.database, (tx) => warn(tx, account, balance, change))
        }
        const last = accounts.at(-1)
        if (last === undefined || accounts.length < BATCH) return false
        after = last.accountId
      }
    },
  }
}

async function warn(
  tx: Tx,
  account: Watched,
  balance: Balance,
  change: Exclude<RunwayChange, { kind: 'none' }>,
): Promise<void> {
  // Two servers may look at once: only the one that changes the mark records the event.
  const changed = await setRunwayWarned(tx, account, change.kind === 'clear' ? null : change.hours)
  if (!changed || change.kind !== 'warn') return
  recordEvent(tx, {
    accountId: account.accountId,
    type: 'balance.runway_low',
    subject: { kind: 'balance', id: account.accountId },
    data: {
      hours: change.hours,
      balanceUsd: formatUsd(balance.balance),
      hourlySpendUsd: formatUsd(balance.hourlySpend),
    },
  })
}

/** Drafts a payout run on its day, on one of the servers. An operator approves it; if nothing is payable, there is none. */
import type { App } from '../app/app.ts'
import { payoutSettingsOf } from '../app/payout/payout-account.ts'
import { draftRun } from '../app/payout/payout-run.ts'
import { MINUTE_MS } from '../base/instant.ts'
import { lastScheduledRun } from '../domain/payout.ts'
import { transact } from '../store/platform/database.ts'
import { endTurn, readDoneAt, takeTurn } from '../store/platform/lease.ts'
import type { Reconciler } from './loop.ts'

const TURN = 'payout-runs'
const EVERY_MS = 15 * MINUTE_MS

export function draftPayoutRuns(app: App): Reconciler {
  return {
    name: TURN,
    everyMs: EVERY_MS,
    run: async () => {
      const { database, clock } = app
      const now = clock.now()
      const due = lastScheduledRun(payoutSettingsOf(app).weekday, now)
      if (due === undefined) return false
      const turn = await takeTurn(database.db, TURN, { now, leaseMs: EVERY_MS })
      if (turn === undefined) return false
      let isDone = false
      try {
        const last = await readDoneAt(database.db, TURN)
        // A new installation begins with the next day of the schedule.
        if (last !== null && last < due) await transact(database, (tx) => draftRun(app, tx, null))
        isDone = true
      } finally {
        await endTurn(database.db, TURN, turn, isDone ? now : undefined)
      }
      return false
    },
  }
}

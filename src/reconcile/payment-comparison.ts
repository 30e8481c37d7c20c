/** Compares with the payment processor once a day, on one of the servers. A comparison that failed is tried again hourly. */
import type { App } from '../app/app.ts'
import { comparePayments } from '../app/payment/compare-payments.ts'
import { DAY_MS, HOUR_MS } from '../base/instant.ts'
import { endTurn, takeTurn } from '../store/platform/lease.ts'
import type { Reconciler } from './loop.ts'

const TURN = 'payment-comparison'

export function comparePaymentsDaily(app: App): Reconciler {
  return {
    name: TURN,
    everyMs: HOUR_MS,
    run: async () => {
      const { database, clock } = app
      // The turn lasts a day and is not ended early after a comparison.
      const turn = await takeTurn(database.db, TURN, { now: clock.now(), leaseMs: DAY_MS })
      if (turn === undefined) return false
      let isDone = false
      try {
        isDone = (await comparePayments(app)).ok
      } finally {
        if (!isDone) await endTurn(database.db, TURN, turn)
      }
      return false
    },
  }
}

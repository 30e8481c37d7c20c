/** Verifies the whole ledger once a day, on one of the servers, so that a fault is noticed before a customer does. */
import type { App } from '../app/app.ts'
import { verifyLedger } from '../app/money/ledger-verify.ts'
import { DAY_MS, HOUR_MS } from '../base/instant.ts'
import { transact } from '../store/platform/database.ts'
import { takeTurn } from '../store/platform/lease.ts'
import { notifyOperators } from '../store/notice/notification.ts'
import type { Reconciler } from './loop.ts'

export function checkLedger(app: App, report: (findings: number) => void): Reconciler {
  return {
    name: 'ledger-check',
    everyMs: HOUR_MS,
    run: async () => {
      // The turn lasts a day and is not ended early, so one server checks once a day.
      const turn = await takeTurn(app.database.db, 'ledger-check', { now: app.clock.now(), leaseMs: DAY_MS })
      if (turn === undefined) return false
      const verdict = await verifyLedger(app)
      if (!verdict.ok) return false
      const findings = verdict.value.checks.reduce((sum, check) => sum + check.findings, 0)
      if (findings === 0) return false
      report(findings)
      await transact(app.database, (tx) =>
        notifyOperators(tx, {
          kind: 'operator_ledger',
          subject: { kind: 'ledger', id: 'daily' },
          data: { findings },
        }),
      )
      return false
    },
  }
}

/** Has the payment processor check VAT IDs that customers gave. */
import { MINUTE_MS } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { advanceVatCheck } from '../app/payment/vat-check.ts'
import { nextLook, type Processor } from '../domain/processor.ts'
import { hasDueVatId, leaseVatIds, releaseVatId } from '../store/document/billing-details.ts'
import type { Reconciler } from './loop.ts'

const BATCH = 20
/** Longer than the calls for all rows of a batch take. */
const LEASE_MS = 10 * MINUTE_MS

export function checkVatIds(app: App, processor: Processor): Reconciler {
  return {
    name: 'vat-ids',
    due: hasDueVatId,
    run: async (signal) => {
      const { db } = app.database
      const { rows, token } = await leaseVatIds(db, { now: app.clock.now(), limit: BATCH, leaseMs: LEASE_MS })
      for (const details of rows) {
        if (signal.aborted) return false
        const { account_id: accountId, attempts } = details
        try {
          await releaseVatId(db, accountId, token, await advanceVatCheck(app, processor, details))
        } catch (error) {
          app.warn?.(error, 'a VAT ID could not be checked; it is tried again')
          await releaseVatId(db, accountId, token, nextLook(app.clock.now(), attempts))
        }
      }
      return rows.length === BATCH
    },
  }
}

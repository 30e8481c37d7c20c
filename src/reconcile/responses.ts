/** Deletes expired stored responses, and the oldest responses of accounts that store too many. */
import type { App } from '../app/app.ts'
import { MINUTE_MS } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { deleteExcessResponses, deleteExpiredResponses } from '../store/response/response.ts'
import type { Reconciler } from './loop.ts'

/** The maximum deleted per pass. */
const RESPONSES = 1_000

export function removeResponses({ database, clock }: Pick<App, 'database' | 'clock'>): Reconciler {
  return {
    name: 'responses',
    everyMs: 10 * MINUTE_MS,
    run: async () => {
      const expired = await deleteExpiredResponses(database.db, clock.now(), RESPONSES)
      const excess = await deleteExcessResponses(database.db, limits.responseBytesPerAccount, RESPONSES)
      return expired === RESPONSES || excess === RESPONSES
    },
  }
}

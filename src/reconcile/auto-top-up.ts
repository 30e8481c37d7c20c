/** Starts automatic top-ups. Whether one is due is decided again under the lock of its row, so every server may look. */
import { SECOND_MS } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { startAttempt } from '../app/payment/auto-top-up.ts'
import type { Processor } from '../domain/processor.ts'
import { listDue } from '../store/payment/auto-top-up.ts'
import { eachOf, type Reconciler } from './loop.ts'

const BATCH = 100
const WIDTH = 4

export function topUpAutomatically(app: App, processor: Processor): Reconciler {
  return {
    name: 'auto-top-up',
    everyMs: 30 * SECOND_MS,
    run: async (signal) => {
      const query = { now: app.clock.now(), isLive: processor.isLive, limit: BATCH }
      const accountIds = await listDue(app.database.db, query)
      await eachOf(accountIds, WIDTH, async (accountId) => {
        if (signal.aborted) return
        try {
          await startAttempt(app, processor, accountId)
        } catch (error) {
          app.warn?.(error, `an automatic top-up of ${accountId} could not be started`)
        }
      })
      return accountIds.length === BATCH && !signal.aborted
    },
  }
}

/**
 * Counts declined cards. After ten in a day, neither the account nor the network gets another page to pay on, those that are
 * open are closed, and operators are told: whoever tries stolen cards tries many.
 */
import { addMs, DAY_MS, formatDay } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { fail, type Failure } from '../../contract/result.ts'
import { ProcessorError, type Processor } from '../../domain/processor.ts'
import { findBlocked, insertDecline, listOpenPages, type Payer } from '../../store/payment/card-decline.ts'
import { raiseAlert } from '../../store/payment/processor-event.ts'
import { transact, type Db } from '../../store/platform/database.ts'
import type { App } from '../app.ts'

/** undefined: money can be added. */
export async function refuseBlocked(db: Db, clock: App['clock'], payer: Payer): Promise<Failure | undefined> {
  const blocked = await findBlocked(db, payer, addMs(clock.now(), -DAY_MS))
  return blocked === undefined ? undefined : fail('top_ups_blocked')
}

/** The pages are closed also when the message comes again: the first time may have failed. */
export async function countDecline(app: App, processor: Processor, eventId: string, payer: Payer): Promise<void> {
  const { accountId, network } = payer
  const now = app.clock.now()
  await transact(app.database, (tx) => insertDecline(tx, { eventId, ...payer }))
  const blocked = await findBlocked(app.database.db, payer, addMs(now, -DAY_MS))
  if (blocked === undefined) return
  await transact(app.database, (tx) =>
    raiseAlert(tx, {
      kind: 'declines',
      subject: `${blocked === 'account' ? accountId : network} ${formatDay(now)}`,
      accountId,
      detail: `${limits.declinesPerDay} cards were declined within a day: no money can be added from this ${blocked} for a day`,
    }),
  )
  for (const session of await listOpenPages(app.database.db, payer, blocked, now)) {
    try {
      await processor.expireCheckout(session)
    } catch (error) {
      // It is closed already.
      if (!(error instanceof ProcessorError && error.isFinal)) throw error
    }
  }
}

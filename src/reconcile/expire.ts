/** Applies time limits: terms, `autoTerminateAt`, states that last too long, expired holds and stored answers. */
import { addMs, formatInstant, MINUTE_MS, SECOND_MS } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import type { App } from '../app/app.ts'
import { failRental, terminateRental } from '../app/rental.ts'
import { recordRentalEvent } from '../app/rental-event.ts'
import { passTermEnd } from '../app/rental-term.ts'
import { isLiving, stateLimits } from '../domain/rental.ts'
import { transact, type Tx } from '../store/database.ts'
import { deleteIdempotency } from '../store/idempotency.ts'
import { releaseExpiredHolds } from '../store/ledger.ts'
import { notifyOperators } from '../store/notification.ts'
import { deleteRateWindows } from '../store/rate-window.ts'
import { listEnding, listOverdue, lockRental, readTerms, updateRental, type Rental } from '../store/rental.ts'
import type { RentalStatus } from '../contract/rental.ts'
import { eachOf, type Reconciler } from './loop.ts'

const BATCH = 100
const WIDTH = 4

/** Terms, and end times that customers set. */
export function expireTerms(app: App): Reconciler {
  return {
    name: 'expire-terms',
    everyMs: SECOND_MS,
    run: async () => {
      const ids = await listEnding(app.database.db, app.clock.now(), BATCH)
      await eachOf(ids, WIDTH, (id) => transact(app.database, (tx) => expireOne(tx, id)))
      return ids.length === BATCH
    },
  }
}

async function expireOne(tx: Tx, id: number): Promise<void> {
  const rental = await lockRental(tx, id)
  const term = (await readTerms(tx.db, [id])).get(id)
  if (rental === undefined || term === undefined || !isLiving(rental.status)) return
  const now = tx.clock.now()
  const termEnd = term.reservation?.endsAt ?? null
  const ownEnd = rental.auto_terminate_at
  if (ownEnd !== null && ownEnd <= now && (termEnd === null || ownEnd <= termEnd)) {
    await terminateRental(tx, rental, 'auto_terminate', ownEnd)
    return
  }
  if (termEnd === null || termEnd > now) return
  // An Unknown rental may have been stopped since; it is converted when the engine shows it again.
  if (rental.status === 'Unknown' && rental.convert_on_expiry !== false) return
  const forced = await passTermEnd(tx, rental, now)
  if (forced !== undefined) await terminateRental(tx, rental, forced.reason, forced.at)
}

/** Fails or flags rentals whose state lasts too long (`stateLimits`). */
export function expireStates(app: App): Reconciler {
  return {
    name: 'expire-states',
    everyMs: 15 * SECOND_MS,
    run: async () => {
      let more = false
      for (const [status, limit] of Object.entries(stateLimits) as Array<
        [RentalStatus, (typeof stateLimits)['Pending' | 'Terminating']]
      >) {
        const since = addMs(app.clock.now(), -limit.ms)
        const ids = await listOverdue(app.database.db, status, since, BATCH)
        await eachOf(ids, WIDTH, (id) =>
          transact(app.database, async (tx) => {
            const rental = await lockRental(tx, id)
            if (rental === undefined || rental.status !== status) return
            if (limit.past === 'fail') await failRental(tx, rental, limit.reason)
            else await flagStuck(tx, rental, limit.reason)
          }),
        )
        more ||= ids.length === BATCH
      }
      return more
    },
  }
}

async function flagStuck(tx: Tx, rental: Rental, reason: string): Promise<void> {
  await updateRental(tx, rental.id, { stuck_at: tx.clock.now() })
  recordRentalEvent(tx, rental, 'rental.stuck', {
    status: rental.status,
    reason,
    since: formatInstant(rental.status_since),
  })
  await notifyOperators(tx, {
    kind: 'operator_stuck',
    subject: { kind: 'rental', id: String(rental.id) },
    data: { accountId: rental.account_id, name: rental.name, status: rental.status, reason },
  })
}

/** Expired holds, stored answers past their retention, and rate counters of past minutes. */
export function sweepExpired(app: App): Reconciler {
  return {
    name: 'sweep-expired',
    everyMs: MINUTE_MS,
    run: async () => {
      const now = app.clock.now()
      await transact(app.database, (tx) => releaseExpiredHolds(tx, BATCH))
      await deleteIdempotency(app.database.db, addMs(now, -limits.idempotencyKeptMs))
      await deleteRateWindows(app.database.db, addMs(now, -2 * MINUTE_MS))
      return false
    },
  }
}

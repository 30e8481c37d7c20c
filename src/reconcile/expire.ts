/** Applies time limits: terms, `autoTerminateAt`, `stopAt`, states that last too long, expired holds and stored answers. */
import { addMs, DAY_MS, formatInstant, MINUTE_MS, SECOND_MS } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import type { App } from '../app/app.ts'
import { failRental, terminateRental } from '../app/rental/rental.ts'
import { recordRentalEvent } from '../app/rental/rental-event.ts'
import { beginStop, powersOf } from '../app/rental/rental-power.ts'
import { expireDeviceLogins } from '../app/person/device-login.ts'
import { expireOauthGrants } from '../app/person/oauth-grant.ts'
import { expireEmailCodes } from '../app/person/email-code.ts'
import { passTermEnd } from '../app/rental/rental-term.ts'
import { rentalStates, rentalStateTable } from '../contract/rental-state.ts'
import { isLiving, moveLimitMs } from '../domain/rental.ts'
import type { Term } from '../domain/term.ts'
import { transact, type Tx } from '../store/platform/database.ts'
import { deleteIdempotency } from '../store/platform/idempotency.ts'
import { releaseExpiredHolds } from '../store/ledger/ledger.ts'
import { notifyOperators } from '../store/notice/notification.ts'
import { deleteSelfOpenedAccounts } from '../store/account/client-network.ts'
import { deleteExpiredSignIns } from '../store/account/provider-sign-in.ts'
import { deleteRateWindows } from '../store/request/rate-window.ts'
import { hasEnding, listEnding, lockRental, readTerms, updateRental, type Rental } from '../store/rental/rental.ts'
import { listOverdue } from '../store/rental/rental-engine.ts'
import { eachOf, type Reconciler } from './loop.ts'

const BATCH = 100
const WIDTH = 4

/** Ends terms, and ends or stops rentals at the time that the customer has set. */
export function expireTerms(app: App): Reconciler {
  return {
    name: 'expire-terms',
    due: hasEnding,
    run: async () => {
      const ids = await listEnding(app.database.db, app.clock.now(), BATCH)
      await eachOf(ids, WIDTH, (id) => transact(app.database, (tx) => expireOne(app, tx, id)))
      return ids.length === BATCH
    },
  }
}

async function expireOne(app: App, tx: Tx, id: number): Promise<void> {
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
  if (termEnd === null || termEnd > now) return stopIfDue(app, tx, rental, term)
  // An Unknown rental may have stopped in the meantime. It is converted when its driver lists it again.
  if (rentalStateTable[rental.status].billing === 'paused' && rental.convert_on_expiry !== false) return
  const forcedEnd = await passTermEnd(tx, rental, now)
  if (forcedEnd !== undefined) await terminateRental(tx, rental, forcedEnd.reason, forcedEnd.at)
}

/**
 * Stops a rental whose `stopAt` has passed. Orders and changes accept `stopAt` only for rentals that can stop. A rental
 * that was reserved later can no longer stop, so its `stopAt` is cleared.
 */
async function stopIfDue(app: App, tx: Tx, rental: Rental, term: Term): Promise<void> {
  if (rental.status !== 'Running' || rental.stop_at === null || rental.stop_at > tx.clock.now()) return
  // Another server has the driver of this rental, and stops it.
  if (!app.drivers.has(rental.driver)) return
  if (powersOf(app, rental, term).stop) await beginStop(app, tx, rental, { reason: 'stop_at' })
  else await updateRental(tx, rental.id, { stop_at: null })
}

/** Fails, stops or flags rentals whose state lasts too long (`limit` in the table of states). */
export function expireStates(app: App): Reconciler {
  return {
    name: 'expire-states',
    everyMs: 15 * SECOND_MS,
    run: async () => {
      const now = app.clock.now()
      const oldestByState = rentalStates.flatMap((state) => {
        const { limit } = rentalStateTable[state]
        return limit === null ? [] : [[state, addMs(now, -limit.ms)] as const]
      })
      const oldestStartByDriver = [...app.drivers.values()].flatMap(({ id, startLimitMs }) =>
        startLimitMs === undefined ? [] : [[id, addMs(now, -startLimitMs)] as const],
      )
      const overdue = await listOverdue(
        app.database.steady,
        oldestByState,
        oldestStartByDriver,
        addMs(now, -moveLimitMs),
        BATCH,
      )
      await eachOf(overdue, WIDTH, ({ id, status }) =>
        transact(app.database, async (tx) => {
          const rental = await lockRental(tx, id)
          const { limit } = rentalStateTable[status]
          if (rental === undefined || rental.status !== status || limit === null) return
          const { past: action, reason } = limit
          // A rental whose machine was lost keeps the reason of the loss.
          if (action === 'fail') await failRental(tx, rental, rental.status_reason ?? reason)
          else if (action === 'stop') await beginStop(app, tx, rental, { reason, event: 'rental.start_failed' })
          else await flagStuck(tx, rental, reason)
        }),
      )
      return overdue.length === BATCH
    },
  }
}

export async function flagStuck(tx: Tx, rental: Rental, reason: string): Promise<void> {
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

/** Removes expired holds, stored answers past their retention, rate counters of past minutes, and old codes of people and devices. */
export function sweepExpired(app: App): Reconciler {
  return {
    name: 'sweep-expired',
    everyMs: MINUTE_MS,
    run: async () => {
      const now = app.clock.now()
      await transact(app.database, (tx) => releaseExpiredHolds(tx, BATCH))
      await deleteIdempotency(app.database.db, addMs(now, -limits.idempotencyKeptMs))
      await deleteRateWindows(app.database.db, addMs(now, -2 * MINUTE_MS))
      await deleteExpiredSignIns(app.database.db, now)
      await deleteSelfOpenedAccounts(app.database.db, addMs(now, -DAY_MS))
      const more = [await expireDeviceLogins(app), await expireOauthGrants(app), await expireEmailCodes(app)]
      return more.includes(true)
    },
  }
}

/**
 * Payments, refunds, payouts and messages of the processor. `payments` does what is due; each row is retried by itself, so one that
 * fails delays no other. `payment-events` reads messages that were not delivered: without any webhook money arrives within
 * its interval.
 */
import { addMs, DAY_MS, MINUTE_MS, type Instant } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { advanceAutomatic } from '../app/payment/advance-automatic.ts'
import { advancePayment } from '../app/payment/advance-payment.ts'
import { handleEvent } from '../app/payment/handle-event.ts'
import { advanceRefund } from '../app/payment/refund.ts'
import { advancePayout } from '../app/payout/advance-payout.ts'
import { advancePayee } from '../app/payout/payout-account.ts'
import { nextLook, ProcessorError, type Processor } from '../domain/processor.ts'
import { leasePayments, releasePayment } from '../store/payment/payment.ts'
import { leaseRefunds, releaseRefund } from '../store/payment/payment-refund.ts'
import { leasePayouts, releasePayout } from '../store/payment/payout.ts'
import { leasePayoutAccounts, releasePayoutAccount } from '../store/payment/payout-account.ts'
import {
  deleteEvents,
  finishEvent,
  leaseEvents,
  postponeEvent,
  receiveEvent,
} from '../store/payment/processor-event.ts'
import { hasPaymentWork } from '../store/payment/payment-work.ts'
import { transact } from '../store/platform/database.ts'
import { endTurn, readDoneAt, takeTurn, type Leased } from '../store/platform/lease.ts'
import { eachOf, type Reconciler } from './loop.ts'

const BATCH = 50
const WIDTH = 4
/** Longer than all calls for a row take. */
const LEASE_MS = 3 * MINUTE_MS
const EVENTS_TURN = 'payment-events'
const EVENTS_EVERY_MS = 4 * MINUTE_MS
/** Messages appear in the list a little after their time, and clocks differ. */
const OVERLAP_MS = 10 * MINUTE_MS
/** The processor lists them for 30 days. */
const LISTED_MS = 30 * DAY_MS
const KEPT_MS = 90 * DAY_MS
const DELETE_BATCH = 1_000

export function settlePayments(app: App, processor: Processor): Reconciler {
  return {
    name: 'payments',
    due: hasPaymentWork,
    run: async (signal) => {
      const passes = [events, payments, refunds, payees, payouts]
      let isMore = false
      for (const pass of passes) if (!signal.aborted) isMore = (await pass(app, processor)) || isMore
      return isMore && !signal.aborted
    },
  }
}

async function events(app: App, processor: Processor): Promise<boolean> {
  return eachLeased(app, leaseEvents, async (event, token) => {
    const { db } = app.database
    try {
      await handleEvent(app, processor, event)
      await finishEvent(db, event.id, token, app.clock.now())
    } catch (error) {
      await postponeEvent(db, event.id, token, nextLook(app.clock.now(), event.attempts), textOf(error))
      report(app, error)
    }
  })
}

async function payments(app: App, processor: Processor): Promise<boolean> {
  return eachLeased(app, leasePayments, async (payment, token) => {
    const advance = payment.kind === 'automatic' ? advanceAutomatic : advancePayment
    const dueAt = await nextOf(app, payment.attempts, () => advance(app, processor, payment))
    await releasePayment(app.database.db, payment.id, token, dueAt)
  })
}

async function refunds(app: App, processor: Processor): Promise<boolean> {
  return eachLeased(app, leaseRefunds, async (refund, token) => {
    const dueAt = await nextOf(app, refund.attempts, () => advanceRefund(app, processor, refund))
    await releaseRefund(app.database.db, refund.id, token, dueAt)
  })
}

async function payees(app: App, processor: Processor): Promise<boolean> {
  return eachLeased(app, leasePayoutAccounts, async (row, token) => {
    const dueAt = await nextOf(app, row.attempts, () => advancePayee(app, processor, row))
    await releasePayoutAccount(app.database.db, row.account_id, token, dueAt)
  })
}

async function payouts(app: App, processor: Processor): Promise<boolean> {
  return eachLeased(app, leasePayouts, async (payout, token) => {
    const dueAt = await nextOf(app, payout.attempts, () => advancePayout(app, processor, payout))
    await releasePayout(app.database.db, payout.id, token, dueAt)
  })
}

async function eachLeased<Row>(
  app: App,
  lease: (db: App['database']['db'], options: { now: Instant; leaseMs: number; limit: number }) => Promise<Leased<Row>>,
  work: (row: Row, token: string) => Promise<void>,
): Promise<boolean> {
  const options = { now: app.clock.now(), leaseMs: LEASE_MS, limit: BATCH }
  const { token, rows } = await lease(app.database.db, options)
  await eachOf(rows, WIDTH, (row) => work(row, token))
  return rows.length === BATCH
}

async function nextOf(app: App, attempts: number, work: () => Promise<Instant | null>): Promise<Instant | null> {
  try {
    return await work()
  } catch (error) {
    report(app, error)
    return nextLook(app.clock.now(), attempts)
  }
}

function report(app: App, error: unknown): void {
  app.warn?.(error, 'a step of a payment failed; it will be tried again')
}

/** The text is stored: only ours has no part of a key. */
function textOf(error: unknown): string {
  return error instanceof ProcessorError ? error.message : error instanceof Error ? error.constructor.name : 'unknown'
}

export function catchUpOnEvents(app: App, processor: Processor): Reconciler {
  return {
    name: EVENTS_TURN,
    everyMs: EVENTS_EVERY_MS,
    run: async (signal) => {
      const { db } = app.database
      const now = app.clock.now()
      const turn = await takeTurn(db, EVENTS_TURN, { now, leaseMs: EVENTS_EVERY_MS })
      if (turn === undefined) return false
      let doneAt: Instant | undefined
      try {
        const last = await readDoneAt(db, EVENTS_TURN)
        const since = addMs(last ?? addMs(now, -DAY_MS), -OVERLAP_MS)
        const oldest = addMs(now, -LISTED_MS)
        for await (const message of processor.listEvents(since > oldest ? since : oldest)) {
          if (signal.aborted) return false
          if (message.isLive === processor.isLive) await transact(app.database, (tx) => receiveEvent(tx, message))
        }
        await deleteEvents(db, addMs(now, -KEPT_MS), DELETE_BATCH)
        doneAt = now
      } finally {
        await endTurn(db, EVENTS_TURN, turn, doneAt)
      }
      return false
    },
  }
}

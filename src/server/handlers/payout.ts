/** Payouts to suppliers over HTTP. */
import { createOnce } from '../../app/idempotency.ts'
import { exportRun, settleRun } from '../../app/payout/bank-export.ts'
import { openPayeePage, payoutSettingsOf, readPayouts, setBankDetails } from '../../app/payout/payout-account.ts'
import { approveRun, cancelRun, candidateOf, detailsOf, draftRun, listCandidates } from '../../app/payout/payout-run.ts'
import type { Actor, App } from '../../app/app.ts'
import { DAY_MS } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { decimalOf } from '../../domain/bank-file.ts'
import { nextScheduledRun, usableFrom } from '../../domain/payout.ts'
import { transact, type Db } from '../../store/platform/database.ts'
import { listAlerts } from '../../store/payment/processor-event.ts'
import { listPayoutsOf, listRuns, type Payout, type RunSums } from '../../store/payment/payout.ts'
import type { Handlers } from '../http/handler.ts'
import { mapOk } from './billing.ts'

type Run = ResponseOf<Api['getPayoutRun']>

export const payoutHandlers = {
  listPayouts: (app, { actor }) => payoutsOnWire(app, actor),

  setPayoutBank: async (app, { actor, body }) => {
    const set = await transact(app.database, (tx) => setBankDetails(app, tx, actor, body))
    return set.ok ? payoutsOnWire(app, actor) : set
  },

  openPayoutPage: async (app, { actor, body }) =>
    mapOk(await openPayeePage(app, actor, body.country), (url) => ({ url })),

  listPayoutRuns: async (app) => {
    const { db } = app.database
    const candidates = await listCandidates(app, db)
    return ok({
      nextRunAt: nextScheduledRun(payoutSettingsOf(app).weekday, app.clock.now()),
      alerts: (await listAlerts(db, limits.listedPayoutRuns, 'payout')).map(
        ({ subject, account_id: accountId, detail, at }) => ({ subject, accountId, detail, at }),
      ),
      runs: (await listRuns(db, limits.listedPayoutRuns)).map(runOnWire),
      suppliers: candidates.map(({ supplier, payable, block }) => ({
        accountId: supplier.account_id,
        accountName: supplier.name,
        unpaidUsd: supplier.balance_nano,
        payableUsd: payable,
        kind: supplier.kind,
        to: supplier.hint,
        blockedBy: block ?? null,
      })),
    })
  },

  draftPayoutRun: (app, { actor }) =>
    transact(app.database, async (tx) => {
      const run = await draftRun(app, tx, actor.keyId)
      return run.ok ? readRun(tx.db, run.value.id) : run
    }),

  getPayoutRun: (app, { params }) => readRun(app.database.db, params.id),

  approvePayoutRun: (app, { actor, params }) =>
    transact(app.database, async (tx) => {
      const approved = await approveRun(app, tx, actor, params.id)
      return approved.ok ? readRun(tx.db, params.id) : approved
    }),

  cancelPayoutRun: (app, { actor, params }) =>
    transact(app.database, async (tx) => {
      const canceled = await cancelRun(tx, actor, params.id)
      return canceled.ok ? readRun(tx.db, params.id) : canceled
    }),

  exportPayoutRun: (app, { operation, actor, params, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { params, body } }, async (tx) => {
      const order = { runId: params.id, format: body.format, eurRate: body.eurRate }
      return mapOk(await exportRun(app, tx, actor, order), (file) => ({
        fileName: file.name,
        text: file.text,
        payoutsTotal: file.payouts,
        currency: file.currency,
        total: decimalOf(file.cents),
      }))
    }),

  settlePayoutRun: (app, { actor, params, body }) =>
    transact(app.database, async (tx) => {
      const settled = await settleRun(tx, actor, { runId: params.id, ...body })
      return settled.ok ? readRun(tx.db, params.id) : settled
    }),
} satisfies Partial<Handlers>

async function payoutsOnWire(app: App, actor: Actor): Promise<Result<ResponseOf<Api['listPayouts']>>> {
  const read = await readPayouts(app, actor)
  if (!read.ok) return read
  const { supplier, payouts } = read.value
  const { payable, block } = candidateOf(app, supplier)
  const { minimum, holdbackMs, weekday } = payoutSettingsOf(app)
  const details = detailsOf(supplier)
  return ok({
    unpaidUsd: supplier.balance_nano,
    payableUsd: payable,
    maturingUsd: supplier.maturing_nano,
    minimumUsd: minimum,
    holdbackDays: holdbackMs / DAY_MS,
    nextRunAt: nextScheduledRun(weekday, app.clock.now()),
    blockedBy: block ?? null,
    takesStripe: app.processor !== undefined,
    details: details && {
      kind: details.kind,
      to: supplier.hint ?? '',
      confirmed: details.isConfirmed,
      changedAt: details.changedAt,
      usableAt: usableFrom(details),
    },
    payouts: payouts.map(payoutOnWire),
  })
}

async function readRun(db: Db, id: string): Promise<Result<Run>> {
  const [sums] = await listRuns(db, 1, id)
  if (sums === undefined) return fail('payout_run_not_found')
  return ok({
    ...runOnWire(sums),
    payouts: (await listPayoutsOf(db, id)).map((payout) => ({
      ...payoutOnWire(payout),
      accountId: payout.account_id,
      accountName: payout.account_name,
      transferId: payout.transfer_id,
    })),
  })
}

function runOnWire({ run, payouts, amount, returned }: RunSums): ResponseOf<Api['listPayoutRuns']>['runs'][number] {
  const { currency, exported_cents: cents } = run
  return {
    id: run.id,
    state: run.state,
    until: run.until,
    payoutsTotal: payouts,
    amountUsd: amount,
    returnedUsd: returned,
    scheduled: run.created_by === null,
    createdAt: run.created_at,
    approvedAt: run.approved_at,
    exportedAt: run.exported_at,
    exportedAs: currency === null || cents === null ? null : `${currency} ${decimalOf(Number(cents))}`,
    endedAt: run.ended_at,
  }
}

function payoutOnWire(payout: Payout): ResponseOf<Api['listPayouts']>['payouts'][number] {
  return {
    id: payout.id,
    kind: payout.kind,
    state: payout.state,
    amountUsd: payout.amount_nano,
    returnedUsd: payout.returned_nano,
    to: payout.hint,
    failure: payout.failure,
    createdAt: payout.created_at,
    sentAt: payout.sent_at,
    endedAt: payout.ended_at,
  }
}

/**
 * Runs of payouts. A draft lists what is past the holdback and moves nothing; its approval takes the earnings, in one
 * transaction, and only then does anything leave for the processor or the bank.
 */
import { randomId } from '../../base/id.ts'
import { addMs } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { formatUsd, sumUsd, type NanoUsd } from '../../base/money.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { blockOf, payableOf, type PayoutBlock, type PayoutDetails } from '../../domain/payout.ts'
import { lockAvailable } from '../../store/ledger/ledger.ts'
import { recordEvent } from '../../store/notice/event.ts'
import * as store from '../../store/payment/payout.ts'
import { findPayoutAccount } from '../../store/payment/payout-account.ts'
import { takePayout } from '../../store/payment/payout-posting.ts'
import { raiseAlert } from '../../store/payment/processor-event.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import { payoutSettingsOf } from './payout-account.ts'

export interface Candidate {
  readonly supplier: store.Supplier
  readonly payable: NanoUsd
  /** undefined: the next run pays it. */
  readonly block: PayoutBlock | undefined
}

/** The suppliers with the largest earnings; the rest has its turn when those are paid. */
export async function listCandidates(app: App, db: Db, until = mature(app)): Promise<Candidate[]> {
  const suppliers = await store.listSuppliers(db, { until, limit: limits.payoutsPerRun })
  return suppliers.map((supplier) => candidateOf(app, supplier))
}

export function candidateOf(app: App, supplier: store.Supplier): Candidate {
  const payable = payableOf({ balance: supplier.balance_nano, maturing: supplier.maturing_nano })
  const block = blockOf(
    { payable, isSuspended: supplier.is_suspended, details: detailsOf(supplier) },
    { now: app.clock.now(), minimum: payoutSettingsOf(app).minimum, mode: app.processor?.isLive },
  )
  return { supplier, payable, block }
}

export function detailsOf(supplier: store.Supplier): PayoutDetails | null {
  const { kind, is_live: isLive, is_confirmed: isConfirmed, changed_at: changedAt } = supplier
  return kind === null || isConfirmed === null || changedAt === null ? null : { kind, isLive, isConfirmed, changedAt }
}

function mature(app: App) {
  return addMs(app.clock.now(), -payoutSettingsOf(app).holdbackMs)
}

/** `createdBy` null: the schedule asks. */
export async function draftRun(app: App, tx: Tx, createdBy: string | null): Promise<Result<store.PayoutRun>> {
  const until = mature(app)
  const ready = (await listCandidates(app, tx.db, until)).filter(({ block }) => block === undefined)
  if (ready.length === 0) return fail('nothing_to_pay_out')
  const id = randomId('prun')
  if (!(await store.insertRun(tx, { id, until, createdBy }))) return fail('payout_draft_open')
  await store.insertPayouts(
    tx,
    ready.map(({ supplier, payable }) => ({
      id: randomId('po'),
      runId: id,
      accountId: supplier.account_id,
      kind: supplier.kind ?? 'bank',
      isLive: supplier.is_live,
      amount: payable,
      hint: supplier.hint ?? '',
    })),
  )
  if (createdBy === null) {
    const amount = formatUsd(sumUsd(ready.map(({ payable }) => payable)))
    const detail = `A run of ${ready.length} payouts, ${amount} USD in all, waits for your approval`
    await raiseAlert(tx, { kind: 'payout', subject: id, accountId: null, detail })
  }
  const run = await store.findRun(tx.db, id)
  return run === undefined ? fail('payout_run_not_found') : ok(run)
}

export async function cancelRun(tx: Tx, actor: Actor, id: string): Promise<Result<true>> {
  const run = await store.lockRun(tx, id)
  if (run === undefined) return fail('payout_run_not_found')
  if (run.state !== 'draft') return fail('payout_run_not_draft')
  const payouts = await store.lockPayoutsOf(tx, id)
  await store.cancelPayouts(
    tx,
    payouts.map((payout) => payout.id),
    null,
  )
  await store.cancelRun(tx, id)
  await writeAudit(tx, { actor: actor.keyId, action: 'payout.cancel', subject: id })
  return ok(true)
}

/**
 * Takes the earnings of every payout of a draft. What has changed since the draft, such as details or a charge that was
 * taken back, takes its payout out of the run: an operator approves the amounts that were shown, or none.
 */
export async function approveRun(app: App, tx: Tx, actor: Actor, id: string): Promise<Result<true>> {
  const run = await store.lockRun(tx, id)
  if (run === undefined) return fail('payout_run_not_found')
  if (run.state !== 'draft') return fail('payout_run_not_draft')
  const payouts = await store.lockPayoutsOf(tx, id)
  await lockAvailable(
    tx,
    payouts.map((payout) => payout.account_id),
  )
  const paidOut: store.Payout[] = []
  for (const payout of payouts) {
    const change = await take(app, tx, actor, run, payout)
    if (change === undefined) paidOut.push(payout)
    else await store.cancelPayouts(tx, [payout.id], change)
  }
  if (paidOut.length === 0) {
    await store.cancelRun(tx, id)
    return ok(true)
  }
  await store.approveRun(tx, id, actor.keyId)
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'payout.approve',
    subject: id,
    detail: { payouts: paidOut.length, amountUsd: formatUsd(sumUsd(paidOut.map((payout) => payout.amount_nano))) },
  })
  tx.wake.add('payments')
  return ok(true)
}

/** Returns why a payout is not made. undefined: its earnings are taken. The balances are locked. */
async function take(
  app: App,
  tx: Tx,
  actor: Actor,
  run: store.PayoutRun,
  payout: store.Payout,
): Promise<string | undefined> {
  const { account_id: accountId } = payout
  const [supplier] = await store.listSuppliers(tx.db, { until: run.until, limit: 1, accountId })
  const details = await findPayoutAccount(tx.db, accountId)
  if (supplier === undefined || details === undefined) return 'no_details'
  const { payable, block } = candidateOf(app, supplier)
  if (block !== undefined && block !== 'below_minimum') return block
  if (details.kind !== payout.kind || details.hint !== payout.hint) return 'details_changed'
  if (payable < payout.amount_nano) return 'earnings_changed'
  return (await takePayout(tx, payout, details, actor.keyId)) ? undefined : 'earnings_changed'
}

/** The operator's word about a bank transfer, or that it came back. */
export function announcePayout(tx: Tx, payout: store.Payout, outcome: 'paid' | 'failed', amount: NanoUsd): void {
  recordEvent(tx, {
    accountId: payout.account_id,
    type: outcome === 'paid' ? 'payout.paid' : 'payout.failed',
    subject: { kind: 'balance', id: payout.account_id },
    data: { payoutId: payout.id, amountUsd: formatUsd(amount), to: payout.hint },
  })
}

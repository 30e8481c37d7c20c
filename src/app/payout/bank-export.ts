/** Payouts by bank: the file of a run, which is written once, and what the operator says became of it. */
import { formatUsd, nanoUsdOf } from '../../base/money.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import type { BankAccount } from '../../domain/bank-account.ts'
import { convertCents, sumCents, writeCsv, writePain001, type BankFile } from '../../domain/bank-file.ts'
import * as store from '../../store/payment/payout.ts'
import { returnPayout } from '../../store/payment/payout-posting.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import { payoutSettingsOf } from './payout-account.ts'
import { announcePayout } from './payout-run.ts'

export interface ExportOrder {
  readonly runId: string
  readonly format: 'csv' | 'pain.001'
  /** EUR for one USD. undefined: the file is in USD. */
  readonly eurRate: string | undefined
}

export interface ExportedFile {
  readonly name: string
  readonly text: string
  readonly payouts: number
  readonly currency: 'USD' | 'EUR'
  readonly cents: number
}

/** A second file would pay everybody twice, so there is none; only the same request gets the same answer again. */
export async function exportRun(app: App, tx: Tx, actor: Actor, order: ExportOrder): Promise<Result<ExportedFile>> {
  const { runId, format, eurRate: rate = null } = order
  const { debtor } = payoutSettingsOf(app)
  const run = await store.lockRun(tx, runId)
  if (run === undefined) return fail('payout_run_not_found')
  if (run.exported_at !== null) return fail('payout_run_exported')
  if (run.approved_at === null) return fail('payout_run_not_approved')
  if (format === 'pain.001' && debtor === null) return failField(['format'], 'no_debtor_account')
  const waiting = (await store.lockPayoutsOf(tx, runId)).filter(
    ({ kind, state }) => kind === 'bank' && state === 'approved',
  )
  if (waiting.length === 0) return fail('nothing_to_export')
  const payments = waiting.map((payout) => ({
    payoutId: payout.id,
    cents: convertCents(payout.amount_nano, rate),
    account: JSON.parse(app.vault.open(payout.details_sealed ?? '')) as BankAccount,
  }))
  if (payments.some(({ cents }) => cents === 0)) return failField(['eurRate'], 'rate_too_low')
  const currency = rate === null ? 'USD' : 'EUR'
  const file: BankFile = { runId, at: tx.clock.now(), currency, payments }
  const text = format === 'csv' || debtor === null ? writeCsv(file) : writePain001(file, debtor)
  const lines = payments.map(({ payoutId: id, cents }) => ({ id, cents }))
  await store.saveExport(tx, { runId, by: actor.keyId, format, currency, rate, lines })
  await store.refreshRun(tx, runId)
  const cents = sumCents(payments)
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'payout.export',
    subject: runId,
    detail: { payouts: payments.length, format, currency, cents },
  })
  const name = `${runId}.${format === 'csv' ? 'csv' : 'xml'}`
  return ok({ name, text, payouts: payments.length, currency, cents })
}

export interface SettleOrder {
  readonly runId: string
  readonly outcome: 'paid' | 'failed'
  /** undefined: all that were exported and not settled yet. */
  readonly payoutIds?: readonly string[] | undefined
  readonly reason: string
}

/** A transfer that the bank returns later can still be settled as failed after it was settled as paid. */
export async function settleRun(tx: Tx, actor: Actor, order: SettleOrder): Promise<Result<number>> {
  const { runId, outcome, payoutIds, reason } = order
  if ((await store.lockRun(tx, runId)) === undefined) return fail('payout_run_not_found')
  const payouts = await store.lockPayoutsOf(tx, runId)
  const named = payouts.filter(({ id, kind, state }) =>
    payoutIds === undefined ? kind === 'bank' && state === 'sent' : payoutIds.includes(id),
  )
  if (payoutIds !== undefined && named.length < new Set(payoutIds).size)
    return failField(['payoutIds'], 'payout_not_found')
  const allowed = outcome === 'paid' ? ['sent'] : ['sent', 'paid']
  if (named.length === 0) return fail('nothing_to_settle')
  if (named.some(({ kind, state }) => kind !== 'bank' || !allowed.includes(state))) return fail('payout_not_exported')
  if (outcome === 'paid') {
    const ids = named.map(({ id }) => id)
    await store.markPaid(tx, ids)
  }
  for (const payout of named) {
    const amount = nanoUsdOf(payout.amount_nano - payout.returned_nano)
    if (outcome === 'failed') await returnPayout(tx, payout, { id: `${payout.id}:failed`, amount, failure: reason })
    announcePayout(tx, payout, outcome, amount)
    await writeAudit(tx, {
      actor: actor.keyId,
      action: outcome === 'paid' ? 'payout.paid' : 'payout.failed',
      accountId: payout.account_id,
      subject: payout.id,
      reason,
      detail: { amountUsd: formatUsd(amount) },
    })
  }
  await store.refreshRun(tx, runId)
  return ok(named.length)
}

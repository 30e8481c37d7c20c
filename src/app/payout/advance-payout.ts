/**
 * Carries out a payout through the processor: sends the transfer, reads it back, and books what was reversed. A kill between
 * any two steps leaves the row for the loop, which first looks for the transfer that an earlier pass may have made.
 */
import { addMs, HOUR_MS, type Instant } from '../../base/instant.ts'
import { formatUsd, nanoUsdOf } from '../../base/money.ts'
import { centsOf, usdOfCents } from '../../domain/payment.ts'
import { usableFrom } from '../../domain/payout.ts'
import { nextLook, ProcessorError, type Processor } from '../../domain/processor.ts'
import { faultOfTransfer, type TransferFacts } from '../../domain/transfer.ts'
import * as store from '../../store/payment/payout.ts'
import { returnPayout } from '../../store/payment/payout-posting.ts'
import { raiseAlert } from '../../store/payment/processor-event.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { App } from '../app.ts'
import { savePayeeNow } from './payout-account.ts'
import { announcePayout } from './payout-run.ts'

/** Money for payouts comes from payments or the operator's bank, which takes hours at least. */
const WAIT_MS = HOUR_MS

/** Returns when to look again. null: only an event can change anything. Throws what is worth trying again. */
export async function advancePayout(app: App, processor: Processor, payout: store.Payout): Promise<Instant | null> {
  if (payout.is_live !== processor.isLive) return null
  if (payout.state === 'approved') return send(app, processor, payout)
  if (payout.transfer_id === null) return null
  const transfer = await processor.readTransfer(payout.transfer_id)
  if (transfer === undefined) throw new ProcessorError('transfer_is_gone', false)
  return conclude(app, payout.id, transfer)
}

async function send(app: App, processor: Processor, payout: store.Payout): Promise<Instant | null> {
  const now = app.clock.now()
  const { id, run_id: runId } = payout
  const earlier = await processor.findTransfer(id)
  if (earlier === undefined) {
    const wait = await waitOf(app, processor, payout)
    if (wait !== undefined) return hold(app, payout, wait, false)
  }
  const transfer = earlier ?? (await transferTo(app, processor, payout))
  if (transfer === null) return null
  if (transfer === undefined) return hold(app, payout, 'balance_insufficient', true)
  await transact(app.database, async (tx) => {
    await store.lockRun(tx, runId)
    if ((await store.lockPayout(tx, id))?.state !== 'approved') return
    await store.markSent(tx, id, transfer.id, nextLook(now, 1))
    await store.refreshRun(tx, runId)
  })
  return nextLook(now, 1)
}

async function hold(app: App, payout: store.Payout, failure: string, isRefused: boolean): Promise<Instant> {
  await store.noteWait(app.database.db, payout.id, failure, isRefused)
  return addMs(app.clock.now(), WAIT_MS)
}

/** Why the supplier cannot be paid now, as the processor knows it at this moment. */
async function waitOf(app: App, processor: Processor, payout: store.Payout): Promise<string | undefined> {
  const payee = await processor.readPayee(payout.destination ?? '')
  if (payee === undefined || !payee.isConfirmed) return 'not_confirmed'
  const current = await transact(app.database, (tx) => savePayeeNow(app, tx, payout.account_id, payee))
  return current !== undefined && app.clock.now() < usableFrom({ changedAt: current.changed_at })
    ? 'details_changed'
    : undefined
}

/** undefined: the processor has too little money. null: it refuses for good, and the earnings are back. */
async function transferTo(
  app: App,
  processor: Processor,
  payout: store.Payout,
): Promise<TransferFacts | null | undefined> {
  const { id, refusals, destination } = payout
  const cents = centsOf(payout.amount_nano) ?? 0
  const key = refusals === 0 ? id : `${id}:${refusals}`
  try {
    return await processor.createTransfer({ id, key, payeeId: destination ?? '', cents })
  } catch (error) {
    if (!(error instanceof ProcessorError && error.isFinal)) throw error
    await transact(app.database, async (tx) => {
      await store.lockRun(tx, payout.run_id)
      const locked = await store.lockPayout(tx, id)
      if (locked?.state === 'approved') await fail(tx, locked, { id: `${id}:failed`, failure: error.message })
    })
    return null
  }
}

/** Books what the processor shows of a transfer: it is paid, or a part of it came back. */
async function conclude(app: App, payoutId: string, transfer: TransferFacts): Promise<null> {
  await transact(app.database, async (tx) => {
    const named = await store.findPayout(tx.db, payoutId)
    if (named === undefined) return
    await store.lockRun(tx, named.run_id)
    const payout = await store.lockPayout(tx, payoutId)
    if (payout === undefined || payout.transfer_id !== transfer.id) return
    const fault = faultOfTransfer(
      {
        id: payout.id,
        isLive: payout.is_live ?? false,
        payeeId: payout.destination,
        cents: centsOf(payout.amount_nano) ?? 0,
      },
      transfer,
    )
    if (fault !== undefined) {
      const detail = `A payout of ${formatUsd(payout.amount_nano)} USD: ${fault}`
      return raiseAlert(tx, { kind: 'payout', subject: payout.id, accountId: payout.account_id, detail })
    }
    if (payout.state === 'sent' && transfer.reversals.length === 0) {
      await store.markPaid(tx, [payout.id])
      announcePayout(tx, payout, 'paid', payout.amount_nano)
    }
    await bookReversals(tx, payout, transfer)
    await store.refreshRun(tx, payout.run_id)
  })
  return null
}

async function bookReversals(tx: Tx, payout: store.Payout, transfer: TransferFacts): Promise<void> {
  for (const { id, cents } of transfer.reversals) {
    const locked = await store.lockPayout(tx, payout.id)
    if (locked === undefined) return
    const amount = usdOfCents(cents)
    if (locked.returned_nano + amount > locked.amount_nano) continue
    if (await returnPayout(tx, locked, { id, amount, failure: 'reversed' })) {
      announcePayout(tx, locked, 'failed', amount)
      const detail = `${formatUsd(amount)} USD of a payout came back, and is in the earnings again`
      await raiseAlert(tx, { kind: 'payout', subject: id, accountId: locked.account_id, detail })
    }
  }
  // The supplier has the part that was not reversed.
  const current = await store.lockPayout(tx, payout.id)
  if (current?.state === 'sent') await store.markPaid(tx, [current.id])
}

async function fail(
  tx: Tx,
  payout: store.Payout,
  back: { readonly id: string; readonly failure: string },
): Promise<void> {
  const amount = nanoUsdOf(payout.amount_nano - payout.returned_nano)
  if (!(await returnPayout(tx, payout, { ...back, amount }))) return
  announcePayout(tx, payout, 'failed', amount)
  const detail = `A payout of ${formatUsd(amount)} USD failed, and is in the earnings again. ${back.failure}`
  await raiseAlert(tx, { kind: 'payout', subject: payout.id, accountId: payout.account_id, detail })
  await store.refreshRun(tx, payout.run_id)
}

/** A message about a transfer. One that Berth did not make is found by the daily comparison. */
export async function advanceTransfer(app: App, processor: Processor, transferId: string): Promise<void> {
  const { db } = app.database
  const byTransfer = await store.findPayoutOf(db, transferId)
  const transfer = await processor.readTransfer(transferId)
  if (transfer === undefined || transfer.isLive !== processor.isLive) return
  const payout = byTransfer ?? (transfer.payoutId === null ? undefined : await store.findPayout(db, transfer.payoutId))
  if (payout === undefined) return
  // The answer to its creation was lost.
  if (payout.state === 'approved') await advancePayout(app, processor, payout)
  await conclude(app, payout.id, transfer)
}

/**
 * The details to which a supplier is paid. Every change is told to all owners of the account, and waits for three days before anything is
 * paid to it, so that whoever takes over an account cannot take its earnings unnoticed.
 */
import { addMs, DAY_MS, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import {
  bankHint,
  readAccountNumber,
  readBic,
  readIban,
  readRoutingNumber,
  type BankAccount,
} from '../../domain/bank-account.ts'
import { CHANGED_DETAILS_WAIT_MS, defaultPayoutSettings, type PayoutSettings } from '../../domain/payout.ts'
import { nextLook, type Processor } from '../../domain/processor.ts'
import { payeeCountries, type Payee } from '../../domain/transfer.ts'
import { findAccount } from '../../store/account/account.ts'
import { recordEvent } from '../../store/notice/event.ts'
import { listPayoutsTo, listSuppliers, type Payout, type Supplier } from '../../store/payment/payout.ts'
import {
  findPayoutAccount,
  findPayoutAccountOf,
  listOwners,
  lockPayoutAccount,
  saveBankDetails,
  savePayee,
  savePayeeFacts,
  wakePayoutAccount,
  type PayoutAccount,
} from '../../store/payment/payout-account.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import { requireOwner } from '../account/account.ts'
import type { Actor, App } from '../app.ts'
import { queueTemplateMail } from '../person/template-mail.ts'

export function payoutSettingsOf({ payouts }: App): PayoutSettings {
  return payouts ?? defaultPayoutSettings
}

export interface PayoutOverview {
  readonly supplier: Supplier
  readonly payouts: readonly Payout[]
}

export async function readPayouts(app: App, actor: Actor): Promise<Result<PayoutOverview>> {
  const { db } = app.database
  const until = addMs(app.clock.now(), -payoutSettingsOf(app).holdbackMs)
  const [supplier] = await listSuppliers(db, { until, limit: 1, accountId: actor.accountId })
  if (supplier === undefined) return fail('account_not_found')
  return ok({ supplier, payouts: await listPayoutsTo(db, actor.accountId, limits.listedPayouts) })
}

export interface BankOrder {
  readonly holder: string
  readonly iban?: string | undefined
  readonly bic?: string | undefined
  readonly accountNumber?: string | undefined
  readonly routingNumber?: string | undefined
}

export async function setBankDetails(app: App, tx: Tx, actor: Actor, order: BankOrder): Promise<Result<true>> {
  const refused = await refuseSetUp(tx, actor)
  if (refused !== undefined) return refused
  const account = readBankAccount(order)
  if (!account.ok) return account
  const hint = bankHint(account.value)
  await saveBankDetails(
    tx,
    { accountId: actor.accountId, changedBy: actor.keyId },
    { detailsSealed: app.vault.seal(JSON.stringify(account.value)), hint },
  )
  await announceChange(app, tx, actor.accountId, { hint, actor: actor.keyId })
  return ok(true)
}

async function refuseSetUp(tx: Tx, actor: Actor): Promise<Failure | undefined> {
  const account = await findAccount(tx.db, actor.accountId)
  if (account === undefined || account.platform_fee_bp === null) return fail('not_a_supplier')
  return requireOwner(tx, actor, 'change where earnings are paid')
}

function readBankAccount(order: BankOrder): Result<BankAccount> {
  const holder = order.holder.trim()
  if (order.iban !== undefined) {
    if (order.accountNumber !== undefined) return failField(['accountNumber'], 'two_bank_accounts')
    const iban = readIban(order.iban)
    if (iban === undefined) return failField(['iban'], 'bad_iban')
    const bic = order.bic === undefined ? null : readBic(order.bic)
    return bic === undefined ? failField(['bic'], 'bad_bic') : ok({ holder, iban, bic })
  }
  if (order.accountNumber === undefined) return failField(['iban'], 'no_bank_account')
  const accountNumber = readAccountNumber(order.accountNumber)
  if (accountNumber === undefined) return failField(['accountNumber'], 'bad_account_number')
  const routingNumber = readRoutingNumber(order.routingNumber ?? '')
  return routingNumber === undefined
    ? failField(['routingNumber'], 'bad_routing_number')
    : ok({ holder, accountNumber, routingNumber })
}

/** A page of the processor on which the supplier enters its details. The connected account is created at first use. */
export async function openPayeePage(app: App, actor: Actor, country: string | undefined): Promise<Result<string>> {
  const { processor, database } = app
  if (processor === undefined) return fail('payments_off')
  const refused = await transact(database, (tx) => refuseSetUp(tx, actor))
  if (refused !== undefined) return refused
  if (country !== undefined && !payeeCountries.includes(country)) return failField(['country'], 'payout_country')
  try {
    const row = await payeeOf(app, processor, actor, country ?? null)
    return ok(await processor.openPayeePage(row.stripe_id ?? '', row.is_confirmed))
  } catch (error) {
    app.warn?.(error, "the processor's page for payout details could not be opened")
    return fail('payments_unavailable')
  }
}

async function payeeOf(app: App, processor: Processor, actor: Actor, country: string | null): Promise<PayoutAccount> {
  const { database } = app
  const { accountId, keyId } = actor
  const { isLive } = processor
  const account = await findPayoutAccount(database.db, accountId)
  const hasPayee = account?.stripe_id !== null && account?.is_live === isLive
  if (account?.kind === 'stripe' && hasPayee) return account
  const id =
    (hasPayee ? account.stripe_id : null) ??
    (await processor.createPayee({ key: `payee:${accountId}:${country ?? ''}`, accountId, country }))
  return transact(database, async (tx) => {
    const locked = await lockPayoutAccount(tx, accountId)
    // Another request may have been here.
    if (locked?.kind !== 'stripe' || locked.is_live !== isLive) {
      await savePayee(tx, { accountId, changedBy: keyId }, { id, isLive, country })
      await announceChange(app, tx, accountId, { hint: 'Stripe', actor: keyId })
    }
    const saved = await findPayoutAccount(tx.db, accountId)
    if (saved === undefined) throw new Error(`the payout details of ${accountId} were not saved`)
    return saved
  })
}

/** Reads the connected account. Returns when to look again: the bank account behind it may change there at any time. */
export async function advancePayee(app: App, processor: Processor, row: PayoutAccount): Promise<Instant | null> {
  const { stripe_id: payeeId } = row
  if (row.kind !== 'stripe' || payeeId === null || row.is_live !== processor.isLive) return null
  const payee = await processor.readPayee(payeeId)
  const now = app.clock.now()
  if (payee === undefined) return addMs(now, DAY_MS)
  await transact(app.database, (tx) => savePayeeNow(app, tx, row.account_id, payee))
  return payee.isConfirmed ? addMs(now, DAY_MS) : nextLook(now, row.attempts)
}

/** Returns the row as it is now. undefined: the supplier has chosen something else meanwhile. */
export async function savePayeeNow(
  app: App,
  tx: Tx,
  accountId: string,
  payee: Payee,
): Promise<PayoutAccount | undefined> {
  const locked = await lockPayoutAccount(tx, accountId)
  if (locked?.kind !== 'stripe' || locked.stripe_id !== payee.id) return undefined
  const isChanged = locked.fingerprint !== payee.fingerprint
  await savePayeeFacts(tx, accountId, payee, isChanged)
  if (isChanged) {
    const hint = payee.last4 === null ? 'Stripe' : `Stripe …${payee.last4}`
    await announceChange(app, tx, accountId, { hint, actor: 'payments' })
  }
  return findPayoutAccount(tx.db, accountId)
}

export async function wakePayee(app: App, payeeId: string): Promise<void> {
  const row = await findPayoutAccountOf(app.database.db, payeeId)
  if (row !== undefined) await transact(app.database, (tx) => wakePayoutAccount(tx, row.account_id))
}

async function announceChange(
  app: App,
  tx: Tx,
  accountId: string,
  { hint, actor }: { readonly hint: string; readonly actor: string },
): Promise<void> {
  const at = tx.clock.now()
  await writeAudit(tx, { actor, action: 'payout.details', accountId, subject: accountId, detail: { to: hint } })
  recordEvent(tx, {
    accountId,
    type: 'payout.details_changed',
    subject: { kind: 'balance', id: accountId },
    data: { to: hint },
  })
  if (app.mailer === undefined) return
  const usableAt = addMs(at, CHANGED_DETAILS_WAIT_MS)
  for (const { email, accountName } of await listOwners(tx.db, accountId)) {
    await queueTemplateMail(app, tx, {
      to: email,
      mail: { template: 'payout-details', accountName, hint, at, usableAt },
    })
  }
}

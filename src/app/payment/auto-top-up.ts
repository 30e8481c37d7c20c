/** Automatic top-ups: what the customer sets, and the start of a charge. What follows is in advance-automatic.ts. */
import { randomId } from '../../base/id.ts'
import { addMs, formatInstant, startOfNextMonth, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { formatUsd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { CHARGE_WITHIN_MS } from '../../domain/auto-top-up.ts'
import { cardText, consentText, type AutoTopUpTerms } from '../../domain/auto-top-up-terms.ts'
import { centsOf, MAX_TOP_UP, MIN_TOP_UP } from '../../domain/payment.ts'
import type { Processor } from '../../domain/processor.ts'
import { recordEvent } from '../../store/notice/event.ts'
import * as store from '../../store/payment/auto-top-up.ts'
import { findCustomer } from '../../store/payment/payment.ts'
import { findCard, holdCard, listCards, type SavedCard } from '../../store/payment/saved-card.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'

export interface AutoTopUpView {
  readonly wish: store.AutoTopUp | undefined
  readonly card: SavedCard | undefined
  readonly charged: NanoUsd
}

export async function readAutoTopUp({ database: { db }, clock }: App, accountId: string): Promise<AutoTopUpView> {
  const wish = await store.findAutoTopUp(db, accountId)
  if (wish === undefined) return { wish, card: undefined, charged: zeroUsd }
  return {
    wish,
    card: await findCard(db, wish.card_id),
    charged: await store.sumOfMonth(db, accountId, clock.now()),
  }
}

export interface AutoTopUpOrder extends AutoTopUpTerms {
  /** undefined: the newest. */
  readonly cardId: string | undefined
  /** The address that the consent comes from. undefined: unknown. */
  readonly address: string | undefined
}

export async function setAutoTopUp(app: App, tx: Tx, actor: Actor, order: AutoTopUpOrder): Promise<Result<true>> {
  const { processor } = app
  if (processor === undefined) return fail('payments_off')
  const fault = faultOf(order)
  if (fault !== undefined) return fault
  const cards = await listCards(tx.db, actor.accountId, processor.isLive, limits.savedCards)
  const card = order.cardId === undefined ? cards[0] : cards.find(({ id }) => id === order.cardId)
  if (card === undefined)
    return order.cardId === undefined ? fail('no_saved_card') : failField(['cardId'], 'card_not_found')
  if (!(await holdCard(tx, card.id))) return failField(['cardId'], 'card_not_found')
  const text = consentText(order, cardText(card))
  await store.saveAutoTopUp(tx, {
    accountId: actor.accountId,
    below: order.below,
    amount: order.amount,
    cap: order.cap,
    cardId: card.id,
    consent: { personId: actor.personId, keyId: actor.keyId, text, address: order.address ?? null },
  })
  // The row has the newest consent only; charges before it had another.
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'auto_top_up.set',
    accountId: actor.accountId,
    subject: actor.accountId,
    detail: { consent: text, person: actor.personId, card: card.id, address: order.address ?? null },
  })
  tx.wake.add('auto-top-up')
  return ok(true)
}

function faultOf({ below, amount, cap }: AutoTopUpTerms): Failure | undefined {
  if (centsOf(below) === undefined) return failField(['belowUsd'], 'not_whole_cents')
  if (centsOf(amount) === undefined) return failField(['amountUsd'], 'not_whole_cents')
  if (centsOf(cap) === undefined) return failField(['monthlyCapUsd'], 'not_whole_cents')
  if (amount < MIN_TOP_UP || amount > MAX_TOP_UP)
    return failField(['amountUsd'], 'top_up_range', { min: MIN_TOP_UP, max: MAX_TOP_UP })
  if (amount < below) return failField(['amountUsd'], 'top_up_below_threshold')
  if (cap < amount) return failField(['monthlyCapUsd'], 'cap_below_top_up')
  return undefined
}

export async function stopAutoTopUp(tx: Tx, actor: Actor): Promise<void> {
  if (!(await store.switchOff(tx, actor.accountId, null))) return
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'auto_top_up.off',
    accountId: actor.accountId,
    subject: actor.accountId,
  })
}

/** Berth itself switches it off, and says so. Nothing happens if it is off. */
export async function turnOff(tx: Tx, accountId: string, reason: store.OffReason): Promise<void> {
  if (await store.switchOff(tx, accountId, reason)) announceOff(tx, accountId, { reason })
}

export function announceOff(tx: Tx, accountId: string, data: { readonly reason: store.OffReason }): void {
  recordEvent(tx, {
    accountId,
    type: 'balance.auto_top_up_off',
    subject: { kind: 'balance', id: accountId },
    data: { ...data },
  })
}

/** Writes the attempt of an account that needs one. The loop `payments` carries it out. */
export async function startAttempt(app: App, processor: Processor, accountId: string): Promise<void> {
  await transact(app.database, async (tx) => {
    const wish = await store.lockDue(tx, accountId, processor.isLive)
    if (wish === undefined) return
    const now = tx.clock.now()
    const charged = await store.sumOfMonth(tx.db, accountId, now)
    if (charged + wish.amount_nano > wish.cap_nano) return pause(tx, wish, now)
    const customerId = await findCustomer(tx.db, accountId, processor.isLive)
    // A card is saved with its customer.
    if (customerId === undefined) throw new Error(`the account ${accountId} has a card and no customer`)
    await store.insertAttempt(tx, wish, {
      id: randomId('pay'),
      isLive: processor.isLive,
      customerId,
      expiresAt: addMs(now, CHARGE_WITHIN_MS),
    })
  })
}

/** The cap has no room for another charge this month. */
export async function pause(tx: Tx, wish: store.AutoTopUp, now: Instant): Promise<void> {
  const until = startOfNextMonth(now)
  if (!(await store.pauseUntil(tx, wish.account_id, until))) return
  recordEvent(tx, {
    accountId: wish.account_id,
    type: 'balance.auto_top_up_paused',
    subject: { kind: 'balance', id: wish.account_id },
    data: { monthlyCapUsd: formatUsd(wish.cap_nano), until: formatInstant(until) },
  })
}

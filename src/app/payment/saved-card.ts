/** Saved cards: listed from Berth's rows, removed at the processor first, and managed on its page. */
import { limits } from '../../base/limits.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { findCard, listCards, removeCard, type SavedCard } from '../../store/payment/saved-card.ts'
import { findAutoTopUp } from '../../store/payment/auto-top-up.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import { turnOff } from './auto-top-up.ts'
import { customerOf } from './advance-payment.ts'

export async function readCards({ processor, database: { db } }: App, actor: Actor): Promise<SavedCard[]> {
  return processor === undefined ? [] : listCards(db, actor.accountId, processor.isLive, limits.savedCards)
}

/** The processor is asked first: a card that is not listed here is one that nobody can charge. */
export async function deleteCard(app: App, actor: Actor, id: string): Promise<Result<SavedCard>> {
  const { processor, database } = app
  const card = await findCard(database.db, id)
  if (card === undefined || card.account_id !== actor.accountId || card.removed_at !== null)
    return fail('card_not_found')
  if (processor === undefined) return fail('payments_off')
  if (card.is_live === processor.isLive) {
    try {
      await processor.detachCard(id)
    } catch (error) {
      app.warn?.(error, 'a card could not be removed')
      return fail('payments_unavailable')
    }
  }
  await transact(database, (tx) => forgetCard(tx, id))
  return ok(card)
}

/** The processor no longer has the card: nothing is charged to it, also not automatically. */
export async function forgetCard(tx: Tx, id: string): Promise<void> {
  const card = await removeCard(tx, id)
  if (card === undefined) return
  const wish = await findAutoTopUp(tx.db, card.account_id)
  if (wish?.card_id === id) await turnOff(tx, card.account_id, 'card_removed')
}

export async function openPortal(app: App, actor: Actor): Promise<Result<string>> {
  const { processor } = app
  if (processor === undefined) return fail('payments_off')
  try {
    return ok(await processor.createPortal(await customerOf(app, processor, actor.accountId)))
  } catch (error) {
    app.warn?.(error, "the processor's page for cards could not be opened")
    return fail('payments_unavailable')
  }
}

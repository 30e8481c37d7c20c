/** Cards that customers saved at the processor. */
import type { Selectable } from 'kysely'
import { toDate } from '../../base/instant.ts'
import type { Card } from '../../domain/processor.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type SavedCard = Selectable<Tables['saved_card']>

export async function saveCard(tx: Tx, accountId: string, isLive: boolean, card: Card): Promise<void> {
  await tx.db
    .insertInto('saved_card')
    .values({
      id: card.id,
      account_id: accountId,
      is_live: isLive,
      brand: card.brand,
      last4: card.last4,
      fingerprint: card.fingerprint,
      exp_month: card.expMonth,
      exp_year: card.expYear,
      saved_at: toDate(tx.clock.now()),
    })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** Lists what can be charged, the newest first. The processor's other mode has cards of its own. */
export async function listCards(db: Db, accountId: string, isLive: boolean, limit: number): Promise<SavedCard[]> {
  return db
    .selectFrom('saved_card')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('is_live', '=', isLive)
    .where('removed_at', 'is', null)
    .orderBy('saved_at', 'desc')
    .orderBy('id')
    .limit(limit)
    .execute()
}

export async function findCard(db: Db, id: string): Promise<SavedCard | undefined> {
  return db.selectFrom('saved_card').selectAll().where('id', '=', id).executeTakeFirst()
}

/** Keeps the card as it is until the transaction ends. False: it was removed. */
export async function holdCard(tx: Tx, id: string): Promise<boolean> {
  const row = await tx.db
    .selectFrom('saved_card')
    .select('id')
    .where('id', '=', id)
    .where('removed_at', 'is', null)
    .forShare()
    .executeTakeFirst()
  return row !== undefined
}

/** The card cannot be charged any more. Returns it if it could be until now. */
export async function removeCard(tx: Tx, cardId: string): Promise<SavedCard | undefined> {
  return tx.db
    .updateTable('saved_card')
    .set({ removed_at: toDate(tx.clock.now()) })
    .where('id', '=', cardId)
    .where('removed_at', 'is', null)
    .returningAll()
    .executeTakeFirst()
}

/** Cards that are saved without a payment, on a page of the processor. */
import { sql, type Selectable } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { DueWork } from '../platform/due-work.ts'
import { hasDue, leaseDue, noLease, releaseLease, type Leased, type LeaseOptions } from '../platform/lease.ts'
import type { Tables } from '../platform/tables.ts'

export type CardSetup = Selectable<Tables['card_setup']>

const all = sql`true`

export interface NewCardSetup {
  readonly id: string
  readonly accountId: string
  readonly personId: string
  /** null: unknown. */
  readonly network: string | null
  readonly isLive: boolean
  readonly dueAt: Instant
  readonly expiresAt: Instant
}

export async function insertCardSetup(tx: Tx, setup: NewCardSetup): Promise<void> {
  await tx.db
    .insertInto('card_setup')
    .values({
      id: setup.id,
      account_id: setup.accountId,
      person_id: setup.personId,
      network: setup.network,
      is_live: setup.isLive,
      state: 'open',
      due_at: toDate(setup.dueAt),
      created_at: toDate(tx.clock.now()),
      expires_at: toDate(setup.expiresAt),
    })
    .execute()
}

export async function findCardSetup(db: Db, id: string, accountId?: string): Promise<CardSetup | undefined> {
  let query = db.selectFrom('card_setup').selectAll().where('id', '=', id)
  if (accountId !== undefined) query = query.where('account_id', '=', accountId)
  return query.executeTakeFirst()
}

export async function findCardSetupOf(
  db: Db,
  ids: { readonly sessionId?: string; readonly reference?: string | null },
): Promise<CardSetup | undefined> {
  const { rows } = await sql<CardSetup>`
    select * from card_setup where session_id = ${ids.sessionId ?? null} or id = ${ids.reference ?? null} limit 1`.execute(
    db,
  )
  return rows[0]
}

export async function lockCardSetup(tx: Tx, id: string): Promise<CardSetup | undefined> {
  return tx.db.selectFrom('card_setup').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

/** Pages of the account on which a card can still be entered. */
export async function countOpenSetups(tx: Tx, accountId: string): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(*)::integer as n from card_setup
    where account_id = ${accountId} and state = 'open' and expires_at > ${toDate(tx.clock.now())}`.execute(tx.db)
  return rows[0]?.n ?? 0
}

/** The session that the processor says was created for it. It is written once. */
export async function saveSetupSession(
  db: Db,
  id: string,
  session: { readonly sessionId: string; readonly url: string | null; readonly customerId: string },
): Promise<void> {
  await db
    .updateTable('card_setup')
    .set({ session_id: session.sessionId, session_url: session.url, customer_id: session.customerId })
    .where('id', '=', id)
    .where('session_id', 'is', null)
    .execute()
}

export async function endCardSetup(
  tx: Tx,
  id: string,
  state: Exclude<CardSetup['state'], 'open'>,
  failure: string | null,
): Promise<void> {
  await tx.db
    .updateTable('card_setup')
    .set({ state, failure: failure?.slice(0, 500) ?? null })
    .where('id', '=', id)
    .where('state', '<>', 'done')
    .execute()
}

/** An event may be about it: the loop looks at once. */
export async function wakeCardSetup(tx: Tx, id: string): Promise<void> {
  await tx.db
    .updateTable('card_setup')
    .set({ ...noLease, due_at: toDate(tx.clock.now()) })
    .where('id', '=', id)
    .where('state', '<>', 'done')
    .execute()
  tx.wake.add('payments')
}

export const hasDueCardSetup: DueWork = ({ now }) => hasDue('card_setup', all, now)

export async function leaseCardSetups(db: Db, options: LeaseOptions): Promise<Leased<CardSetup>> {
  return leaseDue(db, 'card_setup', all, options)
}

/** `dueAt` null: only an event makes it due again. */
export async function releaseCardSetup(db: Db, id: string, token: string, dueAt: Instant | null): Promise<boolean> {
  return releaseLease(db, 'card_setup', { id }, token, { due_at: toDateOrNull(dueAt) })
}

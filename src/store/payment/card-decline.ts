/** Declined cards, counted by account and by network. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { at, type Db, type Tx } from '../platform/database.ts'

export interface Decline {
  /** The processor's id of the message: one that comes twice counts once. */
  readonly eventId: string
  readonly accountId: string
  /** null: unknown. */
  readonly network: string | null
}

export async function insertDecline(tx: Tx, decline: Decline): Promise<void> {
  await tx.db
    .insertInto('card_decline')
    .values({
      event_id: decline.eventId,
      account_id: decline.accountId,
      network: decline.network,
      created_at: toDate(tx.clock.now()),
    })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

export type Payer = Omit<Decline, 'eventId'>

/** Which of the two has too many declined cards since then. */
export async function findBlocked(
  db: Db,
  { accountId, network }: Payer,
  since: Instant,
): Promise<'account' | 'network' | undefined> {
  const { rows } = await sql<{ account: number; network: number }>`
    select count(*) filter (where account_id = ${accountId})::integer as account,
      count(*) filter (where network = ${network})::integer as network
    from card_decline where created_at > ${at(since)} and (account_id = ${accountId} or network = ${network})`.execute(
    db,
  )
  const { account = 0, network: ofNetwork = 0 } = rows[0] ?? {}
  if (account >= limits.declinesPerDay) return 'account'
  return ofNetwork >= limits.declinesPerDay ? 'network' : undefined
}

/** Pages of the processor on which more cards could be tried, of the account or of the network. */
export async function listOpenPages(
  db: Db,
  { accountId, network }: Payer,
  by: 'account' | 'network',
  now: Instant,
): Promise<string[]> {
  const ofPayer = by === 'account' ? sql`account_id = ${accountId}` : sql`network = ${network}`
  const { rows } = await sql<{ session_id: string }>`
    select session_id from payment
    where state = 'open' and kind = 'checkout' and session_id is not null and expires_at > ${at(now)} and ${ofPayer}
    union all
    select session_id from card_setup
    where state = 'open' and session_id is not null and expires_at > ${at(now)} and ${ofPayer}
    limit ${limits.listedPayments}`.execute(db)
  return rows.map(({ session_id }) => session_id)
}

export async function deleteDeclines(db: Db, before: Instant): Promise<void> {
  await db.deleteFrom('card_decline').where('created_at', '<=', at(before)).execute()
}

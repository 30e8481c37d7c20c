/** Invitations to become a member, or to open an account. */
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Role } from '../../contract/account.ts'
import { at, type Db, type Tx } from '../platform/database.ts'

export async function hasOpenInvitation(db: Db, address: string, now: Instant): Promise<boolean> {
  const row = await db
    .selectFrom('invitation')
    .select('id')
    .where('email', '=', address.toLowerCase())
    .where('ended_at', 'is', null)
    .where('expires_at', '>', at(now))
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** An invitation with the names that people know. */
export interface Invitation {
  readonly id: string
  /** null: an invitation to open an account. */
  readonly accountId: string | null
  readonly accountName: string | null
  readonly email: string
  readonly role: Role
  readonly senderId: string
  readonly senderEmail: string
  readonly createdAt: Instant
  readonly expiresAt: Instant
  readonly outcome: 'accepted' | 'declined' | 'revoked' | 'replaced' | null
}

function selectInvitations(db: Db) {
  return db
    .selectFrom('invitation as i')
    .innerJoin('person as s', 's.id', 'i.sender_id')
    .leftJoin('account as a', 'a.id', 'i.account_id')
    .select(['i.id', 'i.email', 'i.role', 'i.outcome', 'i.account_id as accountId', 'a.name as accountName'])
    .select(['i.sender_id as senderId', 's.email as senderEmail'])
    .select(['i.created_at as createdAt', 'i.expires_at as expiresAt'])
}

/** Lists the invitations to an address that can still be accepted, oldest first. */
export async function listInvitationsTo(db: Db, address: string, now: Instant): Promise<Invitation[]> {
  return selectInvitations(db)
    .where('i.email', '=', address.toLowerCase())
    .where('i.ended_at', 'is', null)
    .where('i.expires_at', '>', at(now))
    .orderBy('i.created_at')
    .orderBy('i.id')
    .limit(limits.plainListRows)
    .execute()
}

/** Lists the open invitations to an account. `accountId` null: the invitations to open one. */
export async function listInvitationsOf(db: Db, accountId: string | null, now: Instant): Promise<Invitation[]> {
  return selectInvitations(db)
    .where('i.account_id', 'is not distinct from', accountId)
    .where('i.ended_at', 'is', null)
    .where('i.expires_at', '>', at(now))
    .orderBy('i.created_at')
    .orderBy('i.id')
    .limit(limits.plainListRows)
    .execute()
}

export async function findInvitation(db: Db, id: string): Promise<Invitation | undefined> {
  return selectInvitations(db).where('i.id', '=', id).executeTakeFirst()
}

/** Counts the invitations sent since `since`. */
export async function countInvitations(db: Db, accountId: string | null, since: Instant): Promise<number> {
  const row = await db
    .selectFrom('invitation')
    .select(sql<number>`count(*)::integer`.as('invitations'))
    .where('account_id', 'is not distinct from', accountId)
    .where('created_at', '>', at(since))
    .executeTakeFirstOrThrow()
  return row.invitations
}

/** Ends the earlier invitation to the same address. */
export async function replaceInvitation(
  tx: Tx,
  invitation: Pick<Invitation, 'id' | 'accountId' | 'email' | 'role' | 'senderId' | 'expiresAt'>,
): Promise<void> {
  const { id, accountId, email, role, senderId, expiresAt } = invitation
  await endInvitationsTo(tx, accountId, email, 'replaced')
  await tx.db
    .insertInto('invitation')
    .values({
      id,
      account_id: accountId,
      email,
      role,
      sender_id: senderId,
      created_at: toDate(tx.clock.now()),
      expires_at: toDate(expiresAt),
    })
    .execute()
}

type Outcome = NonNullable<Invitation['outcome']>

/** False: the invitation has ended or expired. */
export async function endInvitation(tx: Tx, id: string, outcome: Outcome): Promise<boolean> {
  const now = tx.clock.now()
  const { numUpdatedRows } = await tx.db
    .updateTable('invitation')
    .set({ ended_at: toDate(now), outcome })
    .where('id', '=', id)
    .where('ended_at', 'is', null)
    .where('expires_at', '>', at(now))
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Ends the open invitation to an address. */
export async function endInvitationsTo(
  tx: Tx,
  accountId: string | null,
  email: string,
  outcome: Outcome,
): Promise<void> {
  await tx.db
    .updateTable('invitation')
    .set({ ended_at: toDate(tx.clock.now()), outcome })
    .where('account_id', 'is not distinct from', accountId)
    .where('email', '=', email)
    .where('ended_at', 'is', null)
    .execute()
}

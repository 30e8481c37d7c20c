/** Invitations to become a member, or to open an account. */
import type { Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Role } from '../../contract/account.ts'
import { at, type Db } from '../platform/database.ts'

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
  /** null: to open an account of their own. */
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

/** Lists what an address may still accept, oldest first. */
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

/** Invitations to become a member, or to open an account. */
import type { Instant } from '../../base/instant.ts'
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

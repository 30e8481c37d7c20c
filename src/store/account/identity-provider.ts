/** Providers at which people sign in. */
import type { Selectable } from 'kysely'
import { limits } from '../../base/limits.ts'
import type { Db } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type IdentityProvider = Selectable<Tables['identity_provider']>

/** Lists those that everybody may use and that are not disabled. */
export async function listPublicProviders(db: Db): Promise<IdentityProvider[]> {
  return db
    .selectFrom('identity_provider')
    .selectAll()
    .where('account_id', 'is', null)
    .where('disabled_at', 'is', null)
    .orderBy('created_at')
    .orderBy('id')
    .limit(limits.identityProviders)
    .execute()
}

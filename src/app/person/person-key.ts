/**
 * The hidden key of a membership. Sessions of the member act with it, so a request of a signed-in person is authorized,
 * limited and charged like one with a key. Nobody has its secret.
 */
import { makeApiKey } from '../../base/api-key.ts'
import { scopes, type Scope } from '../../contract/endpoint.ts'
import type { Role } from '../../contract/account.ts'
import { findAccount, listMembers } from '../../store/account/account.ts'
import { setPersonKeyScopes, upsertPersonKey, type Membership } from '../../store/account/person.ts'
import type { Tx } from '../../store/platform/database.ts'
import { HOUSE_ACCOUNT } from '../money/house.ts'

/**
 * The scopes of a member's hidden key. Roles reduce them further (domain/api-key.ts). Owners of the operator's account
 * are operators.
 */
function personScopes(member: { accountId: string; role: Role; isSupplier: boolean }): Scope[] {
  const isOperator = member.accountId === HOUSE_ACCOUNT && member.role === 'owner'
  return scopes.filter((scope) => (scope === 'operator' ? isOperator : scope !== 'supply' || member.isSupplier))
}

export async function ensurePersonKey(tx: Tx, personId: string, membership: Membership): Promise<string> {
  const { accountId } = membership
  return upsertPersonKey(tx, { accountId, personId, scopes: personScopes(membership) }, makeApiKey())
}

/**
 * Updates the keys after a change of roles, or after the account became or ceased to be a supplier. The caller notifies
 * the servers.
 */
export async function refreshPersonKeys(tx: Tx, accountId: string): Promise<void> {
  const isSupplier = ((await findAccount(tx.db, accountId))?.platform_fee_bp ?? null) !== null
  for (const { id: personId, role } of await listMembers(tx.db, accountId))
    await setPersonKeyScopes(tx, { accountId, personId }, personScopes({ accountId, role, isSupplier }))
}

/** Effective permissions of a key: its scopes, limited by the role of its member. */
import type { Role } from '../contract/account.ts'
import { scopes, type Scope } from '../contract/endpoint.ts'

/** The scopes that a viewer's keys can have. */
export const viewerScopes = ['compute:read', 'billing:read'] as const satisfies readonly Scope[]

/** `operator` contains everything. */
export function holdsScope(heldScopes: readonly Scope[], scope: Scope): boolean {
  return heldScopes.includes(scope) || heldScopes.includes('operator')
}

/** The effective scopes. A member demoted to viewer keeps their keys, which are then read-only. */
export function effectiveScopes(role: Role, heldScopes: readonly Scope[]): readonly Scope[] {
  return role === 'viewer' ? viewerScopes.filter((scope) => holdsScope(heldScopes, scope)) : heldScopes
}

/** The rank of a key: its member, their role, and its scopes. */
export interface KeyRank {
  readonly personId: string
  readonly role: Role
  readonly scopes: readonly Scope[]
}

const roleRanks: Readonly<Record<Role, number>> = { viewer: 0, member: 1, owner: 2 }

/**
 * Why a key must not revoke another key, or demote or remove its member. Otherwise a leaked `keys` key of a plain member
 * could lock out the owner and the operator. Members can always revoke their own keys.
 */
export function whyNotManageKey(by: KeyRank, victim: KeyRank): 'role_too_low' | 'scope_not_held' | undefined {
  if (by.personId === victim.personId) return undefined
  if (roleRanks[by.role] < roleRanks[victim.role]) return 'role_too_low'
  const heldScopes = effectiveScopes(by.role, by.scopes)
  const lacks = effectiveScopes(victim.role, victim.scopes).some((scope) => !holdsScope(heldScopes, scope))
  return lacks ? 'scope_not_held' : undefined
}

/** Removes repeated scopes and sorts them as in the contract. */
export function withoutRepeats(requested: readonly Scope[]): Scope[] {
  return scopes.filter((scope) => requested.includes(scope))
}

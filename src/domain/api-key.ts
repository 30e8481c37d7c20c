/** What a key may do: its scopes, cut to what its person may do in the account. */
import type { Role } from '../contract/account.ts'
import { scopes, type Scope } from '../contract/endpoint.ts'

/** All that a viewer's keys can have. */
export const viewerScopes = ['compute:read', 'billing:read'] as const satisfies readonly Scope[]

/** `operator` contains everything. */
export function holdsScope(held: readonly Scope[], wanted: Scope): boolean {
  return held.includes(wanted) || held.includes('operator')
}

/** The scopes that count. A member who was made a viewer keeps old keys, but these only read from then on. */
export function effectiveScopes(role: Role, held: readonly Scope[]): readonly Scope[] {
  return role === 'viewer' ? viewerScopes.filter((scope) => holdsScope(held, scope)) : held
}

/** A key as a rank: who it acts for, their role in the account, and its scopes. */
export interface KeyRank {
  readonly personId: string
  readonly role: Role
  readonly scopes: readonly Scope[]
}

const roleRanks: Readonly<Record<Role, number>> = { viewer: 0, member: 1, owner: 2 }

/**
 * Why one key may not take another one's rights away (revoke it, or demote or remove its person). Otherwise a leaked
 * `keys` key of a plain member could shut the owner and the operator out. Your own keys are always yours to revoke.
 */
export function whyNotManageKey(by: KeyRank, victim: KeyRank): 'role_too_low' | 'scope_not_held' | undefined {
  if (by.personId === victim.personId) return undefined
  if (roleRanks[by.role] < roleRanks[victim.role]) return 'role_too_low'
  const held = effectiveScopes(by.role, by.scopes)
  const lacks = effectiveScopes(victim.role, victim.scopes).some((scope) => !holdsScope(held, scope))
  return lacks ? 'scope_not_held' : undefined
}

/** Each once, in the order of the contract. */
export function withoutRepeats(given: readonly Scope[]): Scope[] {
  return scopes.filter((scope) => given.includes(scope))
}

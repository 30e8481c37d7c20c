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

/** Each once, in the order of the contract. */
export function withoutRepeats(given: readonly Scope[]): Scope[] {
  return scopes.filter((scope) => given.includes(scope))
}

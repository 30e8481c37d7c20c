/**
 * Which person somebody at a provider is. An identity is the issuer and subject, never an address: an address that the
 * provider has verified finds a person once, under the rules below, and never again.
 */
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { findIdentity, hasIdentityAt, insertIdentity, noteIdentityUsed } from '../../store/account/identity.ts'
import type { IdentityProvider } from '../../store/account/identity-provider.ts'
import { findPerson, findPersonByEmail } from '../../store/account/person.ts'
import type { Tx } from '../../store/platform/database.ts'
import { admitAddress, type SignUp } from './sign-up.ts'
import type { ProviderPerson } from './sso-protocol.ts'

/** `unproved`: the address must be proved with a code of our own. */
export type Linked =
  | { readonly kind: 'person'; readonly personId: string }
  | { readonly kind: 'unproved'; readonly email: string }
  | { readonly kind: 'refused'; readonly failure: Failure }

export async function linkPerson(
  tx: Tx,
  signUp: SignUp,
  provider: IdentityProvider,
  stated: ProviderPerson,
): Promise<Linked> {
  const other = refuseDomain(provider, stated)
  if (other !== undefined) return refused(other)
  const identity = await findIdentity(tx.db, stated.issuer, stated.subject)
  if (identity !== undefined) {
    const person = await findPerson(tx.db, identity.person_id)
    if (person === undefined || person.disabled_at !== null) return refused(fail('person_disabled'))
    await noteIdentityUsed(tx, identity.id, stated.email)
    return { kind: 'person', personId: person.id }
  }
  const { email } = stated
  if (email === null || !isAddress(email)) return refused(fail('sso_no_address', { provider: provider.name }))
  if (!isAddressTrusted(provider, stated)) return { kind: 'unproved', email: email.toLowerCase() }
  return linkProvedAddress(tx, signUp, provider, { ...stated, email })
}

/** The provider, or our own code, has proved the address. */
export async function linkProvedAddress(
  tx: Tx,
  signUp: SignUp,
  provider: IdentityProvider,
  stated: ProviderPerson & { readonly email: string },
): Promise<Linked> {
  const { issuer, subject, email } = stated
  const holder = await findPersonByEmail(tx.db, email)
  const isProved = holder !== undefined && holder.email_verified_at !== null
  // Somebody else may have got the address of a former member at the provider.
  const isOther = holder !== undefined && (await hasIdentityAt(tx.db, holder.id, issuer))
  if (isOther || (isProved && !isAuthoritative(provider, email)))
    return refused(fail('sso_not_connected', { provider: provider.name }))
  const person = await admitAddress(tx, signUp, { address: email.toLowerCase(), name: stated.name })
  if (!person.ok) return refused(person)
  const personId = person.value.id
  const inserted = await insertIdentity(tx, { person_id: personId, provider_id: provider.id, issuer, subject, email })
  return inserted ? { kind: 'person', personId } : refused(fail('sso_taken', { provider: provider.name }))
}

/** The person of a session adds who they are at the provider. */
export async function connectPerson(
  tx: Tx,
  provider: IdentityProvider,
  stated: ProviderPerson,
  personId: string,
): Promise<Result<void>> {
  const other = refuseDomain(provider, stated)
  if (other !== undefined) return other
  const { issuer, subject, email } = stated
  const identity = await findIdentity(tx.db, issuer, subject)
  if (identity?.person_id === personId) return ok(undefined)
  if (identity !== undefined || (await hasIdentityAt(tx.db, personId, issuer)))
    return fail('sso_taken', { provider: provider.name })
  const inserted = await insertIdentity(tx, { person_id: personId, provider_id: provider.id, issuer, subject, email })
  return inserted ? ok(undefined) : fail('sso_taken', { provider: provider.name })
}

/** An owner of an account decides what its own provider says, so its word about addresses counts for nobody. */
function isAddressTrusted(provider: IdentityProvider, { email, isEmailVerified }: ProviderPerson): boolean {
  if (!isEmailVerified || email === null) return false
  return provider.account_id === null || isAuthoritative(provider, email)
}

function isAuthoritative({ domains }: IdentityProvider, email: string): boolean {
  return domains.includes(domainOf(email))
}

/** Google states the organization in a claim of its own: an address of the domain may belong to a private account. */
function refuseDomain(provider: IdentityProvider, { email, hostedDomain }: ProviderPerson): Failure | undefined {
  const { required_domain: domain, issuer } = provider
  if (domain === null) return undefined
  const stated = issuer.startsWith('https://accounts.google.com')
    ? hostedDomain
    : (hostedDomain ?? domainOf(email ?? ''))
  return stated?.toLowerCase() === domain ? undefined : fail('sso_other_domain', { domain })
}

function domainOf(email: string): string {
  return email.slice(email.lastIndexOf('@') + 1).toLowerCase()
}

/** The columns for it hold 255 characters. */
function isAddress(email: string): boolean {
  return email.length <= 255 && /^[^\s@<>",;:\\]+@[^\s@<>",;:\\]+$/.test(email)
}

function refused(failure: Failure): Linked {
  return { kind: 'refused', failure }
}

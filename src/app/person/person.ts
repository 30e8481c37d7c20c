/** The signed-in person: their accounts, and the offers that they can accept. */
import type { Instant } from '../../base/instant.ts'
import type { Role } from '../../contract/account.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import type { ConsoleSession } from '../../store/account/console-session.ts'
import { listInvitationsTo } from '../../store/account/invitation.ts'
import {
  findMembership,
  findPerson,
  listMemberships,
  listOfferedMemberships,
  type Membership,
  type Person,
} from '../../store/account/person.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import { switchAccount } from './session.ts'

/** An invitation, or a membership that others created without asking the person. */
export interface Offer {
  /** The id of the invitation, or of the account. */
  readonly id: string
  /** null: an offer to open an account. */
  readonly accountId: string | null
  readonly accountName: string | null
  readonly role: Role
  readonly sender: string | null
  readonly createdAt: Instant
  readonly expiresAt: Instant | null
}

interface SignedInPerson {
  readonly person: Person
  readonly session: ConsoleSession
  readonly memberships: readonly Membership[]
  readonly offers: readonly Offer[]
}

export async function getPerson(app: App, actor: Actor): Promise<Result<SignedInPerson>> {
  const signedIn = sessionOf(actor)
  if (!signedIn.ok) return signedIn
  const { db } = app.database
  const person = await findPerson(db, signedIn.value.personId)
  if (person === undefined) return noSession()
  const { session } = signedIn.value
  const { confinedTo } = session
  const isShown = ({ accountId }: { readonly accountId: string | null }): boolean =>
    confinedTo === null || accountId === confinedTo
  const memberships = await listMemberships(db, person.id)
  const offers = await listOffers(db, person, app.clock.now())
  return ok({ person, session, memberships: memberships.filter(isShown), offers: offers.filter(isShown) })
}

/** Switches the session to another account of the person. */
export async function actInAccount(tx: Tx, actor: Actor, accountId: string): Promise<Result<Membership>> {
  const signedIn = sessionOf(actor)
  if (!signedIn.ok) return signedIn
  const { personId, session } = signedIn.value
  const switched = await switchAccount(tx, session, accountId)
  if (!switched.ok) return switched
  const membership = await findMembership(tx.db, personId, accountId)
  return membership === undefined ? fail('account_not_found') : ok(membership)
}

/** An invitation to an account hides a membership in it that others created. */
async function listOffers(db: Db, { id, email }: Pick<Person, 'id' | 'email'>, now: Instant): Promise<Offer[]> {
  const invitations = await listInvitationsTo(db, email, now)
  const invitedTo = new Set(invitations.map(({ accountId }) => accountId))
  const memberships = await listOfferedMemberships(db, id)
  return [
    ...invitations.map((one) => ({ ...one, sender: one.senderEmail })),
    ...memberships
      .filter(({ accountId }) => !invitedTo.has(accountId))
      .map((one) => ({ ...one, id: one.accountId, sender: null, expiresAt: null })),
  ]
}

/** Returns the session of an actor, for operations with the access `person`. */
export function sessionOf(actor: Actor): Result<{ readonly personId: string; readonly session: ConsoleSession }> {
  const { session } = actor
  return session === undefined || session.personId === null ? noSession() : ok({ personId: session.personId, session })
}

/** A session that the provider of an account has opened may not change how the person signs in. */
export function refuseConfined({ confinedTo }: ConsoleSession): Failure | undefined {
  return confinedTo === null ? undefined : fail('sso_other_account')
}

function noSession(): Failure {
  return fail('person_session_required')
}

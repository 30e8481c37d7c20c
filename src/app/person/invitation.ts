/**
 * Invitations and offered memberships. Only the person who has proved the invited address can accept, and only with a
 * button, because links are opened by mail scanners. An invitation never gives more rights than its sender has when it
 * is accepted.
 */
import { addMs, DAY_MS } from '../../base/instant.ts'
import { randomId } from '../../base/id.ts'
import { limits } from '../../base/limits.ts'
import type { Role } from '../../contract/account.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import {
  confirmMail,
  countMembers,
  findAccount,
  findMember,
  hasOtherActiveOwner,
  insertMember,
  listMembers,
  lockAccount,
  type Member,
} from '../../store/account/account.ts'
import { notifyAccountKeys } from '../../store/account/api-key.ts'
import {
  countInvitations,
  endInvitation,
  findInvitation,
  replaceInvitation,
  type Invitation,
} from '../../store/account/invitation.ts'
import {
  acceptMembership,
  findMembership,
  findPerson,
  hasOperatorKey,
  type Membership,
  type Person,
} from '../../store/account/person.ts'
import type { Tx } from '../../store/platform/database.ts'
import { addMember, endMembership, lastOwner, requireOwner } from '../account/account.ts'
import type { Actor, App } from '../app.ts'
import { HOUSE_ACCOUNT } from '../money/house.ts'
import { sessionOf } from './person.ts'
import { refuseOldSignIn } from './recent-sign-in.ts'
import { switchAccount } from './session.ts'
import { openOwnAccount } from './sign-up.ts'
import { queueTemplateMail } from './template-mail.ts'

interface Recipient {
  readonly email: string
  readonly role: Role
}

export async function createInvitation(
  app: App,
  tx: Tx,
  actor: Actor,
  recipient: Recipient,
): Promise<Result<Invitation>> {
  const { accountId } = actor
  const refused = (await requireOwner(tx, actor, 'invite people')) ?? refuseToGive(tx, actor, recipient.role)
  if (refused !== undefined) return refused
  const email = recipient.email.toLowerCase()
  const member = (await listMembers(tx.db, accountId)).find((one) => one.email === email)
  if (member !== undefined && member.accepted_at !== null) return fail('member_exists')
  if (member === undefined && (await countMembers(tx.db, accountId)) >= limits.members)
    return fail('quota_exceeded', { quota: `${limits.members} members` })
  return sendInvitation(app, tx, { accountId, senderId: actor.personId, email, role: member?.role ?? recipient.role })
}

/** Invites somebody to open an account. */
export async function createSignUpInvitation(
  app: App,
  tx: Tx,
  actor: Actor,
  email: string,
): Promise<Result<Invitation>> {
  return sendInvitation(app, tx, { accountId: null, senderId: actor.personId, email, role: 'owner' })
}

/** Adds a member. If people can sign in here, the member also gets an invitation by email. */
export async function inviteMember(
  app: App,
  tx: Tx,
  actor: Actor,
  input: Recipient & { readonly name: string | null },
): Promise<Result<Member>> {
  const added = await addMember(tx, actor, input)
  if (!added.ok || app.people === undefined || app.mailer === undefined) return added
  const { email, role } = added.value
  const sent = await sendInvitation(app, tx, { accountId: actor.accountId, senderId: actor.personId, email, role })
  return sent.ok ? added : sent
}

function refuseToGive(tx: Tx, actor: Actor, role: Role): Failure | undefined {
  if (role !== 'owner') return undefined
  if (actor.accountId === HOUSE_ACCOUNT && !actor.scopes.includes('operator'))
    return fail('scope_not_held', { missing: ['operator'] })
  return refuseOldSignIn(tx.clock, actor)
}

async function sendInvitation(
  app: App,
  tx: Tx,
  input: Pick<Invitation, 'accountId' | 'senderId' | 'email' | 'role'>,
): Promise<Result<Invitation>> {
  if (app.people === undefined) return fail('people_not_configured')
  if (app.mailer === undefined) return fail('mail_not_configured')
  const now = tx.clock.now()
  const email = input.email.toLowerCase()
  if ((await countInvitations(tx.db, input.accountId, addMs(now, -DAY_MS))) >= limits.invitationsPerDay)
    return fail('quota_exceeded', { quota: `${limits.invitationsPerDay} invitations per day` })
  const id = randomId('inv')
  const expiresAt = addMs(now, limits.invitationDays * DAY_MS)
  await replaceInvitation(tx, { ...input, id, email, expiresAt })
  const invitation = await findInvitation(tx.db, id)
  if (invitation === undefined) throw new Error('the invitation was not written')
  const { accountName, senderEmail: senderName, role } = invitation
  const days = limits.invitationDays
  const mail = { template: 'invitation', accountName, senderName, role, invitationId: id, days } as const
  await queueTemplateMail(app, tx, { to: email, mail, expiresAt })
  return ok(invitation)
}

/** `accountId` null: an invitation of the operator. */
export async function revokeInvitation(
  tx: Tx,
  actor: Actor,
  { id, accountId }: { readonly id: string; readonly accountId: string | null },
): Promise<Result<Invitation>> {
  const refused = accountId === null ? undefined : await requireOwner(tx, actor, 'revoke invitations')
  if (refused !== undefined) return refused
  const invitation = await findInvitation(tx.db, id)
  if (invitation === undefined || invitation.accountId !== accountId) return noSuchInvitation()
  return (await endInvitation(tx, id, 'revoked')) ? ok(invitation) : noSuchInvitation()
}

/**
 * Accepts an offer and switches the session to its account. `id` is that of the invitation, or of the account to which
 * others added the person.
 */
export async function acceptOffer(tx: Tx, actor: Actor, id: string): Promise<Result<Membership>> {
  const recipient = await recipientOf(tx, actor)
  if (!recipient.ok) return recipient
  const { person, session } = recipient.value
  const invitation = await findInvitation(tx.db, id)
  const joined = invitation === undefined ? await acceptMember(tx, id, person) : await accept(tx, invitation, person)
  if (!joined.ok) return joined
  // A new owner may have accepted the terms before.
  await notifyAccountKeys(tx, joined.value)
  const switched = await switchAccount(tx, session, joined.value)
  if (!switched.ok) return switched
  const membership = await findMembership(tx.db, person.id, joined.value)
  return membership === undefined ? noSuchInvitation() : ok(membership)
}

export async function declineOffer(tx: Tx, actor: Actor, id: string): Promise<Result<void>> {
  const recipient = await recipientOf(tx, actor)
  if (!recipient.ok) return recipient
  const { person } = recipient.value
  const invitation = await findInvitation(tx.db, id)
  if (invitation !== undefined && invitation.email !== person.email) return noSuchInvitation()
  if (invitation !== undefined && !(await endInvitation(tx, id, 'declined'))) return noSuchInvitation()
  const accountId = invitation === undefined ? id : invitation.accountId
  const member = accountId === null ? undefined : await lockOffered(tx, accountId, person)
  if (member === undefined || accountId === null) return invitation === undefined ? noSuchInvitation() : ok(undefined)
  if (member.role === 'owner' && !(await hasOtherActiveOwner(tx, accountId, person.id))) return lastOwner()
  await endMembership(tx, accountId, member)
  return ok(undefined)
}

/** Returns the signed-in person, whose address is proved. */
async function recipientOf(tx: Tx, actor: Actor) {
  const signedIn = sessionOf(actor)
  if (!signedIn.ok) return signedIn
  const { personId, session } = signedIn.value
  const person = await findPerson(tx.db, personId)
  return person === undefined || person.email_verified_at === null ? noSuchInvitation() : ok({ person, session })
}

async function accept(tx: Tx, invitation: Invitation, person: Person): Promise<Result<string>> {
  const { id, accountId, email, role, senderId } = invitation
  if (email !== person.email) return noSuchInvitation()
  if (accountId === null) {
    if (!(await endInvitation(tx, id, 'accepted'))) return noSuchInvitation()
    return (await hasOperatorKey(tx, senderId)) ? ok(await openOwnAccount(tx, person)) : senderLeft()
  }
  await lockAccount(tx, accountId)
  if (!(await endInvitation(tx, id, 'accepted'))) return noSuchInvitation()
  const sender = await findMember(tx.db, accountId, senderId)
  const isDisabled = (await findPerson(tx.db, senderId))?.disabled_at !== null
  if (sender?.role !== 'owner' || isDisabled) return senderLeft()
  if ((await findMember(tx.db, accountId, person.id)) === undefined) {
    if ((await countMembers(tx.db, accountId)) >= limits.members)
      return fail('quota_exceeded', { quota: `${limits.members} members` })
    await insertMember(tx, { accountId, personId: person.id, role, name: person.name, isAddressConfirmed: true })
  }
  await acceptMembership(tx, accountId, person.id)
  await confirmMail(tx, accountId, person.id)
  return ok(accountId)
}

/** Accepts a membership that was created by others. */
async function acceptMember(tx: Tx, accountId: string, person: Person): Promise<Result<string>> {
  if ((await lockOffered(tx, accountId, person)) === undefined) return noSuchInvitation()
  await acceptMembership(tx, accountId, person.id)
  await confirmMail(tx, accountId, person.id)
  return ok(accountId)
}

async function lockOffered(tx: Tx, accountId: string, { id }: Person): Promise<Member | undefined> {
  if ((await findAccount(tx.db, accountId)) === undefined) return undefined
  await lockAccount(tx, accountId)
  const member = await findMember(tx.db, accountId, id)
  return member?.accepted_at === null ? member : undefined
}

function noSuchInvitation(): Failure {
  return fail('invitation_not_found')
}

function senderLeft(): Failure {
  return fail('invitation_sender_left')
}

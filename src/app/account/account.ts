/**
 * The caller, and the members of an account. Only owners change members, and there is always one owner: each change
 * locks the account and reads the caller's role again, because the cached role of the key may be outdated.
 */
import { makeApiKey, type NewApiKey } from '../../base/api-key.ts'
import { randomId } from '../../base/id.ts'
import { limits } from '../../base/limits.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import type { Role } from '../../contract/account.ts'
import type { Scope } from '../../contract/endpoint.ts'
import {
  confirmMail,
  countMembers,
  deleteMember,
  findAccount,
  findMember,
  findOrInsertPerson,
  hasOtherActiveOwner,
  insertAccount,
  insertMember,
  lockAccount,
  setRole,
  updateAccount,
  type Account,
  type AccountChange,
  type Member,
} from '../../store/account/account.ts'
import {
  findApiKey,
  insertApiKey,
  listLiveApiKeys,
  noKeyLimits,
  notifyAccountKeys,
  revokeApiKeys,
  type ApiKey,
} from '../../store/account/api-key.ts'
import { leaveAccountInSessions } from '../../store/account/console-session.ts'
import { endInvitationsTo } from '../../store/account/invitation.ts'
import type { Tx } from '../../store/platform/database.ts'
import { recordEvent } from '../../store/notice/event.ts'
import { refreshPersonKeys } from '../person/person-key.ts'
import { refuseOldSignIn } from '../person/recent-sign-in.ts'
import { keyCreated, keyRevoked, notAMember, refuseToManage } from './api-key.ts'
import type { Actor, App } from '../app.ts'

export interface Me {
  readonly member: Member
  readonly account: Account
  readonly key: ApiKey
}

export async function getMe(app: App, actor: Actor): Promise<Result<Me>> {
  const { db } = app.database
  const [member, account, key] = await Promise.all([
    findMember(db, actor.accountId, actor.personId),
    findAccount(db, actor.accountId),
    findApiKey(db, actor.accountId, actor.keyId),
  ])
  // Only if the person was removed after the key was checked.
  if (member === undefined || account === undefined || key === undefined) return notAMember()
  return ok({ member, account, key })
}

export async function addMember(
  tx: Tx,
  actor: Actor,
  input: { email: string; name: string | null; role: Role },
): Promise<Result<Member>> {
  const refused = await requireOwner(tx, actor)
  if (refused !== undefined) return refused
  if ((await countMembers(tx.db, actor.accountId)) >= limits.members)
    return fail('quota_exceeded', { quota: `${limits.members} members` })
  const unproved = input.role === 'owner' ? refuseOldSignIn(tx.clock, actor) : undefined
  if (unproved !== undefined) return unproved
  const person = await findOrInsertPerson(tx, input)
  if (
    !(await insertMember(tx, { accountId: actor.accountId, personId: person.id, role: input.role, name: input.name }))
  ) {
    return fail('member_exists')
  }
  const added = await findMember(tx.db, actor.accountId, person.id)
  return added === undefined ? noSuchMember() : ok(added)
}

export async function changeMember(
  tx: Tx,
  actor: Actor,
  input: { personId: string; role: Role },
): Promise<Result<Member>> {
  const refused = await requireOwner(tx, actor)
  if (refused !== undefined) return refused
  const member = await findMember(tx.db, actor.accountId, input.personId)
  if (member === undefined) return noSuchMember()
  if (member.role === input.role) return ok(member)
  const unproved = input.role === 'owner' ? refuseOldSignIn(tx.clock, actor) : undefined
  if (unproved !== undefined) return unproved
  const protectedBy = await refuseToWeaken(tx, actor, member)
  if (protectedBy !== undefined) return protectedBy
  await setRole(tx, actor.accountId, member.id, input.role)
  await refreshPersonKeys(tx, actor.accountId)
  await notifyAccountKeys(tx, actor.accountId)
  return ok({ ...member, role: input.role })
}

/** Removes the member and revokes their keys in this account. */
export async function removeMember(tx: Tx, actor: Actor, personId: string): Promise<Result<Member>> {
  const refused = await requireOwner(tx, actor)
  if (refused !== undefined) return refused
  const member = await findMember(tx.db, actor.accountId, personId)
  if (member === undefined) return noSuchMember()
  const protectedBy = await refuseToWeaken(tx, actor, member)
  if (protectedBy !== undefined) return protectedBy
  await endMembership(tx, actor.accountId, member)
  return ok(member)
}

/** Sessions of the person go on without the account. */
export async function endMembership(
  tx: Tx,
  accountId: string,
  { id, email }: Pick<Member, 'id' | 'email'>,
): Promise<void> {
  for (const key of await revokeApiKeys(tx, accountId, { personId: id }))
    if (key.kind !== 'person') recordEvent(tx, keyRevoked(key))
  await leaveAccountInSessions(tx, accountId, id)
  await endInvitationsTo(tx, accountId, email, 'revoked')
  await deleteMember(tx, accountId, id)
}

/** Why a member keeps their rights: an account needs an owner with a working key, and a key cannot weaken a stronger one. */
async function refuseToWeaken(tx: Tx, actor: Actor, member: Member): Promise<Failure | undefined> {
  const { accountId } = actor
  if (member.role === 'owner' && !(await hasOtherActiveOwner(tx, accountId, member.id))) return lastOwner()
  // The key of the console has what the role allows, so that only the rights of an operator tell more.
  const keys = (await listLiveApiKeys(tx, accountId, member.id)).map((key) =>
    key.kind === 'person' ? { ...key, scopes: key.scopes.filter((scope) => scope === 'operator') } : key,
  )
  return refuseToManage({ ...actor, role: 'owner' }, member, keys)
}

/** Settings that the account controls. */
export async function changeAccountSettings(
  tx: Tx,
  actor: Actor,
  settings: Pick<AccountChange, 'keepsBodies' | 'storesResponses' | 'requiresFactor'>,
): Promise<Result<Account>> {
  const refused = (await requireOwner(tx, actor, 'change its settings')) ?? refuseToRequire(tx, actor, settings)
  if (refused !== undefined) return refused
  await updateAccount(tx, actor.accountId, settings)
  // Servers cache the setting with the keys.
  await notifyAccountKeys(tx, actor.accountId)
  const account = await findAccount(tx.db, actor.accountId)
  return account === undefined ? notAMember() : ok(account)
}

/** Who switches it on must be able to go on themselves. */
function refuseToRequire(
  { clock }: Tx,
  actor: Actor,
  { requiresFactor }: Pick<AccountChange, 'requiresFactor'>,
): Failure | undefined {
  if (requiresFactor === undefined) return undefined
  const old = refuseOldSignIn(clock, actor)
  if (old !== undefined || actor.session === undefined) return old
  return requiresFactor && actor.session.factorAt === null ? fail('passkey_required') : undefined
}

export interface NewAccount {
  readonly name: string
  readonly ownerEmail: string
  readonly ownerName: string | null
  /** Scopes of the first key. */
  readonly scopes: readonly Scope[]
  /** null: not a supplier. */
  readonly platformFeeBp: number | null
}

export interface OpenedAccount {
  readonly account: Account
  readonly personId: string
  /** The key itself is shown once. */
  readonly key: NewApiKey
}

/** Opens an account with its owner and a first key. */
export async function openAccount(tx: Tx, input: NewAccount): Promise<OpenedAccount> {
  const account = await insertAccount(tx, { ...input, id: randomId('acc') })
  if (account === undefined) throw new Error('a random account id was taken')
  const owner = await installOwner(tx, account.id, { ...input, keyName: 'First key' })
  return { account, ...owner }
}

/** Makes a person an owner, member or not, and issues them a key. */
export async function installOwner(
  tx: Tx,
  accountId: string,
  input: Pick<NewAccount, 'ownerEmail' | 'ownerName' | 'scopes'> & { readonly keyName: string },
): Promise<{ personId: string; key: NewApiKey }> {
  const person = await findOrInsertPerson(tx, { email: input.ownerEmail, name: input.ownerName })
  const personId = person.id
  const isNew = await insertMember(tx, {
    accountId,
    personId,
    role: 'owner',
    name: input.ownerName,
    isAddressConfirmed: true,
  })
  if (!isNew) {
    await setRole(tx, accountId, personId, 'owner')
    await refreshPersonKeys(tx, accountId)
    await confirmMail(tx, accountId, personId)
    // Servers cache roles with the keys.
    await notifyAccountKeys(tx, accountId)
  }
  const key = makeApiKey()
  const { keyName: name, scopes } = input
  const written = await insertApiKey(tx, key, { accountId, personId, name, scopes, limits: noKeyLimits })
  recordEvent(tx, keyCreated(written))
  return { personId, key }
}

/** Locks the account. */
export async function requireOwner(tx: Tx, actor: Actor, action = 'manage members'): Promise<Failure | undefined> {
  await lockAccount(tx, actor.accountId)
  const caller = await findMember(tx.db, actor.accountId, actor.personId)
  if (caller === undefined) return notAMember()
  if (caller.role === 'owner') return undefined
  return fail('owner_only', { action })
}

function noSuchMember(): Failure {
  return fail('member_not_found')
}

export function lastOwner(): Failure {
  return fail('last_owner')
}

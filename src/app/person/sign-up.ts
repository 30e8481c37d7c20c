/** Who may become a person here, and what a new person gets. */
import { randomId } from '../../base/id.ts'
import { addMs, DAY_MS, HOUR_MS } from '../../base/instant.ts'
import { limits, signUpQuota } from '../../base/limits.ts'
import { clientNetworkOf } from '../../base/net/client-network.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import type { SignUpMode } from '../../domain/sign-up.ts'
import { findOrInsertPerson, insertAccount, insertMember, updateAccount } from '../../store/account/account.ts'
import { insertSelfOpenedAccount, lockAndCount } from '../../store/account/client-network.ts'
import { hasOpenInvitation } from '../../store/account/invitation.ts'
import { acceptMembership, findPersonByEmail, proveAddress, type Person } from '../../store/account/person.ts'
import type { Tx } from '../../store/platform/database.ts'

export interface SignUp {
  readonly mode: SignUpMode
  /** The address of the browser. Accounts that people open from one network are counted. */
  readonly ipAddress: string
}

/** Whether somebody could sign in with this address. Otherwise no message is sent to it. */
export async function mayUseAddress(tx: Tx, mode: SignUpMode, address: string): Promise<boolean> {
  const person = await findPersonByEmail(tx.db, address)
  const isInvited = await hasOpenInvitation(tx.db, address, tx.clock.now())
  if (person !== undefined) return person.disabled_at === null
  return isInvited || mode === 'open'
}

/**
 * Admits a person whose address is proved. Returns an existing person, or a new one, with an account of their own if
 * everybody may sign up. A person whom others have added can sign in from now on; those memberships are offered to them
 * (store/account/person.ts).
 */
export async function admitAddress(
  tx: Tx,
  { mode, ipAddress }: SignUp,
  { address, name }: { readonly address: string; readonly name: string | null },
): Promise<Result<Person>> {
  const existingPerson = await findPersonByEmail(tx.db, address)
  if (existingPerson !== undefined) {
    if (existingPerson.disabled_at !== null) return fail('person_disabled')
    await proveAddress(tx, existingPerson.id)
    return ok(existingPerson)
  }
  const isInvited = await hasOpenInvitation(tx.db, address, tx.clock.now())
  if (!isInvited && mode !== 'open') return fail('sign_up_closed')
  const network = clientNetworkOf(ipAddress)
  const refused = isInvited ? undefined : await refuseTooMany(tx, network)
  if (refused !== undefined) return refused
  const person = await findOrInsertPerson(tx, { email: address, name })
  await proveAddress(tx, person.id)
  // An invited person may want to join that account only, so no other one is opened.
  if (!isInvited) {
    const accountId = await openOwnAccount(tx, person)
    await updateAccount(tx, accountId, { quota: signUpQuota })
    await insertSelfOpenedAccount(tx, accountId, network)
  }
  return ok(person)
}

/** One person with many addresses could open as many accounts, each with its own quota. */
async function refuseTooMany(tx: Tx, network: string): Promise<Failure | undefined> {
  const now = tx.clock.now()
  const inHour = await lockAndCount(tx, 'self_opened_account', network, addMs(now, -HOUR_MS))
  const inDay = await lockAndCount(tx, 'self_opened_account', network, addMs(now, -DAY_MS))
  return inHour >= limits.accountsPerHour || inDay >= limits.accountsPerDay ? fail('too_many_accounts') : undefined
}

/** Opens an account with the person as its owner. */
export async function openOwnAccount(tx: Tx, person: Pick<Person, 'id' | 'email' | 'name'>): Promise<string> {
  const name = person.name ?? person.email
  const account = await insertAccount(tx, { id: randomId('acc'), name, platformFeeBp: null })
  if (account === undefined) throw new Error('a random account id was taken')
  await insertMember(tx, {
    accountId: account.id,
    personId: person.id,
    role: 'owner',
    name: person.name,
    isAddressConfirmed: true,
  })
  await acceptMembership(tx, account.id, person.id)
  return account.id
}

/** Who may become a person here, and what a new person gets. */
import { randomId } from '../../base/id.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import type { SignUpMode } from '../../domain/sign-up.ts'
import { findOrInsertPerson, insertAccount, insertMember } from '../../store/account/account.ts'
import { hasOpenInvitation } from '../../store/account/invitation.ts'
import { acceptMembership, findPersonByEmail, proveAddress, type Person } from '../../store/account/person.ts'
import type { Tx } from '../../store/platform/database.ts'

/** Whether a message to the address makes sense: somebody could sign in with it. */
export async function mayUseAddress(tx: Tx, mode: SignUpMode, address: string): Promise<boolean> {
  const person = await findPersonByEmail(tx.db, address)
  const isInvited = await hasOpenInvitation(tx.db, address, tx.clock.now())
  if (person !== undefined) return person.disabled_at === null
  return isInvited || mode === 'open'
}

/**
 * The address is proved. Returns the person who has it: a known one, or a new one with an account of their own where
 * everybody may sign up. A person whom others have added becomes real with this; what they were added to is offered to
 * them (store/account/person.ts).
 */
export async function admitAddress(
  tx: Tx,
  mode: SignUpMode,
  { address, name }: { readonly address: string; readonly name: string | null },
): Promise<Result<Person>> {
  const known = await findPersonByEmail(tx.db, address)
  if (known !== undefined) {
    if (known.disabled_at !== null) return fail('person_disabled')
    await proveAddress(tx, known.id)
    return ok(known)
  }
  const isInvited = await hasOpenInvitation(tx.db, address, tx.clock.now())
  if (!isInvited && mode !== 'open') return fail('sign_up_closed')
  const person = await findOrInsertPerson(tx, { email: address, name })
  await proveAddress(tx, person.id)
  // An invited person chooses: they may want to join that account only.
  if (!isInvited) await openOwnAccount(tx, person)
  return ok(person)
}

/** An account with the person as its owner. */
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

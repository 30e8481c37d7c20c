/** The providers at which a person signs in. */
import { fail, ok, type Result } from '../../contract/result.ts'
import { deleteIdentity, hasPasskey, listIdentities, type Identity } from '../../store/account/identity.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import { refuseConfined, sessionOf } from './person.ts'

/** A person keeps a way to sign in: a code by email is one where mail is sent. */
export async function removeIdentity(
  { mailer }: Pick<App, 'mailer'>,
  tx: Tx,
  actor: Actor,
  id: string,
): Promise<Result<Identity>> {
  const signedIn = sessionOf(actor)
  if (!signedIn.ok) return signedIn
  const { personId, session } = signedIn.value
  const refused = refuseConfined(session)
  if (refused !== undefined) return refused
  const removed = await deleteIdentity(tx, personId, id)
  if (removed === undefined) return fail('identity_not_found')
  const others = await listIdentities(tx.db, personId)
  const isLast = mailer === undefined && others.length === 0 && !(await hasPasskey(tx.db, personId))
  return isLast ? fail('last_way_to_sign_in') : ok(removed)
}

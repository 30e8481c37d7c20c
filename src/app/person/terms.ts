/**
 * Terms of the operator. People accept them, and owners do so for their accounts: orders of an account, whoever or whichever key
 * places them, need an owner who accepted the newest version. What runs goes on, is charged and can be ended.
 */
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import type { Endpoint } from '../../contract/endpoint.ts'
import { notifyAccountKeys, type KnownKey } from '../../store/account/api-key.ts'
import { listAccountsOf } from '../../store/account/person.ts'
import { findNewestTerms, insertAcceptance, insertTerms, type Terms } from '../../store/account/terms.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import { HOUSE_ACCOUNT } from '../money/house.ts'
import { refuseConfined, sessionOf } from './person.ts'

/** Without people nobody could accept them, and no order would be possible any more. */
export async function publishTerms({ people }: App, tx: Tx, actor: Actor, body: string): Promise<Result<Terms>> {
  if (people === undefined) return fail('people_not_configured')
  const newest = await findNewestTerms(tx.db)
  if (newest?.body === body) return ok(newest)
  const terms = await insertTerms(tx, body)
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'terms.publish',
    subject: String(terms.version),
    detail: { version: terms.version },
  })
  return ok(terms)
}

export async function acceptTerms(
  tx: Tx,
  actor: Actor,
  { version, address }: { readonly version: number; readonly address: string },
): Promise<Result<Terms>> {
  const signedIn = sessionOf(actor)
  if (!signedIn.ok) return signedIn
  const { personId, session } = signedIn.value
  const refused = refuseConfined(session)
  if (refused !== undefined) return refused
  const newest = await findNewestTerms(tx.db)
  if (newest === undefined || newest.version !== version) return fail('terms_outdated')
  await insertAcceptance(tx, { personId, version, address })
  for (const accountId of await listAccountsOf(tx.db, personId)) await notifyAccountKeys(tx, accountId)
  return ok(newest)
}

/** The operator's own orders need no terms. */
export function refuseWithoutTerms({ needsTerms }: Endpoint, key: KnownKey): Failure | undefined {
  if (needsTerms !== true || !key.owes_terms || key.account_id === HOUSE_ACCOUNT) return undefined
  return fail('terms_not_accepted')
}

/**
 * Factors are what a person can show besides their address: passkeys, and recovery codes for the day a passkey is lost. Changing them
 * needs a recent sign-in, and, once there is a passkey, a session that has shown one: whoever reads somebody's mail must not
 * be able to add a passkey of their own.
 */
import { randomInt } from 'node:crypto'
import { sha256 } from '../../base/id.ts'
import { limits } from '../../base/limits.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import type { ConsoleSession } from '../../store/account/console-session.ts'
import { deleteSessionsOf } from '../../store/account/console-session.ts'
import {
  countRecoveryCodes,
  deleteFactors,
  deletePasskey,
  listPasskeys,
  lockFactors,
  renamePasskey as writeName,
  replaceRecoveryCodes,
  useRecoveryCode,
  type Passkey,
} from '../../store/account/passkey.ts'
import { findPerson } from '../../store/account/person.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import type { Actor } from '../app.ts'
import { refuseConfined, sessionOf } from './person.ts'
import { refuseOldSignIn } from './recent-sign-in.ts'
import { renewSession } from './session.ts'

/** Without letters and digits that look alike. */
const CODE_ALPHABET = '23456789abcdefghjkmnpqrstuvwxyz'
const CODE_CHARS = 12

export interface Factors {
  readonly passkeys: readonly Passkey[]
  readonly recoveryCodes: Awaited<ReturnType<typeof countRecoveryCodes>>
}

export async function listFactors(db: Db, personId: string): Promise<Factors> {
  return { passkeys: await listPasskeys(db, personId), recoveryCodes: await countRecoveryCodes(db, personId) }
}

/** The session that may change what its person can show. Locks the person. */
export async function lockToChangeFactors(
  tx: Tx,
  actor: Actor,
): Promise<
  Result<{ readonly personId: string; readonly session: ConsoleSession; readonly passkeys: readonly Passkey[] }>
> {
  const signedIn = sessionOf(actor)
  if (!signedIn.ok) return signedIn
  const { personId, session } = signedIn.value
  await lockFactors(tx, personId)
  const passkeys = await listPasskeys(tx.db, personId)
  const refused = refuseConfined(session) ?? refuseOldSignIn(tx.clock, actor) ?? refuseWithoutFactor(session, passkeys)
  return refused ?? ok({ personId, session, passkeys })
}

function refuseWithoutFactor({ factorAt }: ConsoleSession, passkeys: readonly Passkey[]): Failure | undefined {
  return passkeys.length > 0 && factorAt === null ? fail('passkey_required') : undefined
}

export async function renamePasskey(tx: Tx, actor: Actor, id: string, name: string): Promise<Result<Passkey>> {
  const signedIn = sessionOf(actor)
  if (!signedIn.ok) return signedIn
  const { personId, session } = signedIn.value
  const refused = refuseConfined(session)
  if (refused !== undefined) return refused
  if (!(await writeName(tx, personId, id, name))) return fail('passkey_not_found')
  const passkey = (await listPasskeys(tx.db, personId)).find((one) => one.id === id)
  return passkey === undefined ? fail('passkey_not_found') : ok(passkey)
}

/** Recovery codes end with the last passkey, which they stand for. */
export async function removePasskey(tx: Tx, actor: Actor, id: string): Promise<Result<Passkey>> {
  const allowed = await lockToChangeFactors(tx, actor)
  if (!allowed.ok) return allowed
  const { personId, passkeys } = allowed.value
  const passkey = passkeys.find((one) => one.id === id)
  if (passkey === undefined || !(await deletePasskey(tx, personId, id))) return fail('passkey_not_found')
  if (passkeys.length === 1) await replaceRecoveryCodes(tx, personId, [])
  return ok(passkey)
}

/** The codes are shown once. They end the ones before. */
export async function createRecoveryCodes(tx: Tx, actor: Actor): Promise<Result<readonly string[]>> {
  const allowed = await lockToChangeFactors(tx, actor)
  if (!allowed.ok) return allowed
  const { personId, passkeys } = allowed.value
  if (passkeys.length === 0) return fail('no_passkey')
  const codes = Array.from({ length: limits.recoveryCodes }, makeCode)
  await replaceRecoveryCodes(
    tx,
    personId,
    codes.map((code) => hashOf(personId, code)),
  )
  return ok(codes.map((code) => code.replaceAll(/(.{4})(?=.)/g, '$1-')))
}

/** A step-up with a code on paper. Returns the new token of the session. */
export async function redeemRecoveryCode(tx: Tx, actor: Actor, typed: string): Promise<Result<string>> {
  const signedIn = sessionOf(actor)
  if (!signedIn.ok) return signedIn
  const { personId, session } = signedIn.value
  const code = typed.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
  if (!(await useRecoveryCode(tx, personId, hashOf(personId, code)))) return fail('wrong_recovery_code')
  const { method, providerId } = session
  return ok(await renewSession(tx, session.id, { method, providerId, hasFactor: true }))
}

/** An operator helps a person who has lost everything. They prove their address again, and add a passkey. */
export async function resetFactors(
  tx: Tx,
  actor: Actor,
  { id, reason }: { readonly id: string; readonly reason: string },
): Promise<Result<number>> {
  const person = await findPerson(tx.db, id)
  if (person === undefined) return fail('person_not_found')
  await lockFactors(tx, id)
  const passkeys = await deleteFactors(tx, id)
  await deleteSessionsOf(tx, id, 'all')
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'person.reset_factors',
    subject: id,
    reason,
    detail: { name: person.email, passkeys },
  })
  return ok(passkeys)
}

function makeCode(): string {
  return Array.from({ length: CODE_CHARS }, () => CODE_ALPHABET[randomInt(CODE_ALPHABET.length)]).join('')
}

function hashOf(personId: string, code: string): Buffer {
  return sha256(`${personId} ${code}`)
}

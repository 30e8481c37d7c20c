/**
 * Passkeys (WebAuthn). A sign-in needs no name: the authenticator has the passkey and says whose it is. It checks the person
 * itself, so a passkey is also a second factor. Origin and relying party come from the public URL, never from the request.
 */
import {
  generateAuthenticationOptions,
  generateRegistrationOptions,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
  type AuthenticationResponseJSON,
  type PublicKeyCredentialCreationOptionsJSON,
  type PublicKeyCredentialRequestOptionsJSON,
  type RegistrationResponseJSON,
} from '@simplewebauthn/server'
import { decodeAttestationObject } from '@simplewebauthn/server/helpers'
import { randomId, sha256 } from '../../base/id.ts'
import { addMs } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import {
  findPasskeyByCredential,
  insertChallenge,
  insertPasskey,
  listPasskeys,
  notePasskeyUse,
  takeChallenge,
  type Passkey,
} from '../../store/account/passkey.ts'
import { findPerson } from '../../store/account/person.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import { lockToChangeFactors } from './factor.ts'
import { renewSession } from './session.ts'

/** Browsers and authenticators show it as the name of this server. */
const TITLE = 'Berth'
/** EdDSA, ES256, RS256. */
const ALGORITHMS = [-8, -7, -257]

/** The hash of the cookie of the browser that asked; only it may answer. */
export interface Flow {
  readonly flowHash: Buffer
}

interface RelyingParty {
  readonly id: string
  readonly origin: string
}

function relyingParty({ people }: App): Result<RelyingParty> {
  if (people === undefined) return fail('people_not_configured')
  const { hostname, origin } = new URL(people.publicUrl)
  return ok({ id: hostname, origin })
}

export async function beginPasskeySignIn(
  app: App,
  { flowHash }: Flow,
): Promise<Result<PublicKeyCredentialRequestOptionsJSON>> {
  const party = relyingParty(app)
  if (!party.ok) return party
  const options = await generateAuthenticationOptions({
    rpID: party.value.id,
    userVerification: 'required',
    timeout: limits.passkeyMs,
  })
  await transact(app.database, (tx) =>
    insertChallenge(tx, {
      challengeHash: sha256(options.challenge),
      flowHash,
      purpose: 'passkey',
      sessionId: null,
      expiresAt: addMs(tx.clock.now(), limits.passkeyMs),
    }),
  )
  return ok(options)
}

/** Returns what `signIn` makes of the person whose passkey answered. */
export async function redeemPasskey<T>(
  app: App,
  { flowHash }: Flow,
  response: AuthenticationResponseJSON,
  signIn: (tx: Tx, personId: string) => Promise<T>,
): Promise<Result<T>> {
  const party = relyingParty(app)
  if (!party.ok) return party
  const challenge = challengeIn(response.response.clientDataJSON)
  const expected = { challengeHash: sha256(challenge), flowHash, purpose: 'passkey', sessionId: null } as const
  // A challenge is answered once, rightly or not.
  if (!(await transact(app.database, (tx) => takeChallenge(tx, expected)))) return fail('passkey_expired')
  const passkey = await findPasskeyByCredential(app.database.db, response.id)
  if (passkey === undefined) return fail('passkey_unknown')
  const use = await verifyAnswer(party.value, challenge, passkey, response)
  if (use === undefined) return refusedPasskey()
  return transact(app.database, async (tx): Promise<Result<T>> => {
    const person = await findPerson(tx.db, passkey.person_id)
    if (person === undefined || !(await notePasskeyUse(tx, passkey.id, use))) return refusedPasskey()
    if (person.disabled_at !== null) return fail('person_disabled')
    return ok(await signIn(tx, person.id))
  })
}

/** undefined: the answer is not one of this passkey to this challenge on this site. */
async function verifyAnswer(
  party: RelyingParty,
  challenge: string,
  passkey: Passkey,
  response: AuthenticationResponseJSON,
): Promise<{ readonly counter: bigint; readonly isSynced: boolean } | undefined> {
  const { userHandle } = response.response
  if (userHandle !== undefined && Buffer.from(userHandle, 'base64url').toString() !== passkey.person_id)
    return undefined
  try {
    const { verified, authenticationInfo } = await verifyAuthenticationResponse({
      response,
      expectedChallenge: challenge,
      expectedOrigin: party.origin,
      expectedRPID: party.id,
      requireUserVerification: true,
      credential: {
        id: passkey.credential_id,
        publicKey: new Uint8Array(passkey.public_key),
        counter: Number(passkey.counter),
      },
    })
    return verified
      ? { counter: BigInt(authenticationInfo.newCounter), isSynced: authenticationInfo.credentialBackedUp }
      : undefined
  } catch {
    // The library throws what is wrong with the answer, which only an attacker could use.
    return undefined
  }
}

export async function beginPasskey(
  app: App,
  actor: Actor,
  { flowHash }: Flow,
): Promise<Result<PublicKeyCredentialCreationOptionsJSON>> {
  const party = relyingParty(app)
  if (!party.ok) return party
  return transact(app.database, async (tx): Promise<Result<PublicKeyCredentialCreationOptionsJSON>> => {
    const allowed = await lockToAdd(tx, actor)
    if (!allowed.ok) return allowed
    const { personId, session, passkeys } = allowed.value
    const person = await findPerson(tx.db, personId)
    if (person === undefined) return fail('person_session_required')
    const options = await generateRegistrationOptions({
      rpName: TITLE,
      rpID: party.value.id,
      userName: person.email,
      userDisplayName: person.name ?? person.email,
      userID: new Uint8Array(Buffer.from(personId)),
      timeout: limits.passkeyMs,
      attestationType: 'none',
      supportedAlgorithmIDs: ALGORITHMS,
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
      excludeCredentials: passkeys.map(({ credential_id: id, transports }) => ({ id, transports })),
    })
    await insertChallenge(tx, {
      challengeHash: sha256(options.challenge),
      flowHash,
      purpose: 'add-passkey',
      sessionId: session.id,
      expiresAt: addMs(tx.clock.now(), limits.passkeyMs),
    })
    return ok(options)
  })
}

async function lockToAdd(tx: Tx, actor: Actor) {
  const allowed = await lockToChangeFactors(tx, actor)
  if (!allowed.ok || allowed.value.passkeys.length < limits.passkeys) return allowed
  return fail('quota_exceeded', { quota: `${limits.passkeys} passkeys` })
}

export interface AddedPasskey {
  readonly passkey: Passkey
  /** The session has shown a second factor with it, and has a new token. */
  readonly token: string
}

export async function addPasskey(
  app: App,
  actor: Actor,
  { flowHash }: Flow,
  { response, name }: { readonly response: RegistrationResponseJSON; readonly name: string },
): Promise<Result<AddedPasskey>> {
  const party = relyingParty(app)
  if (!party.ok) return party
  const challenge = challengeIn(response.response.clientDataJSON)
  const sessionId = actor.session?.id ?? null
  const expected = { challengeHash: sha256(challenge), flowHash, purpose: 'add-passkey', sessionId } as const
  if (!(await transact(app.database, (tx) => takeChallenge(tx, expected)))) return fail('passkey_expired')
  const credential = await verifyNew(party.value, challenge, response)
  if (credential === undefined) return refusedPasskey()
  return transact(app.database, async (tx): Promise<Result<AddedPasskey>> => {
    const allowed = await lockToAdd(tx, actor)
    if (!allowed.ok) return allowed
    const { personId, session } = allowed.value
    const id = randomId('pky')
    if (!(await insertPasskey(tx, { ...credential, id, person_id: personId, name }))) return fail('passkey_exists')
    const passkey = (await listPasskeys(tx.db, personId)).find((one) => one.id === id)
    if (passkey === undefined) throw new Error('the passkey was not written')
    const { method, providerId } = session
    return ok({ passkey, token: await renewSession(tx, session.id, { method, providerId, hasFactor: true }) })
  })
}

type Credential = Pick<Passkey, 'credential_id' | 'public_key' | 'counter' | 'transports' | 'is_synced'>

async function verifyNew(
  party: RelyingParty,
  challenge: string,
  response: RegistrationResponseJSON,
): Promise<Credential | undefined> {
  try {
    if (!hasOwnAttestation(response)) return undefined
    const { verified, registrationInfo } = await verifyRegistrationResponse({
      response,
      expectedChallenge: challenge,
      expectedOrigin: party.origin,
      expectedRPID: party.id,
      requireUserVerification: true,
      supportedAlgorithmIDs: ALGORITHMS,
    })
    if (!verified) return undefined
    const { credential, credentialBackedUp } = registrationInfo
    return {
      credential_id: credential.id,
      public_key: Buffer.from(credential.publicKey),
      counter: BigInt(credential.counter),
      transports: (credential.transports ?? []).slice(0, limits.passkeyTransports),
      is_synced: credentialBackedUp,
    }
  } catch {
    return undefined
  }
}

/**
 * We ask for no statement of a manufacturer. One with certificates could make the library fetch lists of revoked ones from an
 * address in them, which anybody can choose.
 */
function hasOwnAttestation({ response }: RegistrationResponseJSON): boolean {
  const attestation = decodeAttestationObject(new Uint8Array(Buffer.from(response.attestationObject, 'base64url')))
  const format = attestation.get('fmt')
  return format === 'none' || (format === 'packed' && attestation.get('attStmt').get('x5c') === undefined)
}

/** Empty: the data has none, and so no challenge matches. */
function challengeIn(clientDataJSON: string): string {
  try {
    const data = JSON.parse(Buffer.from(clientDataJSON, 'base64url').toString()) as { challenge?: unknown } | null
    return typeof data?.challenge === 'string' ? data.challenge : ''
  } catch {
    return ''
  }
}

function refusedPasskey(): Failure {
  return fail('passkey_refused')
}

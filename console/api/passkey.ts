/** Passkeys, with the functions of the browser that read and write what the server sends as JSON. */
import { TransportError } from '../../src/client/error.ts'
import {
  ADD_PASSKEY_PATH,
  BEGIN_PASSKEY_PATH,
  PASSKEY_PATH,
  RECOVERY_CODE_PATH,
  REDEEM_PASSKEY_PATH,
} from '../../src/contract/session.ts'
import { postConsole } from './me.ts'

/** Browsers have them on HTTPS and localhost only. */
export function hasPasskeys(): boolean {
  return typeof PublicKeyCredential === 'function' && 'parseRequestOptionsFromJSON' in PublicKeyCredential
}

/** Signs in, or renews the session of the same person. */
export async function signInWithPasskey(): Promise<void> {
  const begun = await postConsole(PASSKEY_PATH, {})
  const options = (await begun.json()) as PublicKeyCredentialRequestOptionsJSON
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options)
  const answer = await ofAuthenticator(() => navigator.credentials.get({ publicKey }))
  await postConsole(REDEEM_PASSKEY_PATH, answer.toJSON())
}

/** Adds a passkey of this device to the person who is signed in. */
export async function addPasskey(name: string): Promise<void> {
  const begun = await postConsole(BEGIN_PASSKEY_PATH, {})
  const options = (await begun.json()) as PublicKeyCredentialCreationOptionsJSON
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options)
  const answer = await ofAuthenticator(() => navigator.credentials.create({ publicKey }))
  await postConsole(ADD_PASSKEY_PATH, { name, response: answer.toJSON() })
}

/** In place of a passkey that was lost, once. */
export async function redeemRecoveryCode(code: string): Promise<void> {
  await postConsole(RECOVERY_CODE_PATH, { code })
}

async function ofAuthenticator(ask: () => Promise<Credential | null>): Promise<PublicKeyCredential> {
  try {
    const credential = await ask()
    if (credential instanceof PublicKeyCredential) return credential
  } catch (error) {
    // The browser does not say whether the person cancelled or has no passkey.
    if (!(error instanceof DOMException)) throw error
    if (error.name === 'InvalidStateError')
      throw new TransportError('aborted', 'This device has a passkey of yours already.')
  }
  throw new TransportError('aborted', 'No passkey was used. Try again, or choose another way.')
}

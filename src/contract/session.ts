/**
 * Sign-in of the console. These paths use a browser's cookie instead of an API key, and are not in the OpenAPI
 * description. Every request that changes something needs the header `X-Berth-Console: 1`, which a form on another site
 * cannot send. Bodies are in `session-body.ts`.
 */

/** POST signs in, DELETE signs out; both need the console's header. */
export const SESSION_PATH = '/console/session'
/**
 * GET: the paths of the key files, for a browser on the server's own machine. POST: the same with the demo account's
 * key, in exchange for the token in the link printed at startup.
 */
export const WELCOME_PATH = '/console/welcome'

export const CONSOLE_HEADER = 'X-Berth-Console'
export const CONSOLE_HEADER_VALUE = '1'

/** GET: the ways to sign in that this server has. */
export const SIGN_IN_PATH = '/console/sign-in'
/** POST: asks for a code by email, and sets the cookie of the flow. */
export const CODE_PATH = '/console/sign-in/code'
/** POST: signs in with the code, in the browser that asked for it. */
export const REDEEM_CODE_PATH = '/console/sign-in/code/redeem'
/** GET: the sign-in at a provider begins here; the browser is sent to the provider. */
export function providerPath(id: string): string {
  return `${SIGN_IN_PATH}/${id}`
}
/**
 * POST: asks for an answer of a passkey (`PublicKeyCredentialRequestOptionsJSON`). Both paths also renew the session of the
 * same person.
 */
export const PASSKEY_PATH = '/console/sign-in/passkey'
/** POST: signs in with the answer, in the browser that asked for it. */
export const REDEEM_PASSKEY_PATH = '/console/sign-in/passkey/redeem'
/** POST, of the person who is signed in: asks for a new passkey (`PublicKeyCredentialCreationOptionsJSON`). */
export const BEGIN_PASSKEY_PATH = '/console/passkeys/begin'
/** POST: adds it under a name. The session gets a new token. */
export const ADD_PASSKEY_PATH = '/console/passkeys'
/** POST, of the person who is signed in: a code on paper stands for a passkey that was lost. The session gets a new token. */
export const RECOVERY_CODE_PATH = '/console/step-up/recovery-code'

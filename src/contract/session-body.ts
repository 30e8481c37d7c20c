/** Bodies of the paths with which the console signs in (session.ts). */
import { z } from 'zod'
import { limits } from '../base/limits.ts'

export const openWelcome = z.strictObject({ token: z.string().min(1).max(100) })

export const signIn = z.strictObject({ key: z.string().trim().min(1).max(limits.apiKeyChars) })

export const consoleWelcome = z.strictObject({
  /** The demo account's key, for the holder of the printed link. */
  demoKey: z.string().optional(),
  /** Paths of the demo account's and the operator's keys, as seen from the directory in which the server was started. */
  keyFile: z.string().optional(),
  operatorKeyFile: z.string().optional(),
})
export type ConsoleWelcome = z.output<typeof consoleWelcome>

export const signUpModes = ['closed', 'invited', 'open'] as const

/** The ways to sign in. */
const signInWays = z.strictObject({
  /** Whether people can sign in as themselves at all, and not only with keys. */
  people: z.boolean(),
  code: z.boolean(),
  passkey: z.boolean(),
  providers: z.array(
    z.strictObject({
      id: z.string(),
      name: z.string(),
      kind: z.enum(['oidc', 'github']),
      /** The provider has not answered lately. Other ways to sign in work. */
      isDown: z.boolean(),
    }),
  ),
  signUp: z.enum(signUpModes),
})
export type SignInWays = z.output<typeof signInWays>

export const requestCode = z.strictObject({ email: z.email().max(255) })

/** The fields that we read; an authenticator may send others. */
const credentialId = z.string().min(1).max(1_400)
const base64url = z.string().max(limits.passkeyAnswerChars)

/** Nothing of them is read. */
const extensions = z.looseObject({}).default({})

/** `AuthenticationResponseJSON` of WebAuthn. */
export const passkeyAnswer = z.looseObject({
  id: credentialId,
  rawId: credentialId,
  type: z.literal('public-key'),
  clientExtensionResults: extensions,
  response: z.looseObject({
    clientDataJSON: base64url,
    authenticatorData: base64url,
    signature: base64url,
    userHandle: z.string().max(200).optional(),
  }),
})

export const newPasskey = z.strictObject({
  name: z.string().trim().min(1).max(100),
  /** `RegistrationResponseJSON` of WebAuthn. */
  response: z.looseObject({
    id: credentialId,
    rawId: credentialId,
    type: z.literal('public-key'),
    clientExtensionResults: extensions,
    response: z.looseObject({
      clientDataJSON: base64url,
      attestationObject: base64url,
      transports: z.array(z.string().max(50)).max(limits.passkeyTransports).optional(),
    }),
  }),
})

export const redeemCode = z.strictObject({ code: z.string().min(1).max(50) })

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
export const signInWays = z.strictObject({
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

export const redeemCode = z.strictObject({ code: z.string().min(1).max(50) })

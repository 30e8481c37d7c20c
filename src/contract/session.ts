/**
 * How the console signs in, beside the operations: these answer a browser's cookie, not a program's key, and are in no
 * OpenAPI description. The cookie counts only on requests of the console's own pages: whatever changes something must
 * carry the header `X-Berth-Console: 1`, which no form of another site can send.
 */
import { z } from 'zod'
import { limits } from '../base/limits.ts'

/** POST signs in, DELETE signs out; both need the console's header. */
export const SESSION_PATH = '/console/session'
/** GET: what the sign-in page may say to who sits at this very machine. */
export const WELCOME_PATH = '/console/welcome'

export const CONSOLE_HEADER = 'X-Berth-Console'
export const CONSOLE_HEADER_VALUE = '1'

export const signIn = z.strictObject({ key: z.string().trim().min(1).max(limits.apiKeyChars) })

export const consoleWelcome = z.strictObject({
  /** The demo account's key, until somebody has signed in with it. */
  demoKey: z.string().optional(),
  /** Where the demo account's key and the operator's are, as seen from where the server was started. */
  keyFile: z.string().optional(),
  operatorKeyFile: z.string().optional(),
})
export type ConsoleWelcome = z.output<typeof consoleWelcome>

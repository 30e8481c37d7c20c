/**
 * How the console signs in, beside the operations: these answer a browser's cookie, not a program's key, and are in no
 * OpenAPI description. The cookie counts only on requests of the console's own pages: whatever changes something must
 * carry the header `X-Berth-Console: 1`, which no form of another site can send.
 */
import { z } from 'zod'
import { limits } from '../base/limits.ts'

/** POST signs in, DELETE signs out; both need the console's header. */
export const SESSION_PATH = '/console/session'
/**
 * GET: in which files the keys are, for a browser on the server's own machine. POST: the same with the demo account's
 * key, for the token of the link that the start has printed.
 */
export const WELCOME_PATH = '/console/welcome'
export const openWelcome = z.strictObject({ token: z.string().min(1).max(100) })

export const CONSOLE_HEADER = 'X-Berth-Console'
export const CONSOLE_HEADER_VALUE = '1'

export const signIn = z.strictObject({ key: z.string().trim().min(1).max(limits.apiKeyChars) })

export const consoleWelcome = z.strictObject({
  /** The demo account's key, for who has opened the printed link. */
  demoKey: z.string().optional(),
  /** Where the demo account's key and the operator's are, as seen from where the server was started. */
  keyFile: z.string().optional(),
  operatorKeyFile: z.string().optional(),
})
export type ConsoleWelcome = z.output<typeof consoleWelcome>

/**
 * Sign-in of the console. These paths use a browser's cookie instead of an API key, and are not in the OpenAPI
 * description. Every request that changes something needs the header `X-Berth-Console: 1`, which a form on another site
 * cannot send.
 */
import { z } from 'zod'
import { limits } from '../base/limits.ts'

/** POST signs in, DELETE signs out; both need the console's header. */
export const SESSION_PATH = '/console/session'
/**
 * GET: the paths of the key files, for a browser on the server's own machine. POST: the same with the demo account's
 * key, in exchange for the token in the link printed at startup.
 */
export const WELCOME_PATH = '/console/welcome'
export const openWelcome = z.strictObject({ token: z.string().min(1).max(100) })

export const CONSOLE_HEADER = 'X-Berth-Console'
export const CONSOLE_HEADER_VALUE = '1'

export const signIn = z.strictObject({ key: z.string().trim().min(1).max(limits.apiKeyChars) })

export const consoleWelcome = z.strictObject({
  /** The demo account's key, for the holder of the printed link. */
  demoKey: z.string().optional(),
  /** Paths of the demo account's and the operator's keys, as seen from the directory in which the server was started. */
  keyFile: z.string().optional(),
  operatorKeyFile: z.string().optional(),
})
export type ConsoleWelcome = z.output<typeof consoleWelcome>

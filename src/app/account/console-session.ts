/**
 * Console sign-in and sign-out. A session stands for a key: it has the key's rights and ends with it. The token is
 * created here, returned once, and stored as a hash.
 */
import { randomBytes } from 'node:crypto'
import { sha256 } from '../../base/id.ts'
import { addMs, type Clock } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import {
  deleteConsoleSession,
  deleteExpiredConsoleSessions,
  findConsoleSessionKey,
  insertConsoleSession,
  keepNewestConsoleSessions,
} from '../../store/account/console-session.ts'
import type { Database, Tx } from '../../store/platform/database.ts'

const TOKEN_BYTES = 32

/** Returns the token. `replaces`: the browser's previous session, which is ended. */
export async function startConsoleSession(tx: Tx, keyId: string, replaces: string | undefined): Promise<string> {
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  const expiresAt = addMs(tx.clock.now(), limits.consoleSessionMs)
  await insertConsoleSession(tx, { tokenHash: sha256(token), keyId, expiresAt })
  if (replaces !== undefined) await deleteConsoleSession(tx, sha256(replaces))
  await deleteExpiredConsoleSessions(tx)
  await keepNewestConsoleSessions(tx, keyId, limits.consoleSessionsPerKey)
  return token
}

export async function endConsoleSession(tx: Tx, token: string): Promise<void> {
  await deleteConsoleSession(tx, sha256(token))
}

/** The public id of the session's key. undefined: the session has ended or is unknown. */
export async function keyOfConsoleSession(
  { db }: Pick<Database, 'db'>,
  clock: Clock,
  token: string,
): Promise<string | undefined> {
  return findConsoleSessionKey(db, sha256(token), clock.now())
}

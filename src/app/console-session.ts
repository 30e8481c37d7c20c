/**
 * Signing in to the console and out of it. A session stands for a key: it can do what the key can do, and ends with it.
 * The token is made here, handed out once, and kept as a hash.
 */
import { randomBytes } from 'node:crypto'
import { sha256 } from '../base/id.ts'
import { addMs, type Clock } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import {
  deleteConsoleSession,
  deleteExpiredConsoleSessions,
  findConsoleSessionKey,
  insertConsoleSession,
  keepNewestConsoleSessions,
} from '../store/console-session.ts'
import type { Database, Tx } from '../store/database.ts'

const TOKEN_BYTES = 32

/** Answers its token. `replaces`: the session that this browser had, which nobody can use any more. */
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

/** The public id of its key; undefined: it has ended, or never was. */
export async function keyOfConsoleSession(
  { db }: Pick<Database, 'db'>,
  clock: Clock,
  token: string,
): Promise<string | undefined> {
  return findConsoleSessionKey(db, sha256(token), clock.now())
}

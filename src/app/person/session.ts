/**
 * Console sessions. A session acts with one key: the one that somebody signed in with, or the hidden key of the person's
 * membership in an account (person-key.ts). It has the key's rights and ends with it. The token is created here, returned
 * once, and stored as a hash.
 */
import { randomBytes } from 'node:crypto'
import { sha256 } from '../../base/id.ts'
import { addMs, type Clock, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import {
  deleteConsoleSession,
  deleteExpiredConsoleSessions,
  findConsoleSession,
  insertConsoleSession,
  keepNewestConsoleSessions,
  noteSessionSeen,
  renewConsoleSession,
  setSessionKey,
  type ConsoleSession,
  type SessionMethod,
} from '../../store/account/console-session.ts'
import { findConfinement } from '../../store/account/identity-provider.ts'
import { findLastMembership, findMembership, listMemberships, type Membership } from '../../store/account/person.ts'
import type { Database, Tx } from '../../store/platform/database.ts'
import { ensurePersonKey } from './person-key.ts'

const TOKEN_BYTES = 32
/** `seen_at` is written at most this often. */
const SEEN_STEP_MS = 5 * 60_000
/** Longer names of browsers are cut. */
const MAX_BROWSER_CHARS = 255

/** The browser that signs in. */
export interface Browser {
  readonly address: string
  /** Its `User-Agent`. undefined: not sent. */
  readonly name: string | undefined
  /** Its cookie has the prefix `__Host-`, which needs HTTPS. */
  readonly isHttps: boolean
  /** The token of its previous session, which ends. */
  readonly replaces: string | undefined
}

/** How the person proved who they are. */
export interface Proof {
  readonly method: SessionMethod
  /** For the method `provider`. */
  readonly providerId: string | null
  /** A second factor was shown too. */
  readonly hasFactor: boolean
}

export async function startKeySession(tx: Tx, keyId: string, browser: Browser): Promise<string> {
  const proof: Proof = { method: 'key', providerId: null, hasFactor: false }
  return startSession(tx, { keyId, personId: null }, proof, browser)
}

/** The session acts in the account that the person used last. Without any account it can only accept invitations. */
export async function startPersonSession(tx: Tx, personId: string, proof: Proof, browser: Browser): Promise<string> {
  const membership = await chooseMembership(tx, personId, proof.providerId)
  const keyId = membership === undefined ? null : await ensurePersonKey(tx, personId, membership)
  return startSession(tx, { keyId, personId }, proof, browser)
}

/** An account whose requirement the sign-in does not meet would refuse the session, so another one comes first. */
async function chooseMembership(tx: Tx, personId: string, providerId: string | null): Promise<Membership | undefined> {
  const confinedTo = providerId === null ? null : await findConfinement(tx.db, providerId, personId)
  if (confinedTo !== null) return findMembership(tx.db, personId, confinedTo)
  const isMet = ({ ssoProviderId }: Membership): boolean => ssoProviderId === null || ssoProviderId === providerId
  const last = await findLastMembership(tx.db, personId)
  if (last === undefined || isMet(last)) return last
  return (await listMemberships(tx.db, personId)).find(isMet) ?? last
}

async function startSession(
  tx: Tx,
  { keyId, personId }: Pick<ConsoleSession, 'keyId' | 'personId'>,
  { method, providerId, hasFactor }: Proof,
  browser: Browser,
): Promise<string> {
  const token = makeToken()
  const now = tx.clock.now()
  await insertConsoleSession(tx, {
    tokenHash: sha256(token),
    keyId,
    personId,
    method,
    providerId,
    factorAt: hasFactor ? now : null,
    expiresAt: addMs(now, limits.consoleSessionMs),
    address: browser.address,
    browser: browser.name?.slice(0, MAX_BROWSER_CHARS) ?? null,
    isHostCookie: browser.isHttps,
  })
  if (browser.replaces !== undefined) await deleteConsoleSession(tx, sha256(browser.replaces))
  await deleteExpiredConsoleSessions(tx)
  const owner = personId === null ? { keyId: keyId ?? '' } : { personId }
  await keepNewestConsoleSessions(tx, owner, limits.consoleSessionsPerOwner)
  return token
}

/**
 * The person has proved who they are. Their session in this browser is renewed and acts in the same account as before;
 * one of somebody else, or of a key, ends.
 */
export async function signInPerson(
  tx: Tx,
  personId: string,
  proof: Proof,
  browser: Browser,
  current: { readonly token: string; readonly isHostCookie: boolean } | undefined,
): Promise<string> {
  const session = current === undefined ? undefined : await findSession(tx, tx.clock, current)
  return session?.personId === personId
    ? renewSession(tx, session.id, proof)
    : startPersonSession(tx, personId, proof, browser)
}

/** A step-up: the same person has proved who they are again. Returns the new token; the old one ends. */
export async function renewSession(tx: Tx, id: string, proof: Proof): Promise<string> {
  const token = makeToken()
  const { method, providerId, hasFactor } = proof
  const factorAt = hasFactor ? tx.clock.now() : null
  await renewConsoleSession(tx, id, { tokenHash: sha256(token), method, providerId, factorAt })
  return token
}

/** The session acts in another account of the person. */
export async function switchAccount(tx: Tx, session: ConsoleSession, accountId: string): Promise<Result<void>> {
  const { personId } = session
  const membership = personId === null ? undefined : await findMembership(tx.db, personId, accountId)
  if (personId === null || membership === undefined) return fail('account_not_found')
  if (session.confinedTo !== null && session.confinedTo !== accountId) return fail('sso_other_account')
  const { ssoProviderId, ssoProviderName } = membership
  if (ssoProviderId !== null && session.providerId !== ssoProviderId)
    return fail('sso_required', { provider: ssoProviderName ?? ssoProviderId })
  await setSessionKey(tx, session.id, await ensurePersonKey(tx, personId, membership))
  return ok(undefined)
}

export async function endSession(tx: Tx, token: string): Promise<void> {
  await deleteConsoleSession(tx, sha256(token))
}

/**
 * undefined: the session has ended or is unknown. `isHostCookie`: the token came in the cookie that no other host can set;
 * a session with such a cookie is not accepted from another.
 */
export async function findSession(
  { db }: Pick<Database, 'db'>,
  clock: Clock,
  { token, isHostCookie }: { readonly token: string; readonly isHostCookie: boolean },
): Promise<ConsoleSession | undefined> {
  const now = clock.now()
  const session = await findConsoleSession(db, sha256(token), now)
  if (session === undefined || (session.isHostCookie && !isHostCookie)) return undefined
  if (isStale(session.seenAt, now)) await noteSessionSeen(db, session.id, now)
  return session
}

function isStale(seenAt: Instant | null, now: Instant): boolean {
  return seenAt === null || now - seenAt > SEEN_STEP_MS
}

function makeToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url')
}

/**
 * Finds the caller of a request. Usually that costs one hash and a memory lookup (key-cache.ts), no database query;
 * expiry is checked each time. A console session costs one query; its key is then checked like any other. Every failure
 * has its own message, and none repeats the secret.
 */
import { timingSafeEqual } from 'node:crypto'
import type { Actor } from '../../app/app.ts'
import { refuseWeakSession } from '../../app/person/account-requirement.ts'
import { findSession } from '../../app/person/session.ts'
import { parseApiKey, type ApiKeyParts } from '../../base/api-key.ts'
import { type Clock, type Instant } from '../../base/instant.ts'
import { defaultRates, limits } from '../../base/limits.ts'
import { assertNever } from '../../base/assert-never.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { within } from '../../base/within.ts'
import { effectiveScopes, holdsScope } from '../../domain/api-key.ts'
import { quotaOf } from '../../domain/quota.ts'
import type { Caller } from '../../gateway/call.ts'
import type { KnownKey } from '../../store/account/api-key.ts'
import type { ConsoleSession } from '../../store/account/console-session.ts'
import { findPerson } from '../../store/account/person.ts'
import type { Database } from '../../store/platform/database.ts'
import type { Credentials, SessionToken } from './credentials.ts'
import { makeKeyCache, type KeyCache } from './key-cache.ts'
import { recordLastUsed } from './last-used.ts'
import type { Log } from '../../store/platform/listener.ts'
import type { ChangedKeys, KnownCaller } from '../workers/messages.ts'

/** The caller, and the properties of its key that the server needs. */
export interface Authenticated extends Actor {
  readonly keyName: string
  readonly accountName: string
  /** null: the default of base/limits. */
  readonly requestsPerMinute: number | null
  /** The cached row. Values derived from it are cached as long. */
  readonly key: KnownKey
  /** When the credentials stop working. null: never. */
  readonly until: Instant | null
}

export interface Authenticator {
  authenticate(credentials: Credentials): Promise<Result<Authenticated>>
  /** The person of a console session, who may have no account: then `accountId` is empty. */
  authenticatePerson(credentials: Credentials): Promise<Result<Actor>>
  /** Returns the inference caller for a key that this authenticator found. */
  callerOf(authenticated: Authenticated): Caller
  /** Creates a reader for one connection: it returns the caller if its key is in memory and may call models. */
  identifier(): (authorization: string) => Caller | undefined
  /** The same for a worker, with a lookup if needed. undefined: a request with this key takes the full path. */
  inferenceCaller(authorization: string): Promise<KnownCaller | undefined>
  /** Records keys that a worker used. */
  keysUsed(lastUsed: ReadonlyMap<string, Instant>): void
  isCaching(): boolean
  /** This server changed the key itself and need not wait for the notification. */
  forget(payload: string): void
  /** Writes when keys were last used. Also runs every few seconds; never rejects. */
  flushLastUsed(): Promise<void>
  close(): Promise<void>
}

export interface AuthenticatorOptions {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  /** Workers must forget these keys too. */
  readonly onForget?: (changed: ChangedKeys) => void
}

export function makeAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { clock, log } = options
  const cache = makeKeyCache(options)
  const lastUsed = recordLastUsed(options)
  const callers = new WeakMap<KnownKey, Caller>()
  const callerOf = (key: KnownKey): Caller => {
    const caller = callers.get(key) ?? makeCaller(key)
    callers.set(key, caller)
    return caller
  }
  const authenticate = async (credentials: Credentials): Promise<Result<Authenticated>> => {
    let lookup: Result<Holder>
    try {
      lookup = await findKey(options, cache, credentials)
    } catch (error) {
      log.warn({ err: error }, 'could not look up a key')
      return fail('database_unavailable', { retryAfterMs: 1_000 })
    }
    if (!lookup.ok) return lookup
    const { key, session, until } = lookup.value
    const now = clock.now()
    const refused = refuseStanding(key, now) ?? (session === undefined ? undefined : refuseSession(key, session))
    if (refused !== undefined) return refused
    lastUsed.note(key.public_id, now)
    return ok(authenticated(key, session, until))
  }
  return {
    authenticate,
    authenticatePerson: async (credentials) => {
      if (credentials.kind === 'session') return findPersonSession(options, cache, credentials)
      const caller = await authenticate(credentials)
      return caller.ok ? fail('person_session_required') : caller
    },
    callerOf: (authenticated) => callerOf(authenticated.key),
    identifier: () => {
      const peek = makeKeyReader(cache, clock)
      return (authorization) => {
        const key = peek(authorization)
        const now = clock.now()
        if (key === undefined || refuseStanding(key, now) !== undefined) return undefined
        if (!holdsScope(effectiveScopes(key.role, key.scopes), 'inference')) return undefined
        lastUsed.note(key.public_id, now)
        return callerOf(key)
      }
    },
    inferenceCaller: async (header) => {
      const caller = await authenticate({ kind: 'authorization', header })
      if (!caller.ok || !holdsScope(caller.value.scopes, 'inference')) return undefined
      const { key, until } = caller.value
      // A worker has no secret key to store bodies with.
      if (key.keeps_bodies) return undefined
      const isCached = cache.isCaching() && cache.peek(key.public_id) === key
      return { caller: callerOf(key), expiresAt: until, isCached }
    },
    keysUsed: (times) => {
      for (const [publicId, at] of times) lastUsed.note(publicId, at)
    },
    isCaching: () => cache.isCaching(),
    forget: (payload) => cache.forget(payload),
    flushLastUsed: lastUsed.flush,
    close: async () => {
      cache.close()
      await lastUsed.close()
    },
  }
}

/** The key of a request, and the session that stands for it. */
interface Holder {
  readonly key: KnownKey
  /** The end of the secret that proved it. null or absent: it has none of its own. */
  readonly until?: Instant | null
  readonly session?: ConsoleSession
}

async function findKey(
  options: AuthenticatorOptions,
  cache: KeyCache,
  credentials: Credentials,
): Promise<Result<Holder>> {
  const findKnown = async (publicId: string, session?: ConsoleSession): Promise<Result<Holder>> => {
    const key = await cache.find(publicId)
    return key === undefined ? invalidKey() : ok({ key, ...(session === undefined ? {} : { session }) })
  }
  if (credentials.kind === 'proven') return findKnown(credentials.keyId)
  if (credentials.kind === 'session') {
    const session = await lookUpSession(options, credentials)
    if (session === undefined) return fail('session_ended')
    return session.keyId === null ? fail('no_account') : findKnown(session.keyId, session)
  }
  const parts = readKey(credentials)
  if (!parts.ok) return parts
  const key = await cache.find(parts.value.publicId)
  // Anything that only the holder of the secret may learn comes after this comparison.
  const proof = key === undefined ? undefined : proofOf(key, parts.value, options.clock.now())
  return key === undefined || proof === undefined ? invalidKey() : ok({ key, ...proof })
}

/** Checks whether a secret is of the key, and until when. undefined: it is not, or no longer. */
function proofOf(
  { secret_hash: hash, old_secret_hash: oldHash, old_secret_until: oldUntil }: KnownKey,
  { secretHash }: ApiKeyParts,
  now: Instant,
): { readonly until: Instant | null } | undefined {
  if (timingSafeEqual(hash, secretHash)) return { until: null }
  const isOld = oldHash !== null && oldUntil !== null && oldUntil > now && timingSafeEqual(oldHash, secretHash)
  return isOld ? { until: oldUntil } : undefined
}

function lookUpSession(
  { database, clock }: AuthenticatorOptions,
  token: SessionToken,
): Promise<ConsoleSession | undefined> {
  const lookup = findSession(database, clock, token)
  return within(limits.statementTimeoutMs, lookup, 'the database did not answer in time')
}

/** The account's requirements do not apply: a person meets them with these operations. */
async function findPersonSession(
  options: AuthenticatorOptions,
  cache: KeyCache,
  token: SessionToken,
): Promise<Result<Actor>> {
  try {
    const session = await lookUpSession(options, token)
    if (session === undefined) return fail('session_ended')
    const person = session.personId === null ? undefined : await findPerson(options.database.db, session.personId)
    if (person === undefined) return fail('person_session_required')
    if (person.disabled_at !== null) return fail('person_disabled')
    const key = session.keyId === null ? undefined : await cache.find(session.keyId)
    const { accountId, keyId, role, scopes } = key === undefined ? nobody : authenticated(key)
    return ok({ accountId, keyId, role, scopes, personId: person.id, session })
  } catch (error) {
    options.log.warn({ err: error }, 'could not look up a session')
    return fail('database_unavailable', { retryAfterMs: 1_000 })
  }
}

const nobody = { accountId: '', keyId: '', role: 'viewer', scopes: [] } as const

/**
 * Creates a key reader for one connection, which knows only keys in memory. A repeated header is not parsed and
 * compared again.
 */
function makeKeyReader(cache: KeyCache, clock: Clock): (authorization: string) => KnownKey | undefined {
  let last: { authorization: string; publicId: string; key: KnownKey; until: Instant | null } | undefined
  return (authorization) => {
    if (last?.authorization !== authorization || cache.peek(last.publicId) !== last.key) {
      const parts = readAuthorization(authorization)
      const key = parts.ok ? cache.peek(parts.value.publicId) : undefined
      const proof = parts.ok && key !== undefined ? proofOf(key, parts.value, clock.now()) : undefined
      if (!parts.ok || key === undefined || proof === undefined) return undefined
      last = { authorization, publicId: parts.value.publicId, key, until: proof.until }
    }
    return last.until === null || last.until > clock.now() ? last.key : undefined
  }
}

function authenticated(key: KnownKey, session?: ConsoleSession, until: Instant | null = null): Authenticated {
  return {
    ...(session === undefined ? {} : { session }),
    accountId: key.account_id,
    personId: key.person_id,
    keyId: key.public_id,
    role: key.role,
    scopes: effectiveScopes(key.role, key.scopes),
    keyName: key.name,
    accountName: key.account_name,
    requestsPerMinute: key.requests_per_min,
    key,
    until: earlierOf(key.expires_at, until),
  }
}

/** null: never. */
function earlierOf(one: Instant | null, other: Instant | null): Instant | null {
  if (one === null || other === null) return one ?? other
  return one < other ? one : other
}

function makeCaller(key: KnownKey): Caller {
  const quota = quotaOf(key.account_quota)
  const isCapped = key.monthly_limit_nano !== null || key.total_limit_nano !== null
  return {
    accountId: key.account_id,
    keyId: key.public_id,
    purse: { accountId: key.account_id, apiKeyId: isCapped ? key.public_id : null },
    class: key.class,
    allowedModels: key.allowed_models,
    requestsPerMinute: key.requests_per_min ?? defaultRates.perKey,
    tokensPerMinute: key.tokens_per_min,
    account: {
      requestsPerMinute: quota.requestsPerMinute,
      tokensPerMinute: quota.tokensPerMinute,
      streams: quota.streams,
      keepsBodies: key.keeps_bodies,
      storesResponses: key.stores_responses,
    },
  }
}

function readKey(credentials: Exclude<Credentials, { kind: 'session' | 'proven' }>): Result<ApiKeyParts> {
  switch (credentials.kind) {
    case 'none':
      return missingKey()
    case 'authorization':
      return readAuthorization(credentials.header)
    case 'key':
      return readKeyText(credentials.text)
    case 'cross-site':
      return fail('cross_site')
    default:
      return assertNever(credentials)
  }
}

function readAuthorization(authorization: string): Result<ApiKeyParts> {
  if (authorization.trim() === '') return missingKey()
  const [, text] = /^Bearer +(\S+) *$/i.exec(authorization) ?? []
  if (text === undefined) return fail('not_bearer')
  return readKeyText(text)
}

function readKeyText(text: string): Result<ApiKeyParts> {
  const parsed = parseApiKey(text)
  if (parsed.kind === 'key') return ok(parsed.key)
  return parsed.kind === 'typo' ? fail('mistyped_key') : fail('malformed_key')
}

function refuseStanding(key: KnownKey, now: Instant): Failure | undefined {
  if (key.revoked_at !== null) return invalidKey()
  if (key.expires_at !== null && key.expires_at <= now) {
    return fail('expired_key', { expiredAt: key.expires_at })
  }
  if (key.disabled_at !== null) return fail('person_disabled')
  if (key.suspended_at !== null) {
    return fail('account_suspended')
  }
  return undefined
}

/** Applies what the account requires of people who sign in, but not of keys. */
function refuseSession(key: KnownKey, session: ConsoleSession): Failure | undefined {
  const { account_id: accountId, requires_factor: requiresFactor } = key
  const { sso_provider_id: ssoProviderId, sso_provider_name: ssoProviderName } = key
  return refuseWeakSession({ accountId, requiresFactor, ssoProviderId, ssoProviderName }, session)
}

function missingKey(): Failure {
  return fail('missing_key')
}

function invalidKey(): Failure {
  return fail('invalid_key')
}

/** API keys: created with no more rights than their creator has, shown once, revoked permanently. */
import { makeApiKey } from '../../base/api-key.ts'
import { addMs, formatInstantOrNull, HOUR_MS, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { Role } from '../../contract/account.ts'
import type { KeyClass } from '../../contract/key-class.ts'
import type { Scope } from '../../contract/endpoint.ts'
import { originsBeyond } from '../../domain/allowed-origin.ts'
import { holdsScope, viewerScopes, whyNotManageKey, withoutRepeats, type KeyRank } from '../../domain/api-key.ts'
import type { NewEvent } from '../../domain/event.ts'
import { quotaExceeded, quotaOf } from '../../domain/quota.ts'
import { findMember, lockAccount } from '../../store/account/account.ts'
import {
  countLiveApiKeys,
  findApiKey,
  insertApiKey,
  replaceSecret,
  revokeApiKeys,
  type ApiKey,
} from '../../store/account/api-key.ts'
import type { Tx } from '../../store/platform/database.ts'
import { recordEvent } from '../../store/notice/event.ts'
import type { Actor } from '../app.ts'

export interface ApiKeyInput {
  readonly name: string
  /** Default: `key`. */
  readonly kind?: 'key' | 'device'
  /** Creates the key for another member; owners only. */
  readonly memberId?: string | undefined
  readonly scopes: readonly Scope[]
  readonly expiresAt: Instant | null
  readonly allowedModels: readonly string[] | null
  /** The web pages that may call with it; `*` is any. */
  readonly allowedOrigins: readonly string[]
  readonly monthlyLimit: NanoUsd | null
  readonly totalLimit: NanoUsd | null
  /** undefined: interactive. */
  readonly class?: KeyClass | undefined
  readonly requestsPerMinute: number | null
  readonly tokensPerMinute: number | null
}

/** `text` is the key itself, which is not stored. */
export async function createApiKey(
  tx: Tx,
  actor: Actor,
  input: ApiKeyInput,
): Promise<Result<{ key: ApiKey; text: string }>> {
  if (input.expiresAt !== null && input.expiresAt <= tx.clock.now()) {
    return failField(['expiresAt'], 'time_in_past')
  }
  const scopes = withoutRepeats(input.scopes)
  const lacking = scopes.filter((scope) => !holdsScope(actor.scopes, scope))
  if (lacking.length > 0) {
    return fail('scope_not_held', { missing: lacking })
  }
  const excess = exceedsCaller(await findApiKey(tx.db, actor.accountId, actor.keyId), input)
  if (excess !== undefined) return excess
  const account = await lockAccount(tx, actor.accountId)
  const caller = await findMember(tx.db, actor.accountId, actor.personId)
  if (account === undefined || caller === undefined) return notAMember()
  const personId = input.memberId ?? caller.id
  if (personId !== caller.id && caller.role !== 'owner') {
    return fail('owner_only', { action: 'create keys for other members' })
  }
  const member = personId === caller.id ? caller : await findMember(tx.db, account.id, personId)
  if (member === undefined) return failField(['memberId'], 'member_not_found')
  const readOnly: readonly Scope[] = viewerScopes
  if (member.role === 'viewer' && !scopes.every((scope) => readOnly.includes(scope))) {
    return fail('viewer_is_read_only', { scopes: readOnly })
  }
  const quota = quotaOf(account.quota)
  if ((await countLiveApiKeys(tx, account.id)) >= quota.keys) return quotaExceeded('keys', quota)
  const material = makeApiKey()
  const { accountId } = actor
  const { name, kind = 'key' } = input
  const key = await insertApiKey(tx, material, { accountId, personId, name, kind, scopes, limits: input })
  recordEvent(tx, keyCreated(key))
  return ok({ key, text: material.text })
}

/**
 * Gives a key another secret. The answer has the new key, so whoever rotates the key of somebody else needs the rights to
 * create it; a key that rotates itself gets nothing that it does not have.
 */
export async function rotateApiKey(
  tx: Tx,
  actor: Actor,
  publicId: string,
  graceHours: number,
): Promise<Result<{ key: ApiKey; text: string }>> {
  // Read under the lock, so that roles cannot change between check and write.
  await lockAccount(tx, actor.accountId)
  const key = await findApiKey(tx.db, actor.accountId, publicId)
  if (key === undefined || key.kind === 'person') return noSuchKey()
  const now = tx.clock.now()
  const isActive = key.revoked_at === null && (key.expires_at === null || key.expires_at > now)
  if (key.kind !== 'key' || !isActive) return fail('key_not_rotatable')
  const refused = publicId === actor.keyId ? undefined : await refuseToRotate(tx, actor, key)
  if (refused !== undefined) return refused
  const credentials = makeApiKey(publicId)
  const rotated = await replaceSecret(
    tx,
    { accountId: actor.accountId, credentials },
    { oldUntil: addMs(now, graceHours * HOUR_MS), exceptSession: actor.session?.id },
  )
  if (rotated === undefined) return noSuchKey()
  recordEvent(tx, keyRotated(rotated))
  return ok({ key: rotated, text: credentials.text })
}

async function refuseToRotate(tx: Tx, actor: Actor, key: ApiKey): Promise<Failure | undefined> {
  const lacking = key.scopes.filter((scope) => !holdsScope(actor.scopes, scope))
  if (lacking.length > 0) return fail('scope_not_held', { missing: lacking })
  const excess = exceedsCaller(await findApiKey(tx.db, actor.accountId, actor.keyId), {
    name: key.name,
    scopes: key.scopes,
    expiresAt: key.expires_at,
    allowedModels: key.allowed_models,
    allowedOrigins: key.allowed_origins,
    monthlyLimit: key.monthly_limit_nano,
    totalLimit: key.total_limit_nano,
    class: key.class,
    requestsPerMinute: key.requests_per_min,
    tokensPerMinute: key.tokens_per_min,
  })
  if (excess !== undefined) return excess
  const caller = await findMember(tx.db, actor.accountId, actor.personId)
  if (caller === undefined) return notAMember()
  const isOwn = key.person_id === caller.id
  return isOwn || caller.role === 'owner' ? undefined : fail('owner_only', { action: 'rotate keys of other members' })
}

/** A limited key cannot create one with higher limits. */
function exceedsCaller(calling: ApiKey | undefined, input: ApiKeyInput): Failure | undefined {
  if (calling === undefined) return undefined
  const limited = calling.monthly_limit_nano ?? calling.total_limit_nano ?? calling.allowed_models
  if (limited !== null || (calling.class === 'batch' && input.class !== 'batch')) {
    return fail('key_is_limited')
  }
  if (calling.expires_at !== null && (input.expiresAt === null || input.expiresAt > calling.expires_at)) {
    return failField(['expiresAt'], 'exceeds_parent_key_expiry')
  }
  const { requests_per_min: rate, tokens_per_min: tokens } = calling
  if (rate !== null && (input.requestsPerMinute === null || input.requestsPerMinute > rate)) {
    return failField(['requestsPerMinute'], 'exceeds_parent_key_limit', { limit: rate, unit: 'requests' })
  }
  if (tokens !== null && (input.tokensPerMinute === null || input.tokensPerMinute > tokens)) {
    return failField(['tokensPerMinute'], 'exceeds_parent_key_limit', { limit: tokens, unit: 'tokens' })
  }
  const beyond = originsBeyond(calling.allowed_origins, input.allowedOrigins)
  if (beyond.length > 0) return failField(['allowedOrigins'], 'exceeds_parent_key_origins', { origins: beyond })
  return undefined
}

/** Revoking a revoked key succeeds and records no event. */
export async function revokeApiKey(tx: Tx, actor: Actor, publicId: string): Promise<Result<ApiKey>> {
  // Read under the lock, so that roles cannot change between check and write.
  await lockAccount(tx, actor.accountId)
  const key = await findApiKey(tx.db, actor.accountId, publicId)
  if (key === undefined) return noSuchKey()
  if (key.revoked_at !== null) return ok(key)
  const caller = await findMember(tx.db, actor.accountId, actor.personId)
  const holder = await findMember(tx.db, actor.accountId, key.person_id)
  if (caller === undefined) return notAMember()
  // A key whose person has left is dead already; anyone who manages keys may revoke it.
  const refused = holder && refuseToManage({ ...actor, role: caller.role }, holder, [key])
  if (refused !== undefined) return refused
  const [revoked] = await revokeApiKeys(tx, actor.accountId, { publicId })
  if (revoked === undefined) return noSuchKey()
  recordEvent(tx, keyRevoked(revoked))
  return ok(revoked)
}

/** For every change that removes rights from a person's keys. Call it under `lockAccount`. */
export function refuseToManage(
  by: KeyRank,
  holder: { readonly id: string; readonly role: Role },
  keys: readonly ApiKey[],
): Failure | undefined {
  // A person without keys still has a role.
  const ranks = keys.length === 0 ? [[]] : keys.map((key) => key.scopes)
  for (const scopes of ranks) {
    const why = whyNotManageKey(by, { personId: holder.id, role: holder.role, scopes })
    if (why !== undefined) return fail(why, { missing: [] })
  }
  return undefined
}

/** The person was removed after the key was checked. */
export function notAMember(): Failure {
  return fail('not_a_member')
}

function noSuchKey(): Failure {
  return fail('key_not_found')
}

/** Events leave Berth (webhooks, streams), so they do not even contain the last characters of a key. */
export function keyCreated(key: ApiKey): NewEvent {
  return keyEvent('key.created', key, { scopes: key.scopes, expiresAt: formatInstantOrNull(key.expires_at) })
}

export function keyRevoked(key: ApiKey): NewEvent {
  return keyEvent('key.revoked', key, {})
}

function keyRotated(key: ApiKey): NewEvent {
  const { old_secret_until: until } = key
  return keyEvent('key.rotated', key, { graceEndsAt: formatInstantOrNull(until) })
}

function keyEvent(
  type: 'key.created' | 'key.rotated' | 'key.revoked',
  key: ApiKey,
  data: Record<string, unknown>,
): NewEvent {
  return {
    accountId: key.account_id,
    type,
    subject: { kind: 'key', id: key.public_id },
    data: { name: key.name, ...data },
  }
}

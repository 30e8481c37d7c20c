/**
 * API keys. Servers cache keys in memory, so each write that removes rights also sends all of them a notification,
 * which PostgreSQL delivers when the transaction commits: a key's public id, or `account:<id>`.
 */
import { sql, type Selectable } from 'kysely'
import { formatInstant, toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { NewApiKey } from '../../base/api-key.ts'
import { limits, type Quota } from '../../base/limits.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { Role } from '../../contract/account.ts'
import type { KeyClass } from '../../contract/key-class.ts'
import type { Scope } from '../../contract/endpoint.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export const KEY_CHANNEL = 'berth_key'
export const ACCOUNT_PREFIX = 'account:'
/** A wake-up with this prefix names the keys to drop from the caches of this server. */
export const KEY_WAKE = 'keys:'

/** The hashes of its secrets are not part of it: only authentication reads that. */
export type ApiKey = Omit<Selectable<Tables['api_key']>, 'secret_hash' | 'old_secret_hash'>

const columns = [
  'public_id',
  'kind',
  'account_id',
  'person_id',
  'name',
  'last4',
  'scopes',
  'allowed_models',
  'allowed_origins',
  'monthly_limit_nano',
  'total_limit_nano',
  'class',
  'requests_per_min',
  'tokens_per_min',
  'created_at',
  'expires_at',
  'last_used_at',
  'revoked_at',
  'old_secret_until',
] as const satisfies ReadonlyArray<keyof ApiKey>

export interface ApiKeyLimits {
  readonly expiresAt: Instant | null
  readonly allowedModels: readonly string[] | null
  readonly allowedOrigins: readonly string[]
  readonly monthlyLimit: NanoUsd | null
  readonly totalLimit: NanoUsd | null
  /** undefined: interactive. */
  readonly class?: KeyClass | undefined
  readonly requestsPerMinute: number | null
  readonly tokensPerMinute: number | null
}

export const noKeyLimits: ApiKeyLimits = {
  expiresAt: null,
  allowedModels: null,
  allowedOrigins: [],
  monthlyLimit: null,
  totalLimit: null,
  requestsPerMinute: null,
  tokensPerMinute: null,
}

export async function insertApiKey(
  tx: Tx,
  credentials: NewApiKey,
  key: {
    accountId: string
    personId: string
    name: string
    scopes: readonly Scope[]
    limits: ApiKeyLimits
    /** Default: `key`. */
    kind?: 'key' | 'device'
  },
): Promise<ApiKey> {
  const { expiresAt, allowedModels, monthlyLimit, totalLimit, requestsPerMinute, tokensPerMinute } = key.limits
  return tx.db
    .insertInto('api_key')
    .values({
      public_id: credentials.publicId,
      account_id: key.accountId,
      person_id: key.personId,
      name: key.name,
      kind: key.kind ?? 'key',
      last4: credentials.last4,
      secret_hash: credentials.secretHash,
      scopes: [...key.scopes],
      allowed_models: allowedModels === null ? null : [...allowedModels],
      allowed_origins: [...key.limits.allowedOrigins],
      monthly_limit_nano: monthlyLimit,
      total_limit_nano: totalLimit,
      class: key.limits.class ?? 'interactive',
      requests_per_min: requestsPerMinute,
      tokens_per_min: tokensPerMinute,
      created_at: toDate(tx.clock.now()),
      expires_at: toDateOrNull(expiresAt),
    })
    .returning(columns)
    .executeTakeFirstOrThrow()
}

/** Lists all keys that somebody has, revoked ones too, newest first. */
export async function listApiKeys(db: Db, accountId: string): Promise<ApiKey[]> {
  return db
    .selectFrom('api_key')
    .select(columns)
    .where('account_id', '=', accountId)
    .where('kind', '<>', 'person')
    .orderBy('created_at', 'desc')
    .orderBy('public_id')
    .limit(limits.plainListRows)
    .execute()
}

export async function findApiKey(db: Db, accountId: string, publicId: string): Promise<ApiKey | undefined> {
  return db
    .selectFrom('api_key')
    .select(columns)
    .where('account_id', '=', accountId)
    .where('public_id', '=', publicId)
    .executeTakeFirst()
}

/** Call it under `lockAccount`. */
export async function countLiveApiKeys(tx: Tx, accountId: string): Promise<number> {
  const row = await tx.db
    .selectFrom('api_key')
    .select(sql<number>`count(*)::integer`.as('keys'))
    .where('account_id', '=', accountId)
    .where('kind', '<>', 'person')
    .where('revoked_at', 'is', null)
    .where((e) => e.or([e('expires_at', 'is', null), e('expires_at', '>', at(tx.clock.now()))]))
    .executeTakeFirstOrThrow()
  return row.keys
}

/** Lists the keys of one person. Call it under `lockAccount`. */
export async function listLiveApiKeys(tx: Tx, accountId: string, personId: string): Promise<ApiKey[]> {
  return tx.db
    .selectFrom('api_key')
    .select(columns)
    .where('account_id', '=', accountId)
    .where('person_id', '=', personId)
    .where('revoked_at', 'is', null)
    .where((e) => e.or([e('expires_at', 'is', null), e('expires_at', '>', at(tx.clock.now()))]))
    .execute()
}

/** Revokes those of the named keys that are active, and returns them. */
export async function revokeApiKeys(
  tx: Tx,
  accountId: string,
  which: { publicId: string } | { personId: string },
): Promise<ApiKey[]> {
  const update = tx.db
    .updateTable('api_key')
    .set({ revoked_at: toDate(tx.clock.now()) })
    .where('account_id', '=', accountId)
    .where('revoked_at', 'is', null)
  const keys = await (
    'publicId' in which
      ? update.where('public_id', '=', which.publicId)
      : update.where('person_id', '=', which.personId)
  )
    .returning(columns)
    .execute()
  // All servers drop it from their caches.
  for (const key of keys) await notify(tx, key.public_id)
  return keys
}

/**
 * Gives an active key another secret; the one that it has works until `oldUntil`. Sessions that were opened with the key
 * end, except one: whoever holds the old secret may have opened them.
 */
export async function replaceSecret(
  tx: Tx,
  key: { readonly accountId: string; readonly credentials: NewApiKey },
  { oldUntil, exceptSession }: { readonly oldUntil: Instant; readonly exceptSession: string | undefined },
): Promise<ApiKey | undefined> {
  const { accountId, credentials } = key
  const rotated = await tx.db
    .updateTable('api_key')
    .set((e) => ({
      old_secret_hash: e.ref('secret_hash'),
      old_secret_until: toDate(oldUntil),
      secret_hash: credentials.secretHash,
      last4: credentials.last4,
    }))
    .where('account_id', '=', accountId)
    .where('public_id', '=', credentials.publicId)
    .where('revoked_at', 'is', null)
    .returning(columns)
    .executeTakeFirst()
  if (rotated === undefined) return undefined
  let sessions = tx.db
    .deleteFrom('console_session')
    .where('api_key_id', '=', credentials.publicId)
    .where('person_id', 'is', null)
  if (exceptSession !== undefined) sessions = sessions.where('id', '<>', exceptSession)
  await sessions.execute()
  await notify(tx, credentials.publicId)
  return rotated
}

/** Drops the keys of an account from the caches of all servers: its status or a role in it has changed. */
export async function notifyAccountKeys(tx: Tx, accountId: string): Promise<void> {
  await notify(tx, ACCOUNT_PREFIX + accountId)
}

/** This server drops it before it responds, the others when they receive the notification. */
async function notify(tx: Tx, payload: string): Promise<void> {
  await sql`select pg_notify(${KEY_CHANNEL}, ${payload})`.execute(tx.db)
  tx.wake.add(KEY_WAKE + payload)
}

/** A key as authentication needs it. */
export interface KnownKey {
  readonly public_id: string
  readonly kind: 'key' | 'device' | 'person'
  readonly name: string
  readonly secret_hash: Buffer
  /** The secret before the last rotation, and until when it works. null: it was never rotated. */
  readonly old_secret_hash: Buffer | null
  readonly old_secret_until: Instant | null
  readonly scopes: readonly Scope[]
  readonly allowed_models: readonly string[] | null
  readonly allowed_origins: readonly string[]
  readonly class: KeyClass
  readonly requests_per_min: number | null
  readonly tokens_per_min: number | null
  readonly monthly_limit_nano: NanoUsd | null
  readonly total_limit_nano: NanoUsd | null
  readonly expires_at: Instant | null
  readonly revoked_at: Instant | null
  readonly account_id: string
  readonly account_name: string
  /** The operator has set these values; the others are the default. */
  readonly account_quota: Partial<Quota>
  readonly keeps_bodies: boolean
  readonly stores_responses: boolean
  readonly suspended_at: Instant | null
  readonly person_id: string
  /** null: the person may sign in. */
  readonly disabled_at: Instant | null
  readonly role: Role
  /** Whether sessions of people need a second factor. */
  readonly requires_factor: boolean
  /** The provider at which people must sign in. null: any way. */
  readonly sso_provider_id: string | null
  readonly sso_provider_name: string | null
  /** Whether no owner has accepted the newest terms. False: there are none. */
  readonly owes_terms: boolean
}

/** A key whose person has left the account counts as unknown. */
export async function findKnownKey(db: Db, publicId: string): Promise<KnownKey | undefined> {
  return db
    .selectFrom('api_key as k')
    .innerJoin('account as a', 'a.id', 'k.account_id')
    .innerJoin('member as m', (join) =>
      join.onRef('m.account_id', '=', 'k.account_id').onRef('m.person_id', '=', 'k.person_id'),
    )
    .innerJoin('person as p', 'p.id', 'k.person_id')
    .leftJoin('identity_provider as i', 'i.id', 'a.sso_provider_id')
    .select([
      'k.public_id',
      'k.kind',
      'k.name',
      'k.secret_hash',
      'k.old_secret_hash',
      'k.old_secret_until',
      'k.scopes',
      'k.allowed_models',
      'k.allowed_origins',
      'k.class',
      'k.requests_per_min',
      'k.tokens_per_min',
      'k.monthly_limit_nano',
      'k.total_limit_nano',
      'k.expires_at',
      'k.revoked_at',
      'k.account_id',
      'a.name as account_name',
      'a.quota as account_quota',
      'a.keeps_bodies',
      'a.stores_responses',
      'a.suspended_at',
      'k.person_id',
      'p.disabled_at',
      'm.role',
      'a.requires_factor',
      'a.sso_provider_id',
      'i.name as sso_provider_name',
    ])
    .select(
      sql<boolean>`exists (select 1 from terms) and not exists (
        select 1 from member o join terms_acceptance t on t.person_id = o.person_id
        where o.account_id = k.account_id and o.role = 'owner' and o.accepted_at is not null
          and t.version = (select max(version) from terms))`.as('owes_terms'),
    )
    .where('k.public_id', '=', publicId)
    .executeTakeFirst()
}

/**
 * Writes when keys were last used, many at once. Locked rows are skipped: another server is writing the same, and two
 * servers that waited for each other's rows would deadlock.
 */
export async function writeLastUsed(db: Db, useTimes: ReadonlyMap<string, Instant>): Promise<void> {
  await sql`
    with given as (
      select * from unnest(${[...useTimes.keys()]}::text[], ${[...useTimes.values()].map(formatInstant)}::timestamptz[])
        as given (public_id, used_at)
    ), free as (
      select k.public_id, given.used_at from api_key k join given using (public_id)
      where k.last_used_at is null or k.last_used_at < given.used_at
      for no key update of k skip locked
    )
    update api_key k set last_used_at = free.used_at from free where k.public_id = free.public_id`.execute(db)
}

/**
 * Keys in memory. A key is cached only while notifications arrive (listener.ts). A key that was being looked up when a
 * notification came serves its request but is not cached: the lookup may have read the old row.
 *
 * Without notifications every request queries the database. If the database does not answer either, nobody can revoke
 * a key there, so keys known at the last notification stay valid for some minutes: a database outage does not stop
 * inference.
 */
import { addMs, MINUTE_MS, type Clock, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { remember } from '../../base/remember.ts'
import { within } from '../../base/within.ts'
import { ACCOUNT_PREFIX, findKnownKey, KEY_CHANNEL, type KnownKey } from '../../store/account/api-key.ts'
import type { Database } from '../../store/platform/database.ts'
import type { ChangedKeys } from '../workers/messages.ts'

/** Unknown ids are cached for a moment, so that a client retrying in a loop does not reach the database. */
const UNKNOWN_MS = 5_000
const MAX_UNKNOWN_ENTRIES = 10_000
/** Without notifications and without the database, a known key stays valid for this long. */
const TRUSTED_MS = 10 * MINUTE_MS
/** After this long, a key known before is used without a lookup. An unknown one waits: it would have to be rejected. */
const LOOKUP_TIMEOUT_MS = 2_000
/** After a failed lookup, known keys are not looked up again for this long. */
const LOOKUP_RETRY_MS = 500

export interface KeyCache {
  /** undefined: there is no such key. */
  find(publicId: string): Promise<KnownKey | undefined>
  /** The cached key, if it may still be trusted. */
  peek(publicId: string): KnownKey | undefined
  /** Whether keys are cached at the moment. */
  isCaching(): boolean
  /** A key, or all keys of an account, have changed; `payload` is that of the notification. */
  forget(payload: string): void
  close(): void
}

export interface KeyCacheOptions {
  readonly database: Database
  readonly clock: Clock
  readonly onForget?: (changed: ChangedKeys) => void
}

export function makeKeyCache({ database, clock, onForget }: KeyCacheOptions): KeyCache {
  /** In order of use, so that the first is the next to evict. */
  const known = new Map<string, KnownKey>()
  const unknown = new Map<string, Instant>()
  const loading = new Map<string, Promise<KnownKey | undefined>>()
  /** The keys known when notifications last arrived. */
  let remembered = new Map<string, KnownKey>()
  let trustedUntil = clock.now()
  let noLookupUntilMs = Number.NEGATIVE_INFINITY

  const forget = (payload: string): void => {
    if (!payload.startsWith(ACCOUNT_PREFIX)) {
      for (const map of [known, unknown, loading]) map.delete(payload)
      onForget?.({ kind: 'keyId', id: payload })
      return
    }
    const accountId = payload.slice(ACCOUNT_PREFIX.length)
    for (const [publicId, key] of known) if (key.account_id === accountId) known.delete(publicId)
    // The accounts of keys that are being looked up are not known yet.
    loading.clear()
    onForget?.({ kind: 'accountId', id: accountId })
  }
  const lost = (): void => {
    if (known.size > 0) {
      remembered = new Map(known)
      trustedUntil = addMs(clock.now(), TRUSTED_MS)
    }
    for (const map of [known, unknown, loading]) map.clear()
    onForget?.({ kind: 'any' })
  }
  const trusted = (publicId: string): KnownKey | undefined =>
    clock.now() < trustedUntil ? remembered.get(publicId) : undefined
  const findWithoutNotifications = async (publicId: string): Promise<KnownKey | undefined> => {
    const last = trusted(publicId)
    if (last !== undefined && performance.now() < noLookupUntilMs) return last
    try {
      const lookup = findKnownKey(database.db, publicId)
      const patienceMs = last === undefined ? limits.statementTimeoutMs : LOOKUP_TIMEOUT_MS
      const found = await within(patienceMs, lookup, 'the database did not answer in time')
      remembered.delete(publicId)
      return found
    } catch (error) {
      noLookupUntilMs = performance.now() + LOOKUP_RETRY_MS
      if (last === undefined) throw error
      return last
    }
  }
  const listener = database.notifications.listen({ channel: KEY_CHANNEL, onNotification: forget, onGap: lost })

  const lookUp = async (publicId: string): Promise<KnownKey | undefined> => {
    const lookup = findKnownKey(database.db, publicId)
    loading.set(publicId, lookup)
    try {
      const key = await lookup
      if (loading.get(publicId) !== lookup) return key
      if (key === undefined) remember(unknown, publicId, addMs(clock.now(), UNKNOWN_MS), MAX_UNKNOWN_ENTRIES)
      else remember(known, publicId, key, limits.keyCacheEntries)
      return key
    } finally {
      if (loading.get(publicId) === lookup) loading.delete(publicId)
    }
  }

  return {
    find: async (publicId) => {
      if (!listener.isTrusted()) return findWithoutNotifications(publicId)
      const key = known.get(publicId)
      if (key !== undefined) {
        known.delete(publicId)
        known.set(publicId, key)
        return key
      }
      if ((unknown.get(publicId) ?? 0) > clock.now()) return undefined
      return loading.get(publicId) ?? lookUp(publicId)
    },
    peek: (publicId) => {
      if (listener.isTrusted()) return known.get(publicId)
      return performance.now() < noLookupUntilMs ? trusted(publicId) : undefined
    },
    isCaching: () => listener.isTrusted(),
    forget,
    close: () => listener.close(),
  }
}

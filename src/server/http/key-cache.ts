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
import type { Listener } from '../../store/platform/listener.ts'
import type { ChangedKeys } from '../workers/messages.ts'

/** Unknown ids are cached for a moment, so that a client retrying in a loop does not reach the database. */
const UNKNOWN_MS = 5_000
const MAX_UNKNOWN_ENTRIES = 10_000
/** Without notifications and without the database, a known key stays valid for this long. */
const TRUSTED_MS = 10 * MINUTE_MS
/**
 * After this long, a key that was known before is used without a lookup. An unknown key waits, since it would have to
 * be rejected.
 */
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

export function makeKeyCache(options: KeyCacheOptions): KeyCache {
  return new Keys(options)
}

class Keys implements KeyCache {
  readonly #options: KeyCacheOptions
  /** Keys in order of use, so that the first is the next to evict. */
  readonly #known = new Map<string, KnownKey>()
  readonly #unknown = new Map<string, Instant>()
  readonly #loading = new Map<string, Promise<KnownKey | undefined>>()
  readonly #listener: Listener
  /** The keys known when notifications last arrived. */
  #remembered = new Map<string, KnownKey>()
  #trustedUntil: Instant
  #noLookupUntilMs = Number.NEGATIVE_INFINITY

  constructor(options: KeyCacheOptions) {
    this.#options = options
    this.#trustedUntil = options.clock.now()
    this.#listener = options.database.notifications.listen({
      channel: KEY_CHANNEL,
      onNotification: (payload) => this.forget(payload),
      onGap: () => this.#lose(),
    })
  }

  async find(publicId: string): Promise<KnownKey | undefined> {
    if (!this.#listener.isTrusted()) return this.#findWithoutNotifications(publicId)
    const key = this.#known.get(publicId)
    if (key !== undefined) {
      this.#known.delete(publicId)
      this.#known.set(publicId, key)
      return key
    }
    if ((this.#unknown.get(publicId) ?? 0) > this.#options.clock.now()) return undefined
    return this.#loading.get(publicId) ?? this.#lookUp(publicId)
  }

  peek(publicId: string): KnownKey | undefined {
    if (this.#listener.isTrusted()) return this.#known.get(publicId)
    return performance.now() < this.#noLookupUntilMs ? this.#trusted(publicId) : undefined
  }

  isCaching(): boolean {
    return this.#listener.isTrusted()
  }

  forget(payload: string): void {
    const { onForget } = this.#options
    if (!payload.startsWith(ACCOUNT_PREFIX)) {
      for (const map of [this.#known, this.#unknown, this.#loading]) map.delete(payload)
      onForget?.({ kind: 'keyId', id: payload })
      return
    }
    const accountId = payload.slice(ACCOUNT_PREFIX.length)
    for (const [publicId, key] of this.#known) if (key.account_id === accountId) this.#known.delete(publicId)
    // The accounts of keys that are being looked up are not known yet.
    this.#loading.clear()
    onForget?.({ kind: 'accountId', id: accountId })
  }

  close(): void {
    this.#listener.close()
  }

  #lose(): void {
    if (this.#known.size > 0) {
      this.#remembered = new Map(this.#known)
      this.#trustedUntil = addMs(this.#options.clock.now(), TRUSTED_MS)
    }
    for (const map of [this.#known, this.#unknown, this.#loading]) map.clear()
    this.#options.onForget?.({ kind: 'any' })
  }

  #trusted(publicId: string): KnownKey | undefined {
    return this.#options.clock.now() < this.#trustedUntil ? this.#remembered.get(publicId) : undefined
  }

  async #findWithoutNotifications(publicId: string): Promise<KnownKey | undefined> {
    const last = this.#trusted(publicId)
    if (last !== undefined && performance.now() < this.#noLookupUntilMs) return last
    try {
      const lookup = findKnownKey(this.#options.database.db, publicId)
      const patienceMs = last === undefined ? limits.statementTimeoutMs : LOOKUP_TIMEOUT_MS
      const key = await within(patienceMs, lookup, 'the database did not answer in time')
      this.#remembered.delete(publicId)
      return key
    } catch (error) {
      this.#noLookupUntilMs = performance.now() + LOOKUP_RETRY_MS
      if (last === undefined) throw error
      return last
    }
  }

  async #lookUp(publicId: string): Promise<KnownKey | undefined> {
    const lookup = findKnownKey(this.#options.database.db, publicId)
    this.#loading.set(publicId, lookup)
    try {
      const key = await lookup
      if (this.#loading.get(publicId) !== lookup) return key
      if (key === undefined)
        remember(this.#unknown, publicId, addMs(this.#options.clock.now(), UNKNOWN_MS), MAX_UNKNOWN_ENTRIES)
      else remember(this.#known, publicId, key, limits.keyCacheEntries)
      return key
    } finally {
      if (this.#loading.get(publicId) === lookup) this.#loading.delete(publicId)
    }
  }
}

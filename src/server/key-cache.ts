/**
 * Keys in memory. A key is cached only while notifications are heard (listener.ts). One that was being looked up
 * when a notification came is used for its request and not cached: the look-up may have read the row as it was before.
 *
 * While notifications are not heard the database is asked each time. Where it does not answer either, nobody can revoke
 * a key there, and what was known when it was last heard is believed for some minutes: an outage of the database is
 * not one of the models.
 */
import { addMs, MINUTE_MS, type Clock, type Instant } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { within } from '../base/within.ts'
import { ACCOUNT_PREFIX, findKnownKey, KEY_CHANNEL, type KnownKey } from '../store/api-key.ts'
import type { Database } from '../store/database.ts'
import { listen, type Log } from '../store/listener.ts'

/** Unknown ids are remembered for a moment, so that a client that retries in a loop does not reach the database. */
const UNKNOWN_MS = 5_000
const UNKNOWN_ENTRIES = 10_000
/** Without notifications and without the database, a key that was known is believed for so long. */
const BELIEVED_MS = 10 * MINUTE_MS
/** A look-up that takes longer counts as none. */
const LOOK_UP_MS = 2_000
/** After a look-up that failed, so long no other one is tried for keys that were known. */
const AWAY_MS = 500

export interface KeyCache {
  /** undefined: there is no such key. */
  find(publicId: string): Promise<KnownKey | undefined>
  /** What is in memory now, and may be believed. */
  peek(publicId: string): KnownKey | undefined
  /** Whether keys are cached at the moment. */
  isCaching(): boolean
  /** What is known of a key, or of all keys of an account, has changed: as it is notified. */
  forget(payload: string): void
  close(): Promise<void>
}

export function makeKeyCache({ database, clock, log }: { database: Database; clock: Clock; log: Log }): KeyCache {
  /** In order of use, so that the first is the one to forget. */
  const known = new Map<string, KnownKey>()
  const unknown = new Map<string, Instant>()
  const loading = new Map<string, Promise<KnownKey | undefined>>()
  /** What was known when notifications were last heard. */
  let remembered = new Map<string, KnownKey>()
  let believedUntil = clock.now()
  let awayUntilMs = Number.NEGATIVE_INFINITY

  const forget = (payload: string): void => {
    if (!payload.startsWith(ACCOUNT_PREFIX)) {
      for (const map of [known, unknown, loading]) map.delete(payload)
      return
    }
    const accountId = payload.slice(ACCOUNT_PREFIX.length)
    for (const [publicId, key] of known) if (key.account_id === accountId) known.delete(publicId)
    // Whose keys are just being looked up is not known yet.
    loading.clear()
  }
  const lost = (): void => {
    if (known.size > 0) {
      remembered = new Map(known)
      believedUntil = addMs(clock.now(), BELIEVED_MS)
    }
    for (const map of [known, unknown, loading]) map.clear()
  }
  const believed = (publicId: string): KnownKey | undefined =>
    clock.now() < believedUntil ? remembered.get(publicId) : undefined
  const findUnheard = async (publicId: string): Promise<KnownKey | undefined> => {
    const last = believed(publicId)
    if (last !== undefined && performance.now() < awayUntilMs) return last
    try {
      const found = await within(LOOK_UP_MS, findKnownKey(database.db, publicId), 'the database did not answer in time')
      remembered.delete(publicId)
      return found
    } catch (error) {
      awayUntilMs = performance.now() + AWAY_MS
      if (last === undefined) throw error
      return last
    }
  }
  const { connectionString: url } = database.pool.options
  const listener = listen({ url, channel: KEY_CHANNEL, log, onNotification: forget, onGap: lost })

  const lookUp = async (publicId: string): Promise<KnownKey | undefined> => {
    const looking = findKnownKey(database.db, publicId)
    loading.set(publicId, looking)
    try {
      const key = await looking
      if (loading.get(publicId) !== looking) return key
      if (key === undefined) remember(unknown, publicId, addMs(clock.now(), UNKNOWN_MS), UNKNOWN_ENTRIES)
      else remember(known, publicId, key, limits.keyCacheEntries)
      return key
    } finally {
      if (loading.get(publicId) === looking) loading.delete(publicId)
    }
  }

  return {
    find: async (publicId) => {
      if (!listener.isTrusted()) return findUnheard(publicId)
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
      return performance.now() < awayUntilMs ? believed(publicId) : undefined
    },
    isCaching: () => listener.isTrusted(),
    forget,
    close: () => listener.close(),
  }
}

/** Adds to a bounded map and lets go of what has been in it for longest. */
export function remember<Value>(map: Map<string, Value>, key: string, value: Value, most: number): void {
  map.set(key, value)
  if (map.size <= most) return
  const [oldest] = map.keys()
  if (oldest !== undefined) map.delete(oldest)
}

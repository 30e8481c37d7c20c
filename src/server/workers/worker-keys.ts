/**
 * The keys that a worker knows. Its server has the one cache and the one listener; a worker remembers callers only while
 * it keeps hearing that the server's cache is fresh, and asks for every other request.
 */
import type { Clock, Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Caller } from '../../gateway/call.ts'
import { remember } from '../../base/remember.ts'
import type { ChangedKeys, KnownCaller } from './messages.ts'

/** The server says so this often. */
export const FRESH_EVERY_MS = 100
/** With the 700 ms that a listener may be silent, a revoked key ends within a second. */
const FRESH_MS = 300

export interface WorkerKeys {
  readonly identify: (authorization: string) => Caller | undefined
  readonly introduce: (authorization: string) => Promise<Caller | undefined>
  readonly fresh: () => void
  readonly forget: (changed: ChangedKeys) => void
  /** The keys used since the last call. */
  readonly takeUsed: () => ReadonlyMap<string, Instant>
}

export function makeWorkerKeys(options: {
  readonly clock: Clock
  readonly ask: (authorization: string) => Promise<KnownCaller | undefined>
}): WorkerKeys {
  const callers = new Map<string, KnownCaller>()
  let used = new Map<string, Instant>()
  let freshUntil = Number.NEGATIVE_INFINITY
  const use = ({ caller, expiresAt }: KnownCaller): Caller | undefined => {
    const now = options.clock.now()
    if (expiresAt !== null && expiresAt <= now) return undefined
    remember(used, caller.keyId, now, limits.keyCacheEntries)
    return caller
  }
  return {
    identify: (authorization) => {
      const one = performance.now() < freshUntil ? callers.get(authorization) : undefined
      return one && use(one)
    },
    introduce: async (authorization) => {
      const caller = await options.ask(authorization)
      if (caller === undefined) return undefined
      // Messages keep their order: whatever is forgotten later is forgotten here too.
      if (caller.isCached) remember(callers, authorization, caller, limits.keyCacheEntries)
      return use(caller)
    },
    fresh: () => (freshUntil = performance.now() + FRESH_MS),
    forget: (changed) => {
      for (const [authorization, { caller }] of callers) {
        if (changed.kind === 'any' || caller[changed.kind] === changed.id) callers.delete(authorization)
      }
    },
    takeUsed: () => {
      const useTimes = used
      used = new Map()
      return useTimes
    },
  }
}

/** Records when keys were last used, and writes it every few seconds. */
import type { Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { remember } from '../../base/remember.ts'
import { writeLastUsed } from '../../store/account/api-key.ts'
import type { Database } from '../../store/platform/database.ts'
import type { Log } from '../../store/platform/listener.ts'

const FLUSH_MS = 5_000

export interface LastUsed {
  note(publicId: string, at: Instant): void
  /** Never rejects. */
  readonly flush: () => Promise<void>
  close(): Promise<void>
}

export function recordLastUsed({ database, log }: { readonly database: Database; readonly log: Log }): LastUsed {
  let lastUsed = new Map<string, Instant>()
  const flush = async (): Promise<void> => {
    if (lastUsed.size === 0) return
    const batch = lastUsed
    lastUsed = new Map()
    try {
      await writeLastUsed(database.db, batch)
    } catch (error) {
      log.warn({ err: error, keys: batch.size }, 'could not record when keys were last used; retrying later')
      for (const [publicId, at] of batch)
        if (!lastUsed.has(publicId)) remember(lastUsed, publicId, at, limits.keyCacheEntries)
    }
  }
  const timer = setInterval(() => void flush(), FLUSH_MS).unref()
  return {
    note: (publicId, at) => remember(lastUsed, publicId, at, limits.keyCacheEntries),
    flush,
    close: async () => {
      clearInterval(timer)
      await flush()
    },
  }
}

/** Event streams share a feed: one read and one encoding for all that are at the same id, and one poll. */
import { formatSse } from '../../base/net/sse.ts'
import type { EventRecord } from '../../contract/event.ts'
import { listAccountsWithEventsAfter, listAllEventsAfter, newestEventId } from '../../store/notice/all-events.ts'
import type { Db } from '../../store/platform/database.ts'
import { lastEventId, listEventsAfter } from '../../store/notice/event.ts'

/** A read that returns this many may not have reached the end. */
export const BATCH_ROWS = 100
/** Kept per account until its next event. */
const MAX_SHARED_READS = 2

/** The events that a stream reads. */
export interface Source {
  /** The id to start new events after. undefined: unknown right now. */
  newestId(): Promise<bigint | undefined>
  listAfter(id: bigint): Promise<EventRecord[]>
}

export function eventsOf(db: Db, accountId: string): Source {
  return {
    newestId: () => lastEventId(db, accountId),
    listAfter: (id) => listEventsAfter(db, accountId, id, BATCH_ROWS),
  }
}

export function eventsOfEveryone(db: Db): Source {
  return { newestId: () => newestEventId(db), listAfter: (id) => listAllEventsAfter(db, id, BATCH_ROWS) }
}

/** An event as it is sent. */
export interface Frame {
  readonly id: bigint
  readonly bytes: Buffer
}

export interface Feed {
  newestId(): Promise<bigint | undefined>
  /** Shared by all that ask for the same id until `forget`. */
  framesAfter(id: bigint): Promise<readonly Frame[]>
  /** There may be new events: what was read, or is being read, is not given to anyone else. */
  forget(): void
}

export function makeFeed(source: Source): Feed {
  const reads = new Map<bigint, Promise<readonly Frame[]>>()
  const read = async (id: bigint): Promise<readonly Frame[]> =>
    (await source.listAfter(id)).map((event) => ({
      id: BigInt(event.id),
      bytes: Buffer.from(formatSse({ id: event.id, event: event.type, data: JSON.stringify(event) })),
    }))
  return {
    newestId: () => source.newestId(),
    framesAfter: (id) => {
      const shared = reads.get(id)
      if (shared !== undefined) return shared
      // Streams that are at the end share one id. Those that catch up have one each, which is not kept.
      if (reads.size >= MAX_SHARED_READS) return read(id)
      const reading = read(id)
      reads.set(id, reading)
      // Those who wait for this read get the error; the next caller reads again.
      reading.catch(() => reads.get(id) === reading && reads.delete(id))
      return reading
    },
    forget: () => reads.clear(),
  }
}

/** Finds events whose wake-up was lost, with the same work for one stream and for ten thousand. */
export function startPoll(
  db: Db,
  pollMs: number,
  streams: { hasStreams(): boolean; found(accountIds: readonly string[]): void; unknown(): void },
): NodeJS.Timeout {
  /** All events up to this id were visible at an earlier poll. */
  let lastId: bigint | undefined
  let isRunning = false
  const poll = async (): Promise<void> => {
    // First: events up to it are all in the list that is read after it.
    const newest = await newestEventId(db)
    if (lastId === undefined) streams.unknown()
    else streams.found(await listAccountsWithEventsAfter(db, lastId))
    lastId = newest ?? lastId
  }
  const tick = (): void => {
    if (isRunning || !streams.hasStreams()) return
    isRunning = true
    // The database is down. Streams notice when they read, and end: their clients reconnect.
    void poll()
      .catch(() => streams.unknown())
      .finally(() => (isRunning = false))
  }
  return setInterval(tick, pollMs).unref()
}

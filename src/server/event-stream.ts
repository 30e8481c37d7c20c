/**
 * Server-sent events of one account, or of all accounts for operators. The database is the only queue: a stream remembers
 * the last id it wrote and reads what comes after, on each wake-up and every few seconds, so a lost wake-up delays an
 * event but never loses one. Ids are in commit order per account (see schema/0006_events.sql), so a client that
 * reconnects with its last id misses nothing and sees nothing twice. Across accounts they are not; store/all-events.ts
 * reads them as if they were.
 */
import type { ServerResponse } from 'node:http'
import type { Actor, App } from '../app/app.ts'
import { SECOND_MS } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { fail, ok, type Failure, type Result } from '../contract/result.ts'
import { formatSse, sseHeartbeat, unbuffered } from '../base/sse.ts'
import type { EventRecord } from '../contract/event.ts'
import { listAllEventsAfter, newestEventId } from '../store/all-events.ts'
import type { Db } from '../store/database.ts'
import { lastEventId, listEventsAfter } from '../store/event.ts'

const BATCH_ROWS = 100
const POLL_MS = 5_000

export interface EventStreamOptions {
  /** Account of the events. The caller has checked that the actor may read them. */
  readonly of: 'account' | 'everyone'
  /** The last event that the client has. undefined: start with new events. */
  readonly after: bigint | undefined
  /** Checked at each heartbeat; the stream ends when the caller's key is no longer valid. */
  readonly stillValid?: () => Promise<boolean>
}

export interface EventStreams {
  /** Starts a stream on `response` and owns it from then on, or returns a failure and leaves it untouched. */
  open(actor: Actor, options: EventStreamOptions, response: ServerResponse): Promise<Result<void>>
  /** The account has new events. */
  wake(accountId: string): void
  /** Ends all streams and accepts no more. Clients reconnect elsewhere with their last id. */
  close(): Promise<void>
}

/** Where a stream starts. A client that reconnects sends the header, which is newer than its `after` parameter. */
export function resumeAfter(lastEventIdHeader: string | undefined, after: string | undefined): bigint | undefined {
  const text = [lastEventIdHeader, after].find((one) => one !== undefined && /^\d{1,18}$/.test(one))
  return text === undefined ? undefined : BigInt(text)
}

/** A transaction that writes events is stuck, so the newest id without gaps before it is unknown. */
export function eventsNotSettled(): Failure {
  return fail('events_not_settled', { retryAfterMs: SECOND_MS })
}

interface Settings {
  readonly heartbeatMs: number
  readonly pollMs: number
  readonly bufferedBytes: number
  readonly perAccount: number
}

const defaults: Settings = {
  heartbeatMs: limits.sseHeartbeatMs,
  pollMs: POLL_MS,
  bufferedBytes: limits.sseBufferedBytes,
  perAccount: limits.sseConnectionsPerAccount,
}

export function makeEventStreams(app: App, options: Partial<Settings> = {}): EventStreams {
  const settings = { ...defaults, ...options }
  /** By the account that opened them, whose limit they count against. */
  const streams = new Map<string, Set<Stream>>()
  const ofEveryone = new Set<Stream>()
  const running = new Set<Promise<void>>()
  let closed = false
  const all = (): Stream[] => [...streams.values()].flatMap((ofAccount) => [...ofAccount])
  const poll = setInterval(() => all().forEach((stream) => stream.wake()), settings.pollMs).unref()

  return {
    open: async ({ accountId }, { of, after, stillValid = () => Promise.resolve(true) }, response) => {
      const ofAccount = streams.get(accountId) ?? new Set<Stream>()
      if (closed) return fail('server_stopping')
      if (ofAccount.size >= settings.perAccount) return tooMany(settings)
      const source = of === 'everyone' ? eventsOfEveryone(app.database.db) : eventsOf(app.database.db, accountId)
      const stream = makeStream(source, { response, stillValid }, settings)
      // Added before the first await, so that concurrent requests cannot exceed the limit.
      streams.set(accountId, ofAccount.add(stream))
      if (of === 'everyone') ofEveryone.add(stream)
      const leave = (): void => {
        ofAccount.delete(stream)
        ofEveryone.delete(stream)
        if (ofAccount.size === 0 && streams.get(accountId) === ofAccount) streams.delete(accountId)
      }
      try {
        const start = after ?? (await source.newestId())
        if (start === undefined) {
          leave()
          return eventsNotSettled()
        }
        const run = stream.run(start).finally(() => {
          running.delete(run)
          leave()
        })
        running.add(run)
        return ok(undefined)
      } catch (error) {
        leave()
        throw error
      }
    },
    wake: (accountId) => {
      streams.get(accountId)?.forEach((stream) => stream.wake())
      ofEveryone.forEach((stream) => stream.wake())
    },
    close: async () => {
      closed = true
      clearInterval(poll)
      for (const stream of all()) stream.end()
      await Promise.all(running)
    },
  }
}

function tooMany({ perAccount, heartbeatMs }: Settings): Failure {
  return fail('too_many_streams', { limit: perAccount, streams: 'event', retryAfterMs: heartbeatMs })
}

/** The events that a stream reads. */
interface Source {
  /** The id to start new events after. undefined: unknown right now. */
  newestId(): Promise<bigint | undefined>
  listAfter(id: bigint): Promise<EventRecord[]>
}

function eventsOf(db: Db, accountId: string): Source {
  return {
    newestId: () => lastEventId(db, accountId),
    listAfter: (id) => listEventsAfter(db, accountId, id, BATCH_ROWS),
  }
}

function eventsOfEveryone(db: Db): Source {
  return { newestId: () => newestEventId(db), listAfter: (id) => listAllEventsAfter(db, id, BATCH_ROWS) }
}

interface Stream {
  /** Writes until the stream ends. Never throws. */
  run(after: bigint): Promise<void>
  wake(): void
  end(): void
}

function makeStream(
  source: Source,
  client: { response: ServerResponse; stillValid: () => Promise<boolean> },
  settings: Settings,
): Stream {
  const { response, stillValid } = client
  const over = new AbortController()
  let hasNew = true
  let resume = (): void => {}
  const pause = (): Promise<void> => new Promise((resolve) => (resume = resolve))
  const wake = (): void => {
    hasNew = true
    resume()
  }
  const end = (): void => {
    over.abort()
    resume()
  }

  const write = async (event: EventRecord): Promise<void> => {
    response.write(formatSse({ id: event.id, event: event.type, data: JSON.stringify(event) }))
    // Buffer full: wait until it is empty. A heartbeat drops a client that never reads.
    while (!over.signal.aborted && response.writableLength > settings.bufferedBytes) await pause()
  }

  let sentBefore = -1
  const heartbeat = async (): Promise<void> => {
    const waiting = response.writableLength
    const sent = response.socket === null ? 0 : response.socket.bytesWritten - response.socket.writableLength
    if (waiting > 0 && sent === sentBefore) response.destroy()
    sentBefore = sent
    if (!(await stillValid().catch(() => false))) end()
    if (!over.signal.aborted && waiting === 0) response.write(sseHeartbeat)
  }

  const run = async (after: bigint): Promise<void> => {
    response
      .once('close', end)
      .on('error', end)
      .on('drain', () => resume())
    if (response.destroyed) return
    response.writeHead(200, headers).write(sseHeartbeat)
    const beat = setInterval(() => void heartbeat(), settings.heartbeatMs)
    try {
      let last = after
      while (!over.signal.aborted) {
        if (!hasNew) await pause()
        if (!hasNew) continue
        hasNew = false
        const batch = await source.listAfter(last)
        for (const event of batch) {
          if (over.signal.aborted) break
          await write(event)
          last = BigInt(event.id)
        }
        if (batch.length === BATCH_ROWS) hasNew = true
      }
    } catch {
      // The database is down. The client reconnects with its last id, here or elsewhere.
    } finally {
      end()
      clearInterval(beat)
      response.end()
    }
  }
  return { run, wake, end }
}

const headers = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store, no-transform',
  [unbuffered.name]: unbuffered.value,
}

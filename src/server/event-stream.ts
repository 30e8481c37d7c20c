/**
 * Server-sent events of one account, or of all accounts for operators. The database is the only queue: a stream remembers
 * the last id it wrote and reads what comes after, on each wake-up and every few seconds, so a lost wake-up delays an
 * event but never loses one. Ids are in commit order per account (see schema/0006_events.sql), so a client that
 * reconnects with its last id misses nothing and sees nothing twice. Across accounts they are not; store/all-events.ts
 * reads them as if they were.
 *
 * Thousands of clients may follow one server, so what they have in common is done once: streams at the same id share one
 * read and its encoding, one query per poll finds the accounts that have new events, one timer sends all heartbeats, and
 * streams of one key are checked together.
 */
import type { ServerResponse } from 'node:http'
import type { Actor, App } from '../app/app.ts'
import { SECOND_MS } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { fail, ok, type Failure, type Result } from '../contract/result.ts'
import { sseHeartbeat, unbuffered } from '../base/sse.ts'
import { BATCH_ROWS, eventsOf, eventsOfEveryone, makeFeed, startPoll, type Feed, type Frame } from './event-feed.ts'

const POLL_MS = 5_000
/** Parts of the streams whose heartbeats are sent together, so that they never hold up other requests for long. */
const HEARTBEAT_PARTS = 16

export interface EventStreamOptions {
  /** Account of the events. The caller has checked that the actor may read them. */
  readonly of: 'account' | 'everyone'
  /** The last event that the client has. undefined: start with new events. */
  readonly after: bigint | undefined
  /** Checked at each heartbeat; the stream ends when the caller's key is no longer valid. */
  readonly stillValid?: () => Promise<boolean>
  /** Streams with the same credential are checked together. undefined: on its own. */
  readonly credential?: string
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
  const { db } = app.database
  /** By the account that opened them, whose limit they count against. */
  const streams = new Map<string, Set<Stream>>()
  const ofEveryone = new Set<Stream>()
  const running = new Set<Promise<void>>()
  /** What the streams read, by account, while one follows it. */
  const feeds = new Map<string, Feed>()
  const feedOfEveryone = makeFeed(eventsOfEveryone(db))
  const heartbeats = startHeartbeats(settings.heartbeatMs)
  let closed = false
  const all = (): Stream[] => [...streams.values()].flatMap((ofAccount) => [...ofAccount])

  const wake = (accountId: string): void => {
    feeds.get(accountId)?.forget()
    streams.get(accountId)?.forEach((stream) => stream.wake())
  }
  const wakeEveryone = (): void => {
    feedOfEveryone.forget()
    ofEveryone.forEach((stream) => stream.wake())
  }
  const poll = startPoll(db, settings.pollMs, {
    hasStreams: () => streams.size > 0,
    found: (accountIds) => {
      accountIds.forEach(wake)
      if (accountIds.length > 0) wakeEveryone()
    },
    unknown: () => {
      for (const accountId of streams.keys()) wake(accountId)
      wakeEveryone()
    },
  })

  return {
    open: async ({ accountId }, { of, after, stillValid = always, credential }, response) => {
      const ofAccount = streams.get(accountId) ?? new Set<Stream>()
      if (closed) return fail('server_stopping')
      if (ofAccount.size >= settings.perAccount) return tooMany(settings)
      const feed = of === 'everyone' ? feedOfEveryone : (feeds.get(accountId) ?? makeFeed(eventsOf(db, accountId)))
      if (of === 'account') feeds.set(accountId, feed)
      const stream = makeStream(feed, response, settings)
      // Added before the first await, so that concurrent requests cannot exceed the limit.
      streams.set(accountId, ofAccount.add(stream))
      if (of === 'everyone') ofEveryone.add(stream)
      const leave = (): void => {
        ofAccount.delete(stream)
        ofEveryone.delete(stream)
        if (ofAccount.size > 0 || streams.get(accountId) !== ofAccount) return
        streams.delete(accountId)
        feeds.delete(accountId)
      }
      try {
        const start = after ?? (await feed.newestId())
        if (start === undefined) {
          leave()
          return eventsNotSettled()
        }
        const quit = heartbeats.join(stream, stillValid, credential ?? stream)
        const run = stream.run(start).finally(() => {
          running.delete(run)
          quit()
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
      wake(accountId)
      wakeEveryone()
    },
    close: async () => {
      closed = true
      clearInterval(poll)
      for (const stream of all()) stream.end()
      await Promise.all(running)
      heartbeats.stop()
    },
  }
}

const always = (): Promise<boolean> => Promise.resolve(true)

interface Heartbeats {
  /** Streams with the same `group` share the check of their key. Returns how to leave. */
  join(stream: Stream, stillValid: () => Promise<boolean>, group: unknown): () => void
  stop(): void
}

/** The streams of one credential: at most as many as an account may have. */
interface Group {
  readonly streams: Set<Stream>
  readonly stillValid: () => Promise<boolean>
  readonly part: Set<Group>
  isChecking: boolean
}

/** Beats every stream once in `everyMs`, a part of them at a time. */
function startHeartbeats(everyMs: number): Heartbeats {
  const parts = Array.from({ length: HEARTBEAT_PARTS }, () => new Set<Group>())
  const groups = new Map<unknown, Group>()
  let turn = 0
  const timer = setInterval(() => {
    turn = (turn + 1) % HEARTBEAT_PARTS
    parts[turn]?.forEach((group) => void beat(group))
  }, everyMs / HEARTBEAT_PARTS).unref()
  return {
    join: (stream, stillValid, key) => {
      // Into the part that comes last, so that the first heartbeat is a whole period away.
      const part = parts[turn] ?? new Set<Group>()
      const group = groups.get(key) ?? { streams: new Set<Stream>(), stillValid, part, isChecking: false }
      groups.set(key, group)
      group.part.add(group)
      group.streams.add(stream)
      return () => {
        group.streams.delete(stream)
        if (group.streams.size > 0) return
        group.part.delete(group)
        if (groups.get(key) === group) groups.delete(key)
      }
    },
    stop: () => clearInterval(timer),
  }
}

async function beat(group: Group): Promise<void> {
  for (const stream of group.streams) stream.dropIfStalled()
  if (group.isChecking) return
  group.isChecking = true
  const isValid = await group.stillValid().catch(() => false)
  group.isChecking = false
  for (const stream of group.streams) {
    if (isValid) stream.heartbeat()
    else stream.end()
  }
}

function tooMany({ perAccount, heartbeatMs }: Settings): Failure {
  return fail('too_many_streams', { limit: perAccount, streams: 'event', retryAfterMs: heartbeatMs })
}

interface Stream {
  /** Writes until the stream ends. Never throws. */
  run(after: bigint): Promise<void>
  wake(): void
  end(): void
  /** Drops a client that has read nothing since the last call. */
  dropIfStalled(): void
  heartbeat(): void
}

function makeStream(feed: Feed, response: ServerResponse, settings: Settings): Stream {
  let isOver = false
  let hasNew = true
  let resume = (): void => {}
  const pause = (): Promise<void> => new Promise((resolve) => (resume = resolve))
  const wake = (): void => {
    hasNew = true
    resume()
  }
  const end = (): void => {
    isOver = true
    resume()
  }

  const write = async ({ bytes }: Frame): Promise<void> => {
    response.write(bytes)
    // Buffer full: wait until it is empty. A heartbeat drops a client that never reads.
    while (!isOver && response.writableLength > settings.bufferedBytes) await pause()
  }

  let sentBefore = -1
  const dropIfStalled = (): void => {
    const sent = response.socket === null ? 0 : response.socket.bytesWritten - response.socket.writableLength
    if (response.writableLength > 0 && sent === sentBefore) response.destroy()
    sentBefore = sent
  }
  const heartbeat = (): void => {
    if (!isOver && response.writableLength === 0) response.write(sseHeartbeatBytes)
  }

  const run = async (after: bigint): Promise<void> => {
    response
      .once('close', end)
      .on('error', end)
      .on('drain', () => resume())
    if (response.destroyed) return
    // The end of the connection is the end of the stream: chunks would be two more pieces per write.
    response.removeHeader('transfer-encoding')
    response.writeHead(200, headers).write(sseHeartbeatBytes)
    try {
      let last = after
      while (!isOver) {
        if (!hasNew) await pause()
        if (!hasNew) continue
        hasNew = false
        const batch = await feed.framesAfter(last)
        for (const frame of batch) {
          if (isOver) break
          await write(frame)
          last = frame.id
        }
        if (batch.length === BATCH_ROWS) hasNew = true
      }
    } catch {
      // The database is down. The client reconnects with its last id, here or elsewhere.
    } finally {
      end()
      response.end()
    }
  }
  return { run, wake, end, dropIfStalled, heartbeat }
}

const sseHeartbeatBytes = Buffer.from(sseHeartbeat)

const headers = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store, no-transform',
  [unbuffered.name]: unbuffered.value,
}

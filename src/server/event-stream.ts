/**
 * The events of an account, or for operators of all of them, as they happen, as server-sent events. The database is the only queue: a stream remembers
 * the id that it wrote last and asks for what comes after, when it is woken and every few seconds besides, so a lost
 * wake-up costs a moment and never an event. Ids are in the order of commits (see schema/0006_events.sql), so a client
 * that comes back with the last id it saw misses nothing and sees nothing twice. Over all accounts they are not, and
 * store/all-events.ts sees to it that they are read as if they were.
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
  /** Whose events. The caller has seen to it that the actor may read them. */
  readonly of: 'account' | 'everyone'
  /** The last event that the client has. undefined: it wants what happens from now on. */
  readonly after: bigint | undefined
  /** Asked at each heartbeat; the stream ends when the caller's key is no longer good. */
  readonly stillValid?: () => Promise<boolean>
}

export interface EventStreams {
  /** Starts a stream on `response`, which it then owns, or says why not and leaves `response` alone. */
  open(actor: Actor, options: EventStreamOptions, response: ServerResponse): Promise<Result<void>>
  /** The account has new events. */
  wake(accountId: string): void
  /** Ends all streams and takes no more. Clients come back elsewhere, with the last id they saw. */
  close(): Promise<void>
}

/** Where a stream starts. A client that reconnects sends the header, which is newer than the parameter it began with. */
export function resumeAfter(lastEventIdHeader: string | undefined, after: string | undefined): bigint | undefined {
  const text = [lastEventIdHeader, after].find((one) => one !== undefined && /^\d{1,18}$/.test(one))
  return text === undefined ? undefined : BigInt(text)
}

/** A writer of events hangs, and with it the answer to which is the newest that has none missing before it. */
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
  /** By the account that has opened them, whose limit they count against. */
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
      // Its place is taken before the first wait, so that many at once cannot slip in together.
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

/** What a stream reads. */
interface Source {
  /** Where "from now on" begins. undefined: it cannot be said right now. */
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
  /** Writes until the stream is over. Does not throw. */
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
  let news = true
  let goOn = (): void => {}
  const pause = (): Promise<void> => new Promise((resolve) => (goOn = resolve))
  const wake = (): void => {
    news = true
    goOn()
  }
  const end = (): void => {
    over.abort()
    goOn()
  }

  const write = async (event: EventRecord): Promise<void> => {
    response.write(formatSse({ id: event.id, event: event.type, data: JSON.stringify(event) }))
    // Full: wait until it is empty. A client that never reads is dropped at a heartbeat.
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
      .on('drain', () => goOn())
    if (response.destroyed) return
    response.writeHead(200, headers).write(sseHeartbeat)
    const beat = setInterval(() => void heartbeat(), settings.heartbeatMs)
    try {
      let last = after
      while (!over.signal.aborted) {
        if (!news) await pause()
        if (!news) continue
        news = false
        const batch = await source.listAfter(last)
        for (const event of batch) {
          if (over.signal.aborted) break
          await write(event)
          last = BigInt(event.id)
        }
        if (batch.length === BATCH_ROWS) news = true
      }
    } catch {
      // The database is away. The client comes back with the last id it saw, to this server or another.
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

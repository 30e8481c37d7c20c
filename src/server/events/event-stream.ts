/**
 * Server-sent events of one account, or of all accounts for operators. The database is the only queue: a stream remembers
 * the last id it wrote and reads what comes after, on each wake-up and every few seconds, so a lost wake-up delays an
 * event but never loses one. Ids are in commit order per account (see schema/baseline/13_event.sql), so a client that
 * reconnects with its last id misses nothing and sees nothing twice. Across accounts they are not; store/notice/all-events.ts
 * reads them as if they were.
 *
 * Thousands of clients may follow one server, so what they have in common is done once: streams at the same id share one
 * read and its encoding, one query per poll finds the accounts that have new events, one timer sends all heartbeats, and
 * streams of one key are checked together.
 */
import type { ServerResponse } from 'node:http'
import type { Actor, App } from '../../app/app.ts'
import { SECOND_MS } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { sseHeartbeat, unbuffered } from '../../base/net/sse.ts'
import type { Db } from '../../store/platform/database.ts'
import { BATCH_ROWS, eventsOf, eventsOfEveryone, makeFeed, startPoll, type Feed } from './event-feed.ts'

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

/** The place where a stream starts. A client that reconnects sends the header, which is newer than its `after` parameter. */
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
  return new AllStreams(app.database.db, { ...defaults, ...options })
}

class AllStreams implements EventStreams {
  readonly #db: Db
  readonly #settings: Settings
  /** The key is the account that opened them, whose limit they count against. */
  readonly #streams = new Map<string, Set<Stream>>()
  readonly #ofEveryone = new Set<Stream>()
  /** The streams of an account share a feed while at least one follows it. */
  readonly #feeds = new Map<string, Feed>()
  readonly #feedOfEveryone: Feed
  readonly #heartbeats: Heartbeats
  readonly #poll: NodeJS.Timeout
  #isClosed = false

  constructor(db: Db, settings: Settings) {
    this.#db = db
    this.#settings = settings
    this.#feedOfEveryone = makeFeed(eventsOfEveryone(db))
    this.#heartbeats = startHeartbeats(settings.heartbeatMs)
    this.#poll = startPoll(db, settings.pollMs, {
      hasStreams: () => this.#streams.size > 0,
      found: (accountIds) => {
        for (const accountId of accountIds) this.#wakeAccount(accountId)
        if (accountIds.length > 0) this.#wakeEveryone()
      },
      unknown: () => {
        for (const accountId of this.#streams.keys()) this.#wakeAccount(accountId)
        this.#wakeEveryone()
      },
    })
  }

  async open({ accountId }: Actor, options: EventStreamOptions, response: ServerResponse): Promise<Result<void>> {
    const { of, after, stillValid = always, credential } = options
    const ofAccount = this.#streams.get(accountId) ?? new Set<Stream>()
    if (this.#isClosed) return fail('server_stopping')
    if (ofAccount.size >= this.#settings.perAccount) return tooMany(this.#settings)
    const feed = this.#feedOf(of, accountId)
    const stream = new Stream(accountId, feed, this.#settings.bufferedBytes, this.#leave)
    // Added before the first await, so that concurrent requests cannot exceed the limit.
    this.#streams.set(accountId, ofAccount.add(stream))
    if (of === 'everyone') this.#ofEveryone.add(stream)
    try {
      const start = after ?? (await feed.newestId())
      if (start === undefined || this.#isClosed) {
        this.#leave(stream)
        return this.#isClosed ? fail('server_stopping') : eventsNotSettled()
      }
      this.#heartbeats.join(stream, stillValid, credential ?? stream)
      stream.start(response, start)
      return ok(undefined)
    } catch (error) {
      this.#leave(stream)
      throw error
    }
  }

  wake(accountId: string): void {
    this.#wakeAccount(accountId)
    this.#wakeEveryone()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#poll)
    const streams = [...this.#streams.values()].flatMap((ofAccount) => [...ofAccount])
    for (const stream of streams) stream.end()
    await Promise.all(streams.map(async ({ writing }) => writing))
    this.#heartbeats.stop()
  }

  #feedOf(of: EventStreamOptions['of'], accountId: string): Feed {
    if (of === 'everyone') return this.#feedOfEveryone
    const feed = this.#feeds.get(accountId) ?? makeFeed(eventsOf(this.#db, accountId))
    this.#feeds.set(accountId, feed)
    return feed
  }

  #wakeAccount(accountId: string): void {
    this.#feeds.get(accountId)?.forget()
    this.#streams.get(accountId)?.forEach((stream) => stream.wake())
  }

  #wakeEveryone(): void {
    this.#feedOfEveryone.forget()
    this.#ofEveryone.forEach((stream) => stream.wake())
  }

  /** One function for all streams: each at rest holds as little as possible. */
  readonly #leave = (stream: Stream): void => {
    const { accountId } = stream
    const ofAccount = this.#streams.get(accountId)
    this.#heartbeats.leave(stream)
    this.#ofEveryone.delete(stream)
    ofAccount?.delete(stream)
    if (ofAccount === undefined || ofAccount.size > 0) return
    this.#streams.delete(accountId)
    this.#feeds.delete(accountId)
  }
}

const always = (): Promise<boolean> => Promise.resolve(true)

interface Heartbeats {
  /** Streams with the same `key` share the check of their credential. */
  join(stream: Stream, stillValid: () => Promise<boolean>, key: unknown): void
  leave(stream: Stream): void
  stop(): void
}

/** The streams of one credential: at most as many as an account may have. */
interface Group {
  readonly key: unknown
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
      const group = groups.get(key) ?? { key, streams: new Set<Stream>(), stillValid, part, isChecking: false }
      groups.set(key, group)
      group.part.add(group)
      group.streams.add(stream)
      stream.group = group
    },
    leave: (stream) => {
      const { group } = stream
      group?.streams.delete(stream)
      if (group === undefined || group.streams.size > 0) return
      group.part.delete(group)
      if (groups.get(group.key) === group) groups.delete(group.key)
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

/** At rest it holds no promise and no request, only what it needs to go on. */
class Stream {
  readonly accountId: string
  group: Group | undefined
  /** While events are read and written. Never rejects. */
  writing: Promise<void> | undefined
  readonly #feed: Feed
  readonly #bufferedBytes: number
  readonly #left: (stream: Stream) => void
  #response: ServerResponse | undefined
  #last = 0n
  #hasNew = false
  #isOver = false
  #resume: (() => void) | undefined
  /** The bytes that a client that reads nothing had been sent at the last heartbeat. */
  #stalledAt: number | undefined

  constructor(accountId: string, feed: Feed, bufferedBytes: number, onLeave: (stream: Stream) => void) {
    this.accountId = accountId
    this.#feed = feed
    this.#bufferedBytes = bufferedBytes
    this.#left = onLeave
  }

  /** Owns the response from now on. */
  start(response: ServerResponse, after: bigint): void {
    this.#last = after
    if (response.destroyed) return this.end()
    this.#response = response
    begin(response)
    response.on('close', () => this.end()).on('error', ignore)
    this.wake()
  }

  /** There may be new events. */
  wake(): void {
    this.#hasNew = true
    if (this.#response === undefined || this.#isOver || this.writing !== undefined) return
    this.writing = this.#write()
  }

  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#resume?.()
    this.#left(this)
    this.#response?.end()
  }

  /** Drops a client that has read nothing since the last call. */
  dropIfStalled(): void {
    const response = this.#response
    if (response === undefined || response.writableLength === 0) {
      this.#stalledAt = undefined
      return
    }
    const sent = sentBytes(response)
    if (sent === this.#stalledAt) response.destroy()
    this.#stalledAt = sent
  }

  heartbeat(): void {
    const response = this.#response
    if (!this.#isOver && response?.writableLength === 0) response.write(sseHeartbeatBytes)
  }

  async #write(): Promise<void> {
    try {
      while (this.#hasNew && !this.#isOver) {
        this.#hasNew = false
        const batch = await this.#feed.framesAfter(this.#last)
        for (const { id, bytes } of batch) {
          if (this.#isOver) return
          await this.#send(bytes)
          this.#last = id
        }
        if (batch.length === BATCH_ROWS) this.#hasNew = true
      }
    } catch {
      // The database is down. The client reconnects with its last id, here or elsewhere.
      this.end()
    } finally {
      // Together with the last look at `#hasNew`, so that no wake-up is lost.
      this.writing = undefined
    }
  }

  async #send(bytes: Buffer): Promise<void> {
    const response = this.#response
    if (response === undefined) return
    response.write(bytes)
    if (response.writableLength <= this.#bufferedBytes) return
    // Wait until it is empty. A heartbeat drops a client that never reads.
    await new Promise<void>((resolve) => {
      this.#resume = resolve
      response.once('drain', resolve)
    })
    this.#resume = undefined
  }
}

/** Sends the head and a first heartbeat. */
function begin(response: ServerResponse): void {
  // The end of the connection is the end of the stream: chunks would be two more pieces per write.
  response.removeHeader('transfer-encoding')
  response.writeHead(200, headers).write(sseHeartbeatBytes)
}

function sentBytes({ socket }: ServerResponse): number {
  return socket === null ? 0 : socket.bytesWritten - socket.writableLength
}

/** 'close' follows. */
function ignore(): void {}

const sseHeartbeatBytes = Buffer.from(sseHeartbeat)

const headers = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store, no-transform',
  [unbuffered.name]: unbuffered.value,
}

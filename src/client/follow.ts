/**
 * Follows events without gaps: a stream that ends, stalls or is cut is reopened after the last event returned, so that
 * readers do not notice a server restart.
 */
import { limits } from '../base/limits.ts'
import type { SseMessage } from '../base/net/sse.ts'
import type { EventRecord } from '../contract/event.ts'
import { ApiError, isTransient, TransportError } from './error.ts'
import { pause } from './pause.ts'
import { readMessages } from './sse.ts'

/** The server sends a heartbeat every `sseHeartbeatMs`; three missing ones mean that the connection is lost. */
const SILENCE_MS = 3 * limits.sseHeartbeatMs
/** Consecutive failures before giving up: about 30 seconds, enough for a restart. */
const MAX_FAILURES = 10
const FIRST_DELAY_MS = 200
const MAX_DELAY_MS = 5_000
/** A stream that lasted this long counts as a success, even without events. */
const LASTED_MS = limits.sseHeartbeatMs

export interface FollowOptions {
  /** The ID of the last event the caller has; default: the newest. */
  readonly after?: string | undefined
  /** Ends the iteration, without an error. */
  readonly signal?: AbortSignal | undefined
  /** Called each time the stream opens, with the event it continues after. */
  readonly onOpen?: ((after: string) => void) | undefined
  /** Called once when the stream is lost and retried, until it opens again. */
  readonly onLost?: ((problem: unknown) => void) | undefined
}

export interface EventSource {
  /** The ID of the newest event, so that a reconnection before the first event misses none. */
  newestId(signal: AbortSignal): Promise<string>
  open(after: string, signal: AbortSignal): Promise<Response>
}

export async function* followEvents(source: EventSource, options: FollowOptions): AsyncGenerator<EventRecord, void> {
  const signal = options.signal ?? new AbortController().signal
  let last = options.after
  let failures = 0
  // A server that was never reached is a wrong address rather than a restart, so it fails at once.
  let reached = false
  let isLost = false
  while (!signal.aborted) {
    const startedAt = performance.now()
    let problem: unknown
    try {
      const after = (last ??= await source.newestId(signal))
      const opened = (): void => {
        reached = true
        isLost = false
        options.onOpen?.(after)
      }
      for await (const message of listen(source, after, signal, opened)) {
        last = message.id ?? last
        failures = 0
        yield JSON.parse(message.data) as EventRecord
      }
    } catch (error) {
      if (signal.aborted) return
      if (!reached || !isRetryable(error)) throw error
      problem = error
      if (!isLost) options.onLost?.(error)
      isLost = true
    }
    failures = performance.now() - startedAt > LASTED_MS ? 1 : failures + 1
    if (failures >= MAX_FAILURES)
      throw problem ?? new TransportError('garbled', 'The event stream keeps ending immediately')
    const retryAfterMs = problem instanceof ApiError ? (problem.retryAfterMs ?? 0) : 0
    await pause(Math.max(retryAfterMs, Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (failures - 1))), signal)
  }
}

function isRetryable(error: unknown): boolean {
  return isTransient(error) || (error instanceof ApiError && error.status === 429)
}

async function* listen(
  source: EventSource,
  after: string,
  outer: AbortSignal,
  onOpen: () => void,
): AsyncGenerator<SseMessage> {
  const connection = new AbortController()
  const end = (): void => connection.abort()
  outer.addEventListener('abort', end, { once: true })
  const silence = setTimeout(end, SILENCE_MS)
  try {
    const response = await source.open(after, connection.signal)
    onOpen()
    clearTimeout(silence)
    yield* readMessages(response, { silenceMs: SILENCE_MS, onSilence: end })
  } catch (error) {
    // Cut, or silent for too long: the caller resumes after the last event.
    if (error instanceof ApiError || error instanceof TransportError) throw error
    throw new TransportError('unreachable', 'The event stream was interrupted', error)
  } finally {
    clearTimeout(silence)
    outer.removeEventListener('abort', end)
    end()
  }
}

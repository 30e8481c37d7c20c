/**
 * Events as they happen, without a gap: a stream that ends, falls silent or is cut is opened again after the last event
 * that was handed out, so that a server may be restarted under a reader who never notices.
 */
import { limits } from '../base/limits.ts'
import type { SseMessage } from '../base/sse.ts'
import type { EventRecord } from '../contract/event.ts'
import { ApiError, mayPass, TransportError } from './error.ts'
import { pause } from './pause.ts'
import { readMessages } from './sse.ts'

/** The server sends a sign of life each `sseHeartbeatMs`; three missing ones mean that the line is dead. */
const SILENCE_MS = 3 * limits.sseHeartbeatMs
/** Failures in a row until we give up: about half a minute, which a restart needs at most. */
const FAILURES = 10
const FIRST_DELAY_MS = 200
const LONGEST_DELAY_MS = 5_000
/** A stream that has lasted this long counts as a success, even if nothing happened meanwhile. */
const LASTED_MS = limits.sseHeartbeatMs

export interface FollowOptions {
  /** The id of the last event that the caller has; without it, what happens from now on. */
  readonly after?: string | undefined
  /** Ends the iteration, without an error. */
  readonly signal?: AbortSignal | undefined
  /** The stream is open, at first and after each time it was not; it goes on after this event. */
  readonly onOpen?: ((after: string) => void) | undefined
  /** It could not be opened or was cut, and is tried again. Told once until it is open again. */
  readonly onLost?: ((problem: unknown) => void) | undefined
}

export interface EventSource {
  /** The id of the newest event, so that "from now on" survives a reconnection before the first event. */
  newestId(signal: AbortSignal): Promise<string>
  open(after: string, signal: AbortSignal): Promise<Response>
}

export async function* followEvents(source: EventSource, options: FollowOptions): AsyncGenerator<EventRecord, void> {
  const signal = options.signal ?? new AbortController().signal
  let last = options.after
  let failures = 0
  // A server that was never reached is a wrong address rather than a restart, and is told at once.
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
      if (!reached || !mayComeBack(error)) throw error
      problem = error
      if (!isLost) options.onLost?.(error)
      isLost = true
    }
    failures = performance.now() - startedAt > LASTED_MS ? 1 : failures + 1
    if (failures >= FAILURES) throw problem ?? new TransportError('garbled', 'The stream of events ends at once')
    const asked = problem instanceof ApiError ? (problem.retryAfterMs ?? 0) : 0
    await pause(Math.max(asked, Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (failures - 1))), signal)
  }
}

function mayComeBack(error: unknown): boolean {
  return mayPass(error) || (error instanceof ApiError && error.status === 429)
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
    // Cut in the middle, or silent for too long: the caller comes back after the last event.
    if (error instanceof ApiError || error instanceof TransportError) throw error
    throw new TransportError('unreachable', 'The stream of events was cut', error)
  } finally {
    clearTimeout(silence)
    outer.removeEventListener('abort', end)
    end()
  }
}

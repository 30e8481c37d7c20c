/**
 * Streams the progress of a media request. Nothing is sent before the first progress, so that a refusal is a normal
 * error; if an engine reports none, comments keep proxies from closing the connection. The complete answer comes last, in
 * one event, after it was recorded.
 */
import { formatSse, sseHeartbeat } from '../../base/net/sse.ts'
import type { Failure, Result } from '../../contract/result.ts'
import type { Reply } from '../call.ts'
import { asLatin1 } from '../dialect/chat-stream.ts'
import type { MediaProgress } from '../upstream/event-body.ts'

const KEEP_ALIVE_MS = 10_000
export const DONE = formatSse({ data: '[DONE]' })

/** The events of one stream, in the form that its client reads. */
export interface MediaEvents {
  /** Remembers progress. A slow reader gets it with what follows, or not at all. */
  readonly note: (progress: MediaProgress) => void
  /** The events for what was noted since the last call. '': there are none. */
  readonly progress: () => string
  /** The last events. */
  readonly result: (value: object) => string
}

/** Progress as it comes, and the answer as one event. */
function ownEvents(): MediaEvents {
  let last: MediaProgress | undefined
  return {
    note: (progress) => (last = progress),
    progress: () => (last === undefined ? '' : eventOf(last)),
    result: (value) => eventOf({ type: 'result', ...value }) + DONE,
  }
}

export interface MediaStreamOptions {
  /** Runs the request. `signal` aborts when the client has gone. */
  readonly run: (onProgress: (progress: MediaProgress) => void, signal: AbortSignal) => Promise<Result<unknown>>
  /** A failure in the form that clients read. */
  readonly errorOf: (failure: Failure) => unknown
  readonly keepAliveMs?: number
  /** Absent: our own. */
  readonly events?: MediaEvents | undefined
}

export async function streamMedia(reply: Reply, options: MediaStreamOptions): Promise<void> {
  const gone = new AbortController()
  const events = options.events ?? ownEvents()
  let begun = false
  let isFull = false
  reply.onGone(() => gone.abort())
  reply.onDrain(() => (isFull = false))
  const write = (textOf: () => string): void => {
    // A slow reader gets less progress: what comes later says all of it.
    if (isFull || gone.signal.aborted) return
    const text = textOf()
    if (text === '') return
    isFull = !(begun ? reply.write(text) : reply.startStream(text))
    begun = true
  }
  const report = (progress: MediaProgress): void => {
    events.note(progress)
    write(events.progress)
  }
  const beating = setInterval(() => write(() => sseHeartbeat), options.keepAliveMs ?? KEEP_ALIVE_MS)
  try {
    const result = await options.run(report, gone.signal)
    if (gone.signal.aborted) return
    if (!result.ok && !begun) return reply.refuse(result)
    if (!begun) reply.startStream('')
    reply.endStream(
      result.ok ? events.result(result.value as object) : eventOf({ type: 'error', error: options.errorOf(result) }),
    )
  } finally {
    clearInterval(beating)
  }
}

export function eventOf(value: object): string {
  return asLatin1(formatSse({ data: JSON.stringify(value) }))
}

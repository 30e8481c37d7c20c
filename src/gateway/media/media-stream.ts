/**
 * Streams the progress of a media request. Nothing is sent before the first progress, so that a refusal is a normal
 * error. If an engine reports no progress, comments keep proxies from closing the connection. The complete answer is
 * the last event, sent once the request is recorded.
 */
import { formatSse, sseHeartbeat } from '../../base/net/sse.ts'
import type { Failure, Result } from '../../contract/result.ts'
import type { Reply } from '../call.ts'
import { asLatin1 } from '../dialect/chat-stream.ts'
import type { MediaProgress } from '../upstream/event-body.ts'

const KEEP_ALIVE_MS = 10_000
export const DONE = formatSse({ data: '[DONE]' })

/** The events of one stream, in the format of its client. */
export interface MediaEvents {
  /** Stores progress until it is sent. A slow reader gets it with later progress, or not at all. */
  readonly note: (progress: MediaProgress) => void
  /** The events for progress since the last call; empty if there is none. */
  readonly progress: () => string
  /** The last events of the stream. */
  readonly result: (value: object) => string
}

/** Events in our own format: progress as it comes, and the answer as one event. */
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
  /** Absent: events in our own format. */
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
    // A slow reader gets fewer events: later progress includes the earlier.
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

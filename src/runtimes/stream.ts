/** Connects streams that the server opens to the runtime. Each direction ends on its own. */
import type { Duplex } from 'node:stream'
import { contained } from '../base/net/contained.ts'
import type { MuxStream } from '../base/net/mux.ts'
import { within } from '../base/within.ts'
import { streamRequest, type StreamRequest } from '../contract/agent.ts'
import type { Runtime, RuntimeStream } from './runtime.ts'

/**
 * After one side has closed, the other may take this long to read the last bytes and end, since a person may be reading
 * them page by page.
 */
const LINGER_MS = 10 * 60_000
const MAX_EARLY_SIGNALS = 16
const OPEN_MS = 20_000

export async function serveStream(runtime: Pick<Runtime, 'open'>, request: unknown, stream: MuxStream): Promise<void> {
  const control = new AbortController()
  const end = (error: Error): unknown => stream.destroy(error)
  stream.once('close', () => control.abort())
  // The other end may disconnect at any time; `close` then aborts the opening.
  stream.on('error', () => {})
  // A terminal's first size may arrive before the terminal is open.
  const earlySignals: unknown[] = []
  const keep = (value: unknown): unknown => earlySignals.length < MAX_EARLY_SIGNALS && earlySignals.push(value)
  stream.on('signal', keep)
  try {
    const opened = await openInTime(runtime, parseRequest(request), control)
    if (stream.destroyed) return void opened.stream.destroy()
    opened.onSignal?.((value) => stream.sendSignal(value))
    stream.off('signal', keep)
    for (const value of earlySignals) opened.signal?.(value)
    stream.on(
      'signal',
      contained(end, (value: unknown) => opened.signal?.(value)),
    )
    join(stream, opened.stream)
  } catch (error) {
    stream.destroy(error instanceof Error ? error : new Error(String(error)))
  }
}

/** A stream that opens too late is closed again. The signal has no timeout of its own: it outlives the opening. */
async function openInTime(
  runtime: Pick<Runtime, 'open'>,
  request: StreamRequest,
  control: AbortController,
): Promise<RuntimeStream> {
  const opening = runtime.open(request, control.signal)
  try {
    return await within(OPEN_MS, opening, 'The host did not open the stream in time.')
  } catch (error) {
    control.abort()
    opening.then(
      (lateStream) => lateStream.stream.on('error', () => {}).destroy(),
      () => {},
    )
    throw error
  }
}

function parseRequest(request: unknown): StreamRequest {
  const parsed = streamRequest.safeParse(request)
  if (parsed.success) return parsed.data
  throw new Error('The agent does not support this kind of stream; it may be older than the server.')
}

function join(outer: MuxStream, inner: Duplex): void {
  inner.on('error', (error) => outer.destroy(error))
  inner.once('close', () => {
    if (outer.destroyed) return
    if (!inner.readableEnded) return void outer.destroy(new Error('The stream was closed on the host.'))
    // The last bytes must still arrive: the other end closes when it has them all.
    outer.unpipe(inner)
    outer.resume()
    const timer = setTimeout(() => outer.destroy(), LINGER_MS)
    outer.once('close', () => clearTimeout(timer))
  })
  outer.once('close', () => {
    if (!inner.destroyed && !(outer.readableEnded && inner.writableFinished && inner.readableEnded)) inner.destroy()
  })
  outer.pipe(inner)
  inner.pipe(outer)
}

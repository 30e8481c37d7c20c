/** Streams that the server opens into what runs here: each is led to the runtime, and both ways are ended apart. */
import type { Duplex } from 'node:stream'
import type { MuxStream } from '../base/mux.ts'
import { within } from '../base/within.ts'
import { streamRequest, type StreamRequest } from '../contract/agent.ts'
import type { Runtime, RuntimeStream } from '../engines/runtime.ts'

/** After one side has closed, the other may take this long to end. */
const LINGER_MS = 30_000
const MAX_EARLY_SIGNALS = 16
const OPEN_MS = 20_000

export async function serveStream(runtime: Runtime, request: unknown, stream: MuxStream): Promise<void> {
  const control = new AbortController()
  stream.once('close', () => control.abort())
  // The other end may be gone at any time; what was opened for it goes with it.
  stream.on('error', () => {})
  // A terminal's first size may come before the terminal is there.
  const early: unknown[] = []
  const keep = (value: unknown): unknown => early.length < MAX_EARLY_SIGNALS && early.push(value)
  stream.on('signal', keep)
  try {
    const opened = await openInTime(runtime, parseRequest(request), control)
    if (stream.destroyed) return void opened.stream.destroy()
    opened.onSignal?.((value) => stream.sendSignal(value))
    stream.off('signal', keep)
    for (const value of early) opened.signal?.(value)
    stream.on('signal', (value: unknown) => opened.signal?.(value))
    join(stream, opened.stream)
  } catch (error) {
    stream.destroy(error instanceof Error ? error : new Error(String(error)))
  }
}

/** What comes too late is closed again. The signal is not timed itself: some of it may outlive the opening. */
async function openInTime(runtime: Runtime, request: StreamRequest, control: AbortController): Promise<RuntimeStream> {
  const opening = runtime.open(request, control.signal)
  try {
    return await within(OPEN_MS, opening, 'The host did not open it in time.')
  } catch (error) {
    control.abort()
    opening.then(
      (late) => late.stream.on('error', () => {}).destroy(),
      () => {},
    )
    throw error
  }
}

function parseRequest(request: unknown): StreamRequest {
  const parsed = streamRequest.safeParse(request)
  if (parsed.success) return parsed.data
  throw new Error('The agent does not know what such a stream is for; it may be older than the server.')
}

function join(outer: MuxStream, inner: Duplex): void {
  inner.on('error', (error) => outer.destroy(error))
  inner.once('close', () => {
    if (outer.destroyed) return
    if (!inner.readableEnded) return void outer.destroy(new Error('It was closed on the host.'))
    // What was sent last must still arrive: the other end closes when it has it all.
    outer.unpipe(inner)
    outer.resume()
    const late = setTimeout(() => outer.destroy(), LINGER_MS)
    outer.once('close', () => clearTimeout(late))
  })
  outer.once('close', () => {
    if (!inner.destroyed && !(outer.readableEnded && inner.writableFinished && inner.readableEnded)) inner.destroy()
  })
  outer.pipe(inner)
  inner.pipe(outer)
}

/**
 * The answer to an image request: JSON with the PNG in base64, or a stream of events that ends with it. A PNG can have
 * 18 MB, so it is written in parts with backpressure and is in memory only once.
 */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { formatSse } from '../../base/net/sse.ts'
import { signalWithin } from '../../base/signal-within.ts'
import { engineFailed } from '../engine-http.ts'

/** Bytes of the PNG per part; three bytes make four base64 characters. */
const PART_BYTES = 3 * 65_536
/** A client that reads nothing for this long is disconnected. */
const STALLED_MS = 120_000
/** Between two progress events. */
const PROGRESS_MS = 100

export interface FinishedImage {
  readonly png: Uint8Array
  readonly seed: number
  /** Tells the client how its request was interpreted. */
  readonly notes: readonly string[]
}

export class ImageReply {
  readonly #response: ServerResponse
  readonly #signal: AbortSignal
  readonly #isStream: boolean
  #reportedAt = -Infinity

  constructor(response: ServerResponse, signal: AbortSignal, isStream: boolean) {
    this.#response = response
    this.#signal = signal
    this.#isStream = isStream
  }

  /** Sends the head of a stream. Before that, a failure still gets an error status. */
  begin(): void {
    if (!this.#isStream || this.#response.headersSent) return
    this.#response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' }).flushHeaders()
  }

  reportQueued(ahead: number): void {
    if (!this.#isStream) return
    this.begin()
    this.#sendEvent({ type: 'queued', ahead })
  }

  /** Progress is optional: events are throttled, and skipped for a client that does not read. */
  reportProgress(step: number, steps: number): void {
    const now = performance.now()
    const isDue = step === steps || now - this.#reportedAt >= PROGRESS_MS
    if (!this.#isStream || !isDue || this.#response.writableNeedDrain) return
    this.#reportedAt = now
    this.#sendEvent({ type: 'progress', step, steps })
  }

  /** Whether the client has read what was sent, so that an unfinished image would not pile up in memory. */
  get takesPartial(): boolean {
    return this.#isStream && !this.#response.writableNeedDrain
  }

  sendPartial(png: Uint8Array): void {
    const image = Buffer.from(png.buffer, png.byteOffset, png.byteLength).toString('base64')
    this.#sendEvent({ type: 'partial', image })
  }

  /** Reports a failure after the head was sent. */
  fail(): void {
    if (!this.#response.headersSent || this.#response.writableEnded) return
    this.#response.end(formatSse({ data: JSON.stringify({ type: 'error', error: engineFailed }) }))
  }

  async finish({ png, seed, notes }: FinishedImage): Promise<void> {
    const [stream, streamEnd] = this.#isStream ? ['data: {"type":"result",', '\n\ndata: [DONE]\n\n'] : ['{', '']
    const before = `${stream}"images":[{"index":0,"image":"`
    const notesJson = notes.length === 0 ? '' : `,"notes":${JSON.stringify(notes)}`
    const after = Buffer.from(`","random_seed":${seed}}]${notesJson}}${streamEnd}`)
    if (!this.#isStream) {
      const letters = 4 * Math.ceil(png.length / 3)
      const bytes = before.length + letters + after.length
      this.#response.writeHead(200, { 'content-type': 'application/json', 'content-length': bytes })
    }
    this.#response.write(before)
    const whole = Buffer.from(png.buffer, png.byteOffset, png.byteLength)
    for (let at = 0; at < whole.length; at += PART_BYTES) {
      const part = whole.toString('base64', at, Math.min(at + PART_BYTES, whole.length))
      if (!this.#response.write(part)) await this.#drained()
    }
    this.#response.end(after)
  }

  #sendEvent(event: object): void {
    this.#response.write(formatSse({ data: JSON.stringify(event) }))
  }

  async #drained(): Promise<void> {
    await once(this.#response, 'drain', { signal: signalWithin(this.#signal, STALLED_MS) })
  }
}

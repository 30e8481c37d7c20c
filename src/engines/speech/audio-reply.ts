/**
 * The answer to a speech request: JSON with the file in base64, or events with its parts. Short JSON is sent at once. The
 * others are sent with backpressure while the speech is synthesized, so that memory stays bounded.
 */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { formatSse } from '../../base/net/sse.ts'
import { signalWithin } from '../../base/signal-within.ts'

/** Nothing is sent before this many bytes exist, so that a failure can still get an error status. */
const WHOLE_BYTES = 256 * 1_024
/** A client that reads nothing for this long is disconnected. */
const STALLED_MS = 120_000

export interface AudioFacts {
  readonly inference_time: number
  readonly sample_rate: number
  readonly usage: number
  readonly duration: number
}

export interface SpeechReply {
  /** `characters`: how many of the text have been spoken. */
  add(bytes: Uint8Array, characters: number): Promise<void>
  finish(facts: AudioFacts): void
}

/** Each event has what is finished of the file; the last one has the facts. */
export class AudioEvents implements SpeechReply {
  readonly #response: ServerResponse
  readonly #signal: AbortSignal

  constructor(response: ServerResponse, signal: AbortSignal) {
    this.#response = response
    this.#signal = signal
  }

  async add(bytes: Uint8Array, characters: number): Promise<void> {
    if (bytes.length === 0) return
    const audio = Buffer.from(bytes).toString('base64')
    if (!this.#send({ type: 'audio', audio, characters })) {
      await once(this.#response, 'drain', { signal: signalWithin(this.#signal, STALLED_MS) })
    }
  }

  finish(facts: AudioFacts): void {
    this.#send({ type: 'result', ...facts })
    this.#response.end()
  }

  #send(event: object): boolean {
    if (!this.#response.headersSent) {
      this.#response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    }
    return this.#response.write(formatSse({ data: JSON.stringify(event) }))
  }
}

export class AudioReply implements SpeechReply {
  readonly #response: ServerResponse
  readonly #signal: AbortSignal
  #chunks: Uint8Array[] = []
  #chunkBytes = 0
  #isStreaming = false

  constructor(response: ServerResponse, signal: AbortSignal) {
    this.#response = response
    this.#signal = signal
  }

  async add(bytes: Uint8Array): Promise<void> {
    this.#chunks.push(bytes)
    this.#chunkBytes += bytes.length
    if (this.#chunkBytes < WHOLE_BYTES) return
    if (!this.#isStreaming) {
      this.#isStreaming = true
      this.#response.writeHead(200, { 'content-type': 'application/json' })
      this.#response.write('{"audio":"')
    }
    if (!this.#response.write(this.#take(false))) {
      await once(this.#response, 'drain', { signal: signalWithin(this.#signal, STALLED_MS) })
    }
  }

  finish(facts: AudioFacts): void {
    const fields = JSON.stringify(facts).slice(1)
    if (this.#isStreaming) return void this.#response.end(`${this.#take(true)}",${fields}`)
    const body = `{"audio":"${this.#take(true)}",${fields}`
    this.#response
      .writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) })
      .end(body)
  }

  /** The buffered bytes as base64. Three bytes make four characters, so every part but the last is a multiple of three. */
  #take(isLast: boolean): string {
    const bytes = Buffer.concat(this.#chunks)
    const end = isLast ? bytes.length : bytes.length - (bytes.length % 3)
    this.#chunks = [bytes.subarray(end)]
    this.#chunkBytes = bytes.length - end
    return bytes.toString('base64', 0, end)
  }
}

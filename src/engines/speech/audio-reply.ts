/**
 * The answer to a speech request: JSON with the MP3 in base64. A short one is sent at once. A long one is streamed with
 * backpressure while it is synthesised, so that memory stays bounded.
 */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { signalWithin } from '../../base/signal-within.ts'

/** Nothing is sent before this size, so that a failure can still get an error status. */
const WHOLE_BYTES = 256 * 1_024
/** A client that reads nothing for this long is disconnected. */
const STALLED_MS = 120_000

export interface AudioFacts {
  readonly inference_time: number
  readonly sample_rate: number
  readonly usage: number
  readonly duration: number
}

export class AudioReply {
  readonly #response: ServerResponse
  readonly #signal: AbortSignal
  #chunks: Uint8Array[] = []
  #chunkBytes = 0
  #isStreaming = false

  constructor(response: ServerResponse, signal: AbortSignal) {
    this.#response = response
    this.#signal = signal
  }

  async add(mp3: Uint8Array): Promise<void> {
    this.#chunks.push(mp3)
    this.#chunkBytes += mp3.length
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

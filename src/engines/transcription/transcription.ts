/**
 * Transcription requests: the bytes of a sound file in, events out, one for each piece between two pauses, and the whole
 * at the end. Requests alternate piece by piece, so that a long file does not block short ones.
 */
import type { ServerResponse } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { formatSse } from '../../base/net/sse.ts'
import { measureSound, millisecondsOf, type Sound } from '../../base/sound/sound.ts'
import { failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { Segment } from '../../domain/subtitle.ts'
import { engineFailed, errorBody, type EngineCall } from '../engine-http.ts'
import { WorkQueue } from '../engine-queue.ts'
import { makeTurns } from '../process/turns.ts'
import type { Recognizer } from './moonshine.ts'
import { PIECE_RATE, PieceCutter, type Piece } from './piece-cutter.ts'
import { Resampler } from './resampler.ts'
import { DamagedSound, decodeSound } from './sound-decoder.ts'

/** Each has its file in memory. */
const PLACES = 2
const LANE = 'transcription'
/** Milliseconds for a millisecond of sound, used until a request has been measured; deliberately high. */
const GUESSED_MS_PER_UNIT = 0.3

export class TranscriptionHandler {
  readonly queue: WorkQueue
  readonly #recognizer: Recognizer
  readonly #turns = makeTurns(1)

  constructor(recognizer: Recognizer, queueLimit: number) {
    this.#recognizer = recognizer
    this.queue = new WorkQueue(queueLimit, { [LANE]: { places: PLACES, msPerUnit: GUESSED_MS_PER_UNIT } })
  }

  async transcribe({ body, signal, response }: EngineCall): Promise<Result<unknown>> {
    const bytes = Buffer.isBuffer(body) ? body : Buffer.alloc(0)
    const sound = measureSound(bytes)
    if ('fault' in sound) return failField(['file'], 'sound_damaged')
    return this.queue.run(LANE, millisecondsOf(sound), signal, async () => {
      try {
        await this.#run(bytes, sound, response, signal)
      } catch (cause) {
        if (signal.aborted || !response.headersSent) return failureOf(cause)
        const error = cause instanceof DamagedSound ? errorBody(failureOf(cause)) : engineFailed
        response.end(formatSse({ data: JSON.stringify({ type: 'error', error }) }))
        if (!(cause instanceof DamagedSound)) throw cause
      }
      return ok(undefined)
    })
  }

  async #run(bytes: Buffer, sound: Sound, response: ServerResponse, signal: AbortSignal): Promise<void> {
    const steps = millisecondsOf(sound)
    const segments: Segment[] = []
    for await (const piece of piecesOf(bytes, sound, signal)) {
      const text = await this.#recognize(piece, signal)
      const end = Math.min(piece.endSeconds, steps / 1_000)
      const segment = { start: round(piece.startSeconds), end: round(end), text }
      if (text !== '') segments.push(segment)
      this.#send(response, { type: 'progress', step: Math.round(end * 1_000), steps, segment })
    }
    this.#send(response, { type: 'result', ms: steps, segments })
    response.end('data: [DONE]\n\n')
  }

  async #recognize({ samples }: Piece, signal: AbortSignal): Promise<string> {
    const leave = await this.#turns.take(signal)
    if (leave === undefined) throw signal.reason
    try {
      return await this.#recognizer.recognize(samples, signal)
    } finally {
      leave()
    }
  }

  #send(response: ServerResponse, event: object): void {
    if (!response.headersSent)
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    response.write(formatSse({ data: JSON.stringify(event) }))
  }
}

/** Throws the signal's reason, also between two pieces: an hour of silence has none. */
async function* piecesOf(bytes: Buffer, sound: Sound, signal: AbortSignal): AsyncGenerator<Piece, void> {
  const cutter = new PieceCutter()
  const resampler = new Resampler(sound.sampleRate, PIECE_RATE)
  for await (const samples of decodeSound(bytes, sound)) {
    // Decoding gives the event loop no turn, so that other requests and a client that leaves would have to wait.
    await setImmediate()
    signal.throwIfAborted()
    yield* cutter.push(resampler.push(samples))
  }
  yield* cutter.push(resampler.end())
  yield* cutter.end()
}

function failureOf(cause: unknown): Failure {
  if (cause instanceof DamagedSound) return failField(['file'], 'sound_damaged')
  throw cause
}

function round(seconds: number): number {
  return Math.round(seconds * 1_000) / 1_000
}

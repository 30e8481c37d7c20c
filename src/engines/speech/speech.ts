/** Speech requests: validation, and synthesis to a file piece by piece. */
import { z } from 'zod'
import { ownAudioFormats } from '../../contract/audio-format.ts'
import { ok, type Result } from '../../contract/result.ts'
import { readFields, type EngineCall } from '../engine-http.ts'
import { WorkQueue } from '../engine-queue.ts'
import { AudioEvents, AudioReply, type SpeechReply } from './audio-reply.ts'
import { cutPieces, type Piece } from './piece.ts'
import type { PieceJob, SpokenPiece } from './voice-thread.ts'
import { checkVoice, chooseKbps, LANGUAGE, SAMPLE_RATE, SPEAKER } from './voice.ts'

const MAX_CHARACTERS = 100_000
/** This many requests alternate, piece by piece, so that a long text does not block short ones. */
const PLACES = 4
const LANE = 'speech'
/** Used until a request has been measured; deliberately high. */
const GUESSED_MS_PER_CHARACTER = 15

const requestForm = z.looseObject({
  text: z
    .string()
    .min(1, 'must not be empty')
    .refine((text) => countCharacters(text) <= MAX_CHARACTERS, `must have at most ${MAX_CHARACTERS} characters`),
  language: z.string().max(20).nullish(),
  speaker: z.string().max(100).nullish(),
  speed: z.number().min(0.1).max(5).nullish(),
  format: z.enum(ownAudioFormats).nullish(),
  stream: z.boolean().nullish(),
})

/** The synthesis thread. */
export interface SpeechThread {
  /** Settles when the voice has loaded. */
  readonly loaded: Promise<void>
  speak(job: PieceJob): Promise<SpokenPiece>
  drop(requestId: number): void
}

export class SpeechHandler {
  readonly queue: WorkQueue
  readonly #thread: SpeechThread
  #lastId = 0

  constructor(thread: SpeechThread, queueLimit: number) {
    this.#thread = thread
    this.queue = new WorkQueue(queueLimit, { [LANE]: { places: PLACES, msPerUnit: GUESSED_MS_PER_CHARACTER } })
  }

  listVoices(): Result<unknown> {
    return ok({ voices: [{ speaker: SPEAKER, language: LANGUAGE, sampleRate: SAMPLE_RATE }] })
  }

  async generate({ body, signal, response }: EngineCall): Promise<Result<unknown>> {
    const request = readFields(requestForm, body)
    if (!request.ok) return request
    const { text } = request.value
    const voice = checkVoice(request.value.speaker ?? undefined, request.value.language ?? undefined)
    if (!voice.ok) return voice
    const pieces = cutPieces(text)
    if (!pieces.ok) return pieces
    const characters = countCharacters(text)
    return this.queue.run(LANE, characters, signal, async () => {
      await Promise.race([this.#thread.loaded, rejectOnAbort(signal)])
      const startedAt = performance.now()
      const { speed, format, stream } = request.value
      const reply = stream === true ? new AudioEvents(response, signal) : new AudioReply(response, signal)
      const form = { speed: speed ?? 1, format: format ?? 'mp3', characters }
      const samples = await this.#speakAll(pieces.value, form, reply, signal)
      reply.finish({
        inference_time: (performance.now() - startedAt) / 1_000,
        sample_rate: SAMPLE_RATE,
        usage: characters,
        duration: samples / SAMPLE_RATE,
      })
      return ok(undefined)
    })
  }

  /** Returns the number of samples. Throws the signal's reason between two pieces if the client has disconnected. */
  async #speakAll(
    pieces: readonly Piece[],
    { speed, format, characters }: Pick<PieceJob, 'speed' | 'format'> & { readonly characters: number },
    reply: SpeechReply,
    signal: AbortSignal,
  ): Promise<number> {
    const thread = this.#thread
    const requestId = ++this.#lastId
    const job = { requestId, format, kbps: chooseKbps(characters, speed), speed }
    const total = pieces.reduce((sum, { text }) => sum + text.length, 0)
    let samples = 0
    let spoken = 0
    const speak = async (text: string | null, pauseMs: number): Promise<void> => {
      signal.throwIfAborted()
      const piece = await thread.speak({ ...job, text, pauseMs })
      samples += piece.samples
      spoken += text?.length ?? 0
      // Pieces are spelled out, so their lengths are only shares of the text.
      await reply.add(piece.bytes, Math.floor((spoken / total) * characters))
    }
    try {
      for (const [i, { text, pauseMs }] of pieces.entries()) await speak(text, i === pieces.length - 1 ? 0 : pauseMs)
      await speak(null, 0)
    } catch (cause) {
      thread.drop(requestId)
      throw cause
    }
    return samples
  }
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => reject(signal.reason as Error)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
}

/** Counts code points. */
function countCharacters(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}

/**
 * The synthesis thread. Synthesis and encoding block it, and the HTTP thread stays free. Pieces of several requests alternate; each request has at most one piece in progress.
 */
import { parentPort, Worker } from 'node:worker_threads'
import type { OwnAudioFormat } from '../../contract/audio-format.ts'
import type { AudioWriter } from './audio-writer.ts'
import { AudioWriters } from './audio-writers.ts'
import { stretchTime } from './time-stretch.ts'
import { loadVits, type Synthesizer } from './vits.ts'
import { SAMPLE_RATE, SPEEDS, type Kbps } from './voice.ts'

export interface ThreadStart {
  readonly threads: number
}

/** `text` null: requests the rest of the file. */
export interface PieceJob {
  readonly requestId: number
  readonly format: OwnAudioFormat
  readonly kbps: Kbps
  readonly speed: number
  readonly text: string | null
  readonly pauseMs: number
}

export interface SpokenPiece {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly samples: number
}

type ToThread =
  | { readonly kind: 'piece'; readonly job: PieceJob }
  | { readonly kind: 'drop'; readonly requestId: number }
type FromThread =
  | { readonly kind: 'loaded' }
  | { readonly kind: 'spoken'; readonly requestId: number; readonly piece: SpokenPiece }
  | { readonly kind: 'broken'; readonly requestId: number; readonly message: string }

/** The caller's side. */
export class VoiceThread {
  /** Settles when the voice has loaded. */
  readonly loaded: Promise<void>
  readonly #worker: Worker
  readonly #waiting = new Map<number, { resolve: (piece: SpokenPiece) => void; reject: (cause: Error) => void }>()

  /** `onEnd` is called if the thread ends, which it never does normally. */
  constructor(entry: URL, start: ThreadStart, onEnd: (cause: Error) => void) {
    this.#worker = new Worker(entry, { workerData: start })
    this.loaded = new Promise((resolve) => {
      this.#worker.on('message', (message: FromThread) => {
        if (message.kind === 'loaded') return resolve()
        const waiting = this.#waiting.get(message.requestId)
        this.#waiting.delete(message.requestId)
        if (message.kind === 'spoken') waiting?.resolve(message.piece)
        else waiting?.reject(new Error(message.message))
      })
    })
    this.#worker.on('error', (cause) => onEnd(cause instanceof Error ? cause : new Error(String(cause))))
    this.#worker.on('exit', (code) => onEnd(new Error(`the synthesis thread exited with code ${code}`)))
  }

  speak(job: PieceJob): Promise<SpokenPiece> {
    return new Promise((resolve, reject) => {
      this.#waiting.set(job.requestId, { resolve, reject })
      this.#send({ kind: 'piece', job })
    })
  }

  /** Discards the state of a request. */
  drop(requestId: number): void {
    this.#send({ kind: 'drop', requestId })
  }

  #send(message: ToThread): void {
    this.#worker.postMessage(message, [])
  }
}

/** The thread's side; runs as long as its process. */
export async function runVoiceThread(start: ThreadStart): Promise<void> {
  const port = parentPort
  if (port === null) throw new Error('not in a thread')
  const [synthesizer, writers] = await Promise.all([loadVits(start.threads), AudioWriters.load()])
  const speaker = new Speaker(synthesizer, writers)
  let turn: Promise<void> = Promise.resolve()
  const answer = async (job: PieceJob): Promise<void> => {
    try {
      const piece = await speaker.speak(job)
      port.postMessage({ kind: 'spoken', requestId: job.requestId, piece } satisfies FromThread, [piece.bytes.buffer])
    } catch (cause) {
      speaker.drop(job.requestId)
      const message = cause instanceof Error ? cause.message : String(cause)
      port.postMessage({ kind: 'broken', requestId: job.requestId, message } satisfies FromThread)
    }
  }
  port.on('message', (message: ToThread) => {
    turn = turn.then(() => (message.kind === 'piece' ? answer(message.job) : speaker.drop(message.requestId)))
  })
  port.postMessage({ kind: 'loaded' } satisfies FromThread)
}

class Speaker {
  readonly #synthesizer: Synthesizer
  readonly #writers: AudioWriters
  readonly #open = new Map<number, AudioWriter>()

  constructor(synthesizer: Synthesizer, writers: AudioWriters) {
    this.#synthesizer = synthesizer
    this.#writers = writers
  }

  async speak({ requestId, format, kbps, speed, text, pauseMs }: PieceJob): Promise<SpokenPiece> {
    const writer = this.#open.get(requestId) ?? (await this.#writers.open(format, kbps))
    this.#open.set(requestId, writer)
    if (text === null) {
      this.#open.delete(requestId)
      return { bytes: writer.finish(), samples: 0 }
    }
    const modelSpeed = Math.min(Math.max(speed, SPEEDS.min), SPEEDS.max)
    const speech = await this.#synthesizer.speak(text, modelSpeed)
    const sound = modelSpeed === speed ? speech : stretchTime(speech, speed / modelSpeed, SAMPLE_RATE)
    const pause = Math.round((pauseMs / 1_000 / speed) * SAMPLE_RATE)
    const samples = new Float32Array(sound.length + pause)
    samples.set(sound)
    return { bytes: writer.encode(samples), samples: samples.length }
  }

  drop(requestId: number): void {
    this.#open.get(requestId)?.drop()
    this.#open.delete(requestId)
  }
}

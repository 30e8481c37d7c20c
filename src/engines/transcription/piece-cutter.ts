/**
 * Cuts a stream of samples at pauses into pieces that the model can read at once. A pause is quiet in comparison with the
 * piece itself, so a hiss or a quiet microphone does not matter; a piece without a pause is cut where it is quietest. What
 * is as good as silent is left out.
 */

export const PIECE_RATE = 16_000
const MAX_PIECE_SECONDS = 30

const FRAME_SECONDS = 0.02
const FRAME_SAMPLES = PIECE_RATE * FRAME_SECONDS
const frames = (seconds: number): number => Math.round(seconds / FRAME_SECONDS)
const MAX_FRAMES = frames(MAX_PIECE_SECONDS)
/** Root mean square of a frame that counts as silence, about -54 dB. */
const SILENCE = 0.002
/** A frame is quiet below this part of the loudest ones. */
const QUIET = 0.06
/** How slowly the loudest frame is forgotten: by half in ten seconds. */
const DECAY = 0.5 ** (1 / frames(10))
/** Pauses that end a piece: the longer the piece, the shorter the pause. */
const pauses = [
  { pieceFrames: 0, pauseFrames: frames(0.8) },
  { pieceFrames: frames(8), pauseFrames: frames(0.3) },
  { pieceFrames: frames(18), pauseFrames: frames(0.14) },
] as const
/** Quiet that stays before and after a piece. */
const MARGIN = frames(0.2)
/** Less than this above the quiet is a click. */
const MIN_LOUD = frames(0.1)
/** The part at the end of a piece where it may be cut without a pause, and the length that has to be quiet there. */
const SEARCH = frames(8)
const GAP = frames(0.12)

export interface Piece {
  readonly startSeconds: number
  readonly endSeconds: number
  readonly samples: Float32Array
}

interface Frame {
  readonly samples: Float32Array
  readonly level: number
}

export class PieceCutter {
  #partial = new Float32Array(0)
  #frames: Frame[] = []
  /** The number of the first frame. */
  #first = 0
  #loudest = SILENCE
  #quietRun = 0
  #hasBegun = false

  push(samples: Float32Array): Piece[] {
    const joined = new Float32Array(this.#partial.length + samples.length)
    joined.set(this.#partial)
    joined.set(samples, this.#partial.length)
    const whole = joined.length - (joined.length % FRAME_SAMPLES)
    this.#partial = joined.slice(whole)
    const pieces: Piece[] = []
    for (let at = 0; at < whole; at += FRAME_SAMPLES) pieces.push(...this.#add(joined.slice(at, at + FRAME_SAMPLES)))
    return pieces
  }

  end(): Piece[] {
    const lastFrame = new Float32Array(FRAME_SAMPLES)
    lastFrame.set(this.#partial)
    const pieces = this.#partial.length === 0 ? [] : this.#add(lastFrame)
    return this.#hasBegun ? [...pieces, ...this.#cut(this.#frames.length)] : pieces
  }

  #add(samples: Float32Array): Piece[] {
    const level = Math.sqrt(samples.reduce((sum, value) => sum + value * value, 0) / samples.length)
    this.#frames.push({ samples, level })
    this.#loudest = Math.max(level, this.#loudest * DECAY, SILENCE)
    if (!this.#hasBegun) {
      this.#hasBegun = level > SILENCE
      if (!this.#hasBegun) this.#drop(this.#frames.length - MARGIN)
      return []
    }
    this.#quietRun = level <= this.#threshold ? this.#quietRun + 1 : 0
    const length = this.#frames.length
    if (pauses.some(({ pieceFrames, pauseFrames }) => length >= pieceFrames && this.#quietRun >= pauseFrames)) {
      return this.#cut(Math.min(length, length - this.#quietRun + MARGIN))
    }
    return length < MAX_FRAMES ? [] : this.#cut(this.#quietestPlace())
  }

  get #threshold(): number {
    return Math.max(SILENCE, this.#loudest * QUIET)
  }

  /** The middle of the quietest gap near the end. */
  #quietestPlace(): number {
    const levels = this.#frames.map(({ level }) => level)
    let best = { at: levels.length, sum: Infinity }
    for (let at = levels.length - SEARCH; at + GAP <= levels.length; at += 1) {
      const sum = levels.slice(at, at + GAP).reduce((all, level) => all + level, 0)
      if (sum < best.sum) best = { at: at + Math.floor(GAP / 2), sum }
    }
    return best.at
  }

  /** The first `count` frames are a piece, without the quiet at its ends. */
  #cut(count: number): Piece[] {
    const threshold = this.#threshold
    const frames = this.#frames.slice(0, count)
    const from = Math.max(0, frames.findIndex(({ level }) => level > threshold) - MARGIN)
    const last = frames.findLastIndex(({ level }) => level > threshold)
    const part = frames.slice(from, Math.min(frames.length, last + 1 + MARGIN))
    const startSeconds = (this.#first + from) * FRAME_SECONDS
    this.#drop(count)
    this.#quietRun = 0
    this.#hasBegun = this.#frames.some(({ level }) => level > SILENCE)
    if (part.filter(({ level }) => level > threshold).length < MIN_LOUD) return []
    const samples = new Float32Array(part.length * FRAME_SAMPLES)
    for (const [at, frame] of part.entries()) samples.set(frame.samples, at * FRAME_SAMPLES)
    return [{ startSeconds, endSeconds: startSeconds + part.length * FRAME_SECONDS, samples }]
  }

  #drop(count: number): void {
    if (count <= 0) return
    this.#frames.splice(0, count)
    this.#first += count
  }
}

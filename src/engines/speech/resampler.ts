/**
 * Changes the rate of a sound that arrives in pieces. Each output sample is a weighted sum of its neighbors: a sinc
 * within a window, which removes what the lower rate cannot carry. The weights repeat, since both rates are whole.
 */

/** Input samples on each side of an output sample. More are sharper at the band edge, and slower. */
const HALF = 32
/** The part of the band that is left untouched; the window needs the remainder to fall off. */
const PASSED = 0.92

export class Resampler {
  readonly #up: number
  readonly #down: number
  /** The weights of each phase, one after the other. */
  readonly #weights: Float32Array
  /** The input from `#start` on. */
  #input: Float32Array = new Float32Array(HALF - 1)
  /** The index of the first sample of `#input`; the silence before the sound has negative ones. */
  #start = 1 - HALF
  #received = 0
  #written = 0

  constructor(from: number, to: number) {
    const divisor = commonDivisor(from, to)
    this.#up = to / divisor
    this.#down = from / divisor
    this.#weights = makeWeights(this.#up, Math.min(1, to / from) * PASSED)
  }

  push(samples: Float32Array): Float32Array {
    this.#received += samples.length
    this.#append(samples)
    return this.#write(this.#start + this.#input.length)
  }

  /** The last samples, as if silence followed. */
  finish(): Float32Array {
    this.#append(new Float32Array(HALF))
    const all = Math.ceil((this.#received * this.#up) / this.#down)
    return this.#write(this.#start + this.#input.length).subarray(0, Math.max(0, all - this.#finished))
  }

  /** Output samples before the latest `#write`. */
  #finished = 0

  #append(samples: Float32Array): void {
    const input = new Float32Array(this.#input.length + samples.length)
    input.set(this.#input)
    input.set(samples, this.#input.length)
    this.#input = input
  }

  /** Writes the output that needs no input from `end` on. */
  #write(end: number): Float32Array {
    this.#finished = this.#written
    const output: number[] = []
    for (;;) {
      const place = this.#written * this.#down
      const first = Math.floor(place / this.#up) - HALF + 1
      if (first + 2 * HALF > end) break
      output.push(this.#sampleAt(first - this.#start, (place % this.#up) * 2 * HALF))
      this.#written += 1
    }
    const needed = Math.floor((this.#written * this.#down) / this.#up) - HALF + 1
    this.#input = this.#input.slice(Math.max(0, needed - this.#start))
    this.#start = Math.max(this.#start, needed)
    return Float32Array.from(output)
  }

  #sampleAt(from: number, weight: number): number {
    let sum = 0
    for (let i = 0; i < 2 * HALF; i++) sum += (this.#input[from + i] ?? 0) * (this.#weights[weight + i] ?? 0)
    return sum
  }
}

function makeWeights(phases: number, band: number): Float32Array {
  const weights = new Float32Array(phases * 2 * HALF)
  for (let phase = 0; phase < phases; phase++) {
    for (let i = 0; i < 2 * HALF; i++) {
      const distance = i - HALF + 1 - phase / phases
      weights[phase * 2 * HALF + i] = band * sinc(band * distance) * windowAt(distance / HALF)
    }
  }
  return weights
}

function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x)
}

/** Blackman's window, from -1 to 1. */
function windowAt(x: number): number {
  if (Math.abs(x) >= 1) return 0
  return 0.42 + 0.5 * Math.cos(Math.PI * x) + 0.08 * Math.cos(2 * Math.PI * x)
}

function commonDivisor(one: number, other: number): number {
  return other === 0 ? one : commonDivisor(other, one % other)
}

/** Converts the rate of a stream of samples, with a filter that removes what the new rate cannot carry. */

/** Zero crossings of the filter on each side. More make a sharper edge. */
const CROSSINGS = 16
/** The edge of the filter, below half of the lower rate. */
const EDGE = 0.92

export class Resampler {
  readonly #step: number
  readonly #cutoff: number
  readonly #reach: number
  /** Samples from `#start` on; before the first one there is silence. */
  #buffer = new Float32Array(0)
  #start = 0
  #made = 0

  constructor(fromRate: number, toRate: number) {
    this.#step = fromRate / toRate
    this.#cutoff = Math.min(1, toRate / fromRate) * EDGE
    this.#reach = this.#step === 1 ? 0 : Math.ceil(CROSSINGS / this.#cutoff)
  }

  push(samples: Float32Array): Float32Array {
    if (this.#reach === 0) return samples
    this.#append(samples)
    return this.#make(this.#start + this.#buffer.length - this.#reach)
  }

  /** The last samples, as if silence followed. */
  end(): Float32Array {
    if (this.#reach === 0) return new Float32Array(0)
    const end = this.#start + this.#buffer.length
    this.#append(new Float32Array(this.#reach))
    return this.#make(end)
  }

  #append(samples: Float32Array): void {
    const joined = new Float32Array(this.#buffer.length + samples.length)
    joined.set(this.#buffer)
    joined.set(samples, this.#buffer.length)
    this.#buffer = joined
  }

  /** Every sample whose place in the source is before `end`. */
  #make(end: number): Float32Array {
    const count = Math.max(0, Math.ceil(end / this.#step) - this.#made)
    const output = Float32Array.from({ length: count }, (_, at) => this.#at((this.#made + at) * this.#step))
    this.#made += count
    const needed = Math.max(0, Math.floor(this.#made * this.#step) - this.#reach - this.#start)
    this.#buffer = this.#buffer.slice(needed)
    this.#start += needed
    return output
  }

  #at(place: number): number {
    const first = Math.max(this.#start, Math.ceil(place - this.#reach))
    const last = Math.min(this.#start + this.#buffer.length - 1, Math.floor(place + this.#reach))
    let sum = 0
    for (let at = first; at <= last; at += 1) {
      const distance = (at - place) * this.#cutoff
      sum += (this.#buffer[at - this.#start] ?? 0) * windowedSinc(distance)
    }
    return sum * this.#cutoff
  }
}

/** Reads the window from a table, since computing sines costs more than the sum. */
function windowedSinc(distance: number): number {
  const place = Math.abs(distance) * TABLE_STEPS
  const at = Math.floor(place)
  const [one = 0, next = 0] = [table[at], table[at + 1]]
  return one + (next - one) * (place - at)
}

const TABLE_STEPS = 512

const table = Float32Array.from({ length: CROSSINGS * TABLE_STEPS + 2 }, (_, at) => {
  const x = at / TABLE_STEPS
  if (x >= CROSSINGS) return 0
  const sinc = x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x)
  return sinc * (0.5 + 0.5 * Math.cos((Math.PI * x) / CROSSINGS))
})

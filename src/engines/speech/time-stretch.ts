/**
 * Makes speech shorter or longer without changing its pitch (waveform-similarity overlap-add): windows are read from the
 * sound at another pace than they are written, each near its nominal position where it best continues the previous one.
 */

const WINDOW_SECONDS = 0.03
const SEARCH_SECONDS = 0.012
/** Compares every fourth position and sample first, then each position near the best. */
const COARSE = 4

/** At `pace` 2 the result is half as long. Its length is exact to the sample. */
export function stretchTime(samples: Float32Array, pace: number, sampleRate: number): Float32Array<ArrayBuffer> {
  const length = Math.round(samples.length / pace)
  const window = 2 * Math.round((WINDOW_SECONDS * sampleRate) / 2)
  if (samples.length < 2 * window) return holdShort(samples, length)
  const hop = window / 2
  const hann = Float32Array.from({ length: window }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * (i + 0.5)) / window))
  const search = Math.round(SEARCH_SECONDS * sampleRate)
  const out = new Float32Array(length)
  const lastStart = samples.length - window
  let next = 0
  for (let at = -hop; at < length; at += hop) {
    // The first window begins half outside, so that the sound starts at full volume.
    const due = Math.round(Math.max(0, at) * pace)
    const from = at <= 0 ? 0 : bestStart(samples, next, clamp(due, 0, lastStart), { search, window, lastStart })
    const offset = at < 0 ? hop : 0
    for (let i = offset; i < window && at + i < length; i++) {
      const place = at + i
      out[place] = (out[place] ?? 0) + (samples[from + i - offset] ?? 0) * (hann[i] ?? 0)
    }
    next = clamp(at < 0 ? 0 : from + hop, 0, lastStart)
  }
  return out
}

interface Search {
  readonly search: number
  readonly window: number
  readonly lastStart: number
}

/** The position near `due` whose window is most similar to the one at `like`. */
function bestStart(samples: Float32Array, like: number, due: number, { search, window, lastStart }: Search): number {
  const [low, high] = [Math.max(0, due - search), Math.min(lastStart, due + search)]
  let best = due
  let bestLikeness = -Infinity
  const look = (from: number, to: number, step: number): void => {
    for (let start = from; start <= to; start += step) {
      const likeness = compare(samples, like, start, window, step)
      if (likeness <= bestLikeness) continue
      best = start
      bestLikeness = likeness
    }
  }
  look(low, high, COARSE)
  const near = best
  bestLikeness = -Infinity
  look(Math.max(low, near - COARSE), Math.min(high, near + COARSE), 1)
  return best
}

/** Correlation divided by the candidate's loudness, so that loud positions have no advantage. */
function compare(samples: Float32Array, a: number, b: number, window: number, step: number): number {
  let product = 0
  let power = 1e-9
  for (let i = 0; i < window; i += step) {
    const one = samples[a + i] ?? 0
    const other = samples[b + i] ?? 0
    product += one * other
    power += other * other
  }
  return product / Math.sqrt(power)
}

/** A sound shorter than a window, such as a click, is cut or padded with silence. */
function holdShort(samples: Float32Array, length: number): Float32Array<ArrayBuffer> {
  const out = new Float32Array(length)
  out.set(samples.subarray(0, length))
  return out
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high)
}

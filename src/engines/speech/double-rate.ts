/**
 * Doubles the sample rate. MP3 encoders pad the beginning and the end with a fixed number of silent samples: at 16 kHz
 * that is more than a tenth of a second, at 32 kHz less.
 */

/** Neighbors on each side of a new sample. */
const TAPS = 16

/** A new sample is the sum of its neighbors, weighted by a Blackman-windowed sinc. */
const weights = Float32Array.from({ length: TAPS }, (_, i) => {
  const distance = i + 0.5
  const fade = Math.PI * (1 + distance / TAPS)
  const blackman = 0.42 - 0.5 * Math.cos(fade) + 0.08 * Math.cos(2 * fade)
  return (Math.sin(Math.PI * distance) / (Math.PI * distance)) * blackman
})

export function doubleRate(samples: Float32Array): Float32Array {
  const out = new Float32Array(samples.length * 2)
  for (let i = 0; i < samples.length; i++) {
    let between = 0
    for (let tap = 0; tap < TAPS; tap++) {
      between += ((samples[i - tap] ?? 0) + (samples[i + 1 + tap] ?? 0)) * (weights[tap] ?? 0)
    }
    out[2 * i] = samples[i] ?? 0
    out[2 * i + 1] = between
  }
  return out
}

import { expect, test } from 'vitest'
import { doubleRate } from './double-rate.ts'

function tone(hertz: number, rate: number): Float32Array {
  return Float32Array.from({ length: rate / 10 }, (_, i) => 0.5 * Math.sin((2 * Math.PI * hertz * i) / rate))
}

test.each([100, 440, 1_000, 3_000, 6_000])('keeps a tone of %d Hz unchanged', (hertz) => {
  const doubled = doubleRate(tone(hertz, 16_000))
  const expected = tone(hertz, 32_000)
  expect(doubled.length).toBe(expected.length)
  // The ends are interpolated with silence.
  const inner = doubled.subarray(64, -64)
  const fault = inner.reduce((worst, sample, i) => Math.max(worst, Math.abs(sample - (expected[i + 64] ?? NaN))), 0)
  expect(fault).toBeLessThan(0.005)
})

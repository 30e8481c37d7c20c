import { expect, test } from 'vitest'
import { gaussianNoise } from './noise.ts'

const LENGTH = 65_536
const seeds = [0, 1, -1, 7, 2 ** 32, -(2 ** 32), 2 ** 32 - 1, 2 ** 53 - 1, -(2 ** 53 - 1)]

/** The mean of a power of the values. */
function moment(values: Float32Array, power: number): number {
  return values.reduce((sum, value) => sum + value ** power, 0) / values.length
}

function correlation(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0) / a.length
}

test.each(seeds)('the noise of seed %d is normally distributed', (seed) => {
  const noise = gaussianNoise(seed, LENGTH)
  // Five standard deviations, which are √(1, 2, 15, 96 / n) for the moments.
  expect(Math.abs(moment(noise, 1))).toBeLessThan(5 * Math.sqrt(1 / LENGTH))
  expect(Math.abs(moment(noise, 2) - 1)).toBeLessThan(5 * Math.sqrt(2 / LENGTH))
  expect(Math.abs(moment(noise, 3))).toBeLessThan(5 * Math.sqrt(15 / LENGTH))
  expect(Math.abs(moment(noise, 4) - 3)).toBeLessThan(5 * Math.sqrt(96 / LENGTH))
  for (const distance of [1, 2, 3, 32]) {
    const both = correlation(noise.subarray(0, -distance), noise.subarray(distance))
    expect(Math.abs(both)).toBeLessThan(5 / Math.sqrt(LENGTH))
  }
})

test('the noise of two seeds is uncorrelated, even if they are adjacent', () => {
  for (const [i, a] of seeds.entries()) {
    for (const b of seeds.slice(i + 1)) {
      const both = correlation(gaussianNoise(a, LENGTH), gaussianNoise(b, LENGTH))
      expect(Math.abs(both), `${a} and ${b}`).toBeLessThan(5 / Math.sqrt(LENGTH))
    }
  }
})

test('a seed always gives the same noise, and shorter noise is its prefix', () => {
  const noise = gaussianNoise(42, 1_000)
  expect(gaussianNoise(42, 1_000)).toEqual(noise)
  expect(gaussianNoise(42, 7)).toEqual(noise.slice(0, 7))
})

import { expect, test } from 'vitest'
import { stretchTime } from './time-stretch.ts'

const RATE = 16_000

function tone(hertz: number, seconds: number): Float32Array {
  return Float32Array.from({ length: RATE * seconds }, (_, i) => 0.5 * Math.sin((2 * Math.PI * hertz * i) / RATE))
}

/** From the number of upward zero crossings. */
function pitchOf(samples: Float32Array): number {
  let crossings = 0
  for (let i = 1; i < samples.length; i++) if ((samples[i - 1] ?? 0) < 0 && (samples[i] ?? 0) >= 0) crossings++
  return (crossings * RATE) / samples.length
}

function loudness(samples: Float32Array): number {
  return Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length)
}

test.each([0.2, 0.5, 0.9, 1.7, 2.5, 5])('pace %d changes the length, but not pitch or loudness', (pace) => {
  const sound = tone(220, 2)
  const stretched = stretchTime(sound, pace, RATE)
  expect(stretched.length).toBe(Math.round(sound.length / pace))
  expect(pitchOf(stretched)).toBeGreaterThan(214)
  expect(pitchOf(stretched)).toBeLessThan(226)
  expect(loudness(stretched)).toBeGreaterThan(0.9 * loudness(sound))
  expect(loudness(stretched)).toBeLessThan(1.1 * loudness(sound))
})

test('keeps the order of sounds', () => {
  const sound = new Float32Array(RATE * 2)
  sound.set(tone(300, 1))
  const stretched = stretchTime(sound, 2, RATE)
  expect(loudness(stretched.subarray(0, RATE * 0.45))).toBeGreaterThan(0.3)
  expect(loudness(stretched.subarray(RATE * 0.55))).toBeLessThan(0.01)
})

test('gives a sound shorter than a window the right length', () => {
  expect(stretchTime(new Float32Array(100).fill(0.1), 0.5, RATE).length).toBe(200)
  expect(stretchTime(new Float32Array(0), 2, RATE).length).toBe(0)
})

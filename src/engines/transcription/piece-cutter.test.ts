import { expect, test } from 'vitest'
import { PIECE_RATE, PieceCutter, type Piece } from './piece-cutter.ts'
import { Resampler } from './resampler.ts'

/** Parts of a recording, in seconds: a tone, or a quiet hiss. */
function record(...parts: ReadonlyArray<readonly [seconds: number, level: number]>): Float32Array {
  return Float32Array.from(
    parts.flatMap(([seconds, level]) =>
      Array.from({ length: seconds * PIECE_RATE }, (_, at) => level * Math.sin((at * 2 * Math.PI * 220) / PIECE_RATE)),
    ),
  )
}

function cut(samples: Float32Array): Piece[] {
  const cutter = new PieceCutter()
  const pieces: Piece[] = []
  for (let at = 0; at < samples.length; at += 1_000) pieces.push(...cutter.push(samples.subarray(at, at + 1_000)))
  return [...pieces, ...cutter.end()]
}

test('a recording is cut at its pauses, with a margin', () => {
  const pieces = cut(record([1, 0], [3, 0.5], [1, 0], [2, 0.5], [1, 0]))
  expect(pieces.map(({ startSeconds, endSeconds }) => [startSeconds, endSeconds])).toEqual([
    [expect.closeTo(0.8, 1), expect.closeTo(4.2, 1)],
    [expect.closeTo(4.8, 1), expect.closeTo(7.2, 1)],
  ])
})

test('a quiet recording with a hiss has pauses too', () => {
  expect(cut(record([2, 0.05], [1, 0.002], [2, 0.05], [1, 0.002]))).toHaveLength(2)
})

test('no piece is longer than half a minute, and nothing of it is lost', () => {
  const pieces = cut(record([100, 0.5]))
  expect(Math.max(...pieces.map(({ samples }) => samples.length))).toBeLessThanOrEqual(30 * PIECE_RATE)
  expect(pieces.reduce((sum, { samples }) => sum + samples.length, 0)).toBe(100 * PIECE_RATE)
})

test('P33: silence, and a click in it, are no piece', () => {
  expect(cut(record([20, 0]))).toEqual([])
  expect(cut(record([2, 0.001]))).toEqual([])
  expect(cut(record([2, 0], [0.02, 0.9], [2, 0]))).toEqual([])
})

test.each([44_100, 48_000, 8_000, 16_000])('%i samples per second become 16,000 with the same tone', (rate) => {
  const resampler = new Resampler(rate, PIECE_RATE)
  const tone = (at: number, its: number): number => 0.5 * Math.sin((at * 2 * Math.PI * 440) / its)
  const output: number[] = []
  for (let at = 0; at < rate; at += 1_111) {
    const length = Math.min(1_111, rate - at)
    output.push(...resampler.push(Float32Array.from({ length }, (_, n) => tone(at + n, rate))))
  }
  output.push(...resampler.end())
  expect(output).toHaveLength(PIECE_RATE)
  const middle = output.slice(1_000, -1_000)
  const faults = middle.map((value, at) => Math.abs(value - tone(at + 1_000, PIECE_RATE)))
  expect(Math.max(...faults)).toBeLessThan(0.01)
})

test('a tone that the lower rate cannot carry is removed', () => {
  const resampler = new Resampler(48_000, PIECE_RATE)
  const high = Float32Array.from({ length: 48_000 }, (_, at) => Math.sin((at * 2 * Math.PI * 12_000) / 48_000))
  const output = [...resampler.push(high), ...resampler.end()].slice(1_000, -1_000)
  expect(Math.max(...output.map(Math.abs))).toBeLessThan(0.02)
})

/** Files of each format, read by ffmpeg. */
import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import type { OwnAudioFormat } from '../../contract/audio-format.ts'
import { needs } from '../../../test/needs.ts'
import { AudioWriters } from './audio-writers.ts'
import { SAMPLE_RATE } from './voice.ts'

needs('ffmpeg')

const TONE_HZ = 440
/** Not a multiple of any block or frame. */
const SAMPLES = 3 * SAMPLE_RATE + 123
const tone = Float32Array.from({ length: SAMPLES }, (_, i) => 0.5 * Math.sin((2 * Math.PI * TONE_HZ * i) / SAMPLE_RATE))

async function write(format: OwnAudioFormat, samples: Float32Array, piece: number): Promise<Buffer> {
  const writer = await (await AudioWriters.load()).open(format, 64)
  const parts: Uint8Array[] = []
  for (let at = 0; at < samples.length; at += piece) parts.push(writer.encode(samples.subarray(at, at + piece)))
  return Buffer.concat([...parts, writer.finish()])
}

/** 16-bit samples at the rate of the voice. */
function read(file: Buffer, form: readonly string[] = []): Int16Array {
  const output = ['-f', 's16le', '-ar', String(SAMPLE_RATE), '-ac', '1', '-']
  const bytes = execFileSync('ffmpeg', ['-v', 'error', ...form, '-i', '-', ...output], {
    input: file,
    maxBuffer: 64 * 1_048_576,
  })
  return Int16Array.from({ length: bytes.length / 2 }, (_, i) => bytes.readInt16LE(i * 2))
}

/** How far the sound is from the tone, in decibels below it, without the edges. */
function quietness(samples: Int16Array, from: number): number {
  let [noise, power] = [0, 0]
  for (let i = 2_000; i < SAMPLES - 2_000; i++) {
    const exact = (tone[i] ?? 0) * 32_767
    noise += (exact - (samples[i + from] ?? 0)) ** 2
    power += exact ** 2
  }
  return 10 * Math.log10(power / noise)
}

const pcm = ['-f', 's16le', '-ar', '24000', '-ac', '1']

test.each<[OwnAudioFormat, number, string[]]>([
  ['flac', 90, []],
  ['wav', 90, []],
  ['pcm', 70, pcm],
  ['opus', 25, []],
])('%s has the sound at its place and its length, whatever the pieces', async (format, leastDecibels, form) => {
  for (const piece of [999, 17_000, SAMPLES]) {
    const samples = read(await write(format, tone, piece), form)
    expect(Math.abs(samples.length - SAMPLES)).toBeLessThanOrEqual(2)
    expect(quietness(samples, 0)).toBeGreaterThan(leastDecibels)
  }
})

test('FLAC keeps every sample of any sound, and is smaller than WAV for a tone', async () => {
  const extremes = Float32Array.from({ length: 5_000 }, (_, i) => (i % 7 === 0 ? 1 : i % 3 === 0 ? -1 : 0.3))
  for (const sound of [extremes, new Float32Array(4_097), tone.subarray(0, 1), tone]) {
    const exact = read(await write('wav', sound, 1_000))
    expect(read(await write('flac', sound, 1_000))).toEqual(exact)
  }
  const [flac, wav] = [await write('flac', tone, 4_096), await write('wav', tone, 4_096)]
  expect(flac.length).toBeLessThan(wav.length * 0.7)
})

test('FLAC counts blocks beyond one byte and beyond two', async () => {
  const long = new Float32Array(4_096 * 2_100)
  expect(read(await write('flac', long, long.length)).length).toBe(long.length)
})

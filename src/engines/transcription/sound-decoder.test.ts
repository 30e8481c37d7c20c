import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { measureSound, type Sound } from '../../base/sound/sound.ts'
import { DamagedSound, decodeSound } from './sound-decoder.ts'

const folder = path.join(import.meta.dirname, '../../../test/fixtures/sound')

async function decodeAll(bytes: Buffer): Promise<{ sound: Sound; samples: Float32Array }> {
  const sound = measureSound(bytes)
  if ('fault' in sound) throw new Error('not a recording')
  const slices: Float32Array[] = []
  for await (const slice of decodeSound(bytes, sound)) slices.push(slice)
  const samples = new Float32Array(slices.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const slice of slices) {
    samples.set(slice, at)
    at += slice.length
  }
  return { sound, samples }
}

test.each(['ship.flac', 'ship.mp3', 'ship.opus'])('P31: as many samples as are billed: %s', async (name) => {
  const { sound, samples } = await decodeAll(readFileSync(path.join(folder, name)))
  expect(samples.length).toBe(sound.samples)
  // Speech, and not noise or silence: loud in places, quiet on the whole.
  expect(samples.reduce((most, value) => Math.max(most, value), 0)).toBeGreaterThan(0.2)
  expect(samples.reduce((sum, value) => sum + Math.abs(value), 0) / samples.length).toBeLessThan(0.15)
})

test.each([
  ['16 bits', 1, 16, (data: Buffer, at: number, value: number) => data.writeInt16LE(value * 32_768, at)],
  ['24 bits', 1, 24, (data: Buffer, at: number, value: number) => data.writeIntLE(value * 8_388_608, at, 3)],
  ['8 bits', 1, 8, (data: Buffer, at: number, value: number) => data.writeUInt8(128 + value * 128, at)],
  ['floats', 3, 32, (data: Buffer, at: number, value: number) => data.writeFloatLE(value, at)],
])('WAV with %s and two channels is mixed into one', async (_, codec, bits, write) => {
  const [channels, bytes] = [2, bits / 8]
  const pairs = [
    [0.5, 0],
    [-0.5, -0.25],
    [0.25, -0.25],
  ] as const
  const data = Buffer.alloc(pairs.length * channels * bytes)
  pairs.flat().forEach((value, at) => write(data, at * bytes, value))
  const head = Buffer.alloc(44)
  head.write('RIFF    WAVEfmt ')
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(codec, 20)
  head.writeUInt16LE(channels, 22)
  head.writeUInt32LE(8_000, 24)
  head.writeUInt16LE(bits, 34)
  head.write('data', 36)
  head.writeUInt32LE(data.length, 40)
  const { samples } = await decodeAll(Buffer.concat([head, data]))
  expect([...samples]).toEqual([0.25, -0.375, 0])
})

test.each(['ship.flac', 'ship.opus'])('P33: a damaged frame in the middle is noticed: %s', async (name) => {
  const bytes = readFileSync(path.join(folder, name))
  const middle = Math.floor(bytes.length / 2)
  bytes.fill(0x55, middle, middle + 40)
  await expect(decodeAll(bytes)).rejects.toThrow(DamagedSound)
})

/** Silence at 16 kHz in frames of 14 bytes, each with the most samples that a frame can have. */
function silentFlac(frames: number): Buffer {
  const info = Buffer.alloc(34)
  info.writeUInt32BE((16_000 << 12) | (15 << 4), 10)
  const head = Buffer.concat([Buffer.from('fLaC'), Buffer.from([0x80, 0, 0, info.length]), info])
  const all = Array.from({ length: frames }, (_, number) => {
    // A size of 16 bits, 16 kHz, one channel, 16 bits a sample; then the number and the size.
    const header = [0xff, 0xf8, 0x75, 0x08, ...Buffer.from(String.fromCodePoint(number)), 0xff, 0xfe]
    const frame = [...header, checksum(header, 8, 0x07), 0, 0, 0]
    const sum = checksum(frame, 16, 0x80_05)
    return Buffer.from([...frame, sum >>> 8, sum & 0xff])
  })
  return Buffer.concat([head, ...all])
}

function checksum(bytes: readonly number[], bits: number, polynomial: number): number {
  const [top, mask] = [2 ** (bits - 1), 2 ** bits - 1]
  return bytes.reduce((before, byte) => {
    let sum = before ^ (byte << (bits - 8))
    for (let bit = 0; bit < 8; bit += 1) sum = ((sum << 1) ^ (sum & top ? polynomial : 0)) & mask
    return sum
  }, 0)
}

test('P32: hours of silence in a few kilobytes are decoded in parts', async () => {
  const frames = 880
  const bytes = silentFlac(frames)
  expect(bytes.length).toBeLessThan(16_000)
  const sound = measureSound(bytes)
  if ('fault' in sound) throw new Error('not a recording')
  expect(sound.samples).toBe(frames * 65_535)
  let most = 0
  let sum = 0
  for await (const slice of decodeSound(bytes, sound)) {
    most = Math.max(most, slice.length)
    sum += slice.length
  }
  expect(sum).toBe(frames * 65_535)
  // The decoder may hold one frame back.
  expect(most).toBeLessThanOrEqual(2 * 65_535)
})

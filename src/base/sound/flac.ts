/**
 * FLAC files: their length, counted from their frames. A frame does not state its size, so the next frame is found by
 * searching for its header, which has a checksum and the next number.
 */
import type { SoundFault, SoundLength } from './sound-length.ts'

const STREAM_INFO_BYTES = 34
const SYNC = 0xff
/** The longest header of a frame. */
const HEADER_BYTES = 16

interface Frame {
  readonly blockSize: number
  readonly headerBytes: number
  /** The number of the frame; if blocks differ in size, the number of its first sample. */
  readonly number: number
  readonly countsSamples: boolean
}

export function readFlac(bytes: Buffer): SoundLength | SoundFault {
  const start = startOfFrames(bytes)
  if (start === undefined || bytes.length < 8 + STREAM_INFO_BYTES) return { fault: 'damaged' }
  const info = bytes.readUInt32BE(18)
  const sampleRate = info >>> 12
  // 36 bits. 0: the encoder did not know the length.
  const stated = (bytes.readUInt8(21) & 0x0f) * 2 ** 32 + bytes.readUInt32BE(22)
  const samples = countSamples(bytes, start)
  if (stated !== 0 && stated !== samples) return { fault: 'damaged' }
  return { samples, sampleRate }
}

/** undefined: the metadata does not end. */
function startOfFrames(bytes: Buffer): number | undefined {
  let at = 4
  while (at + 4 <= bytes.length) {
    const isLast = bytes.readUInt8(at) >= 0x80
    at += 4 + bytes.readUIntBE(at + 1, 3)
    if (isLast) return at
  }
  return undefined
}

/**
 * Yields parts of the file, in order, each of which decodes to about `samples` per channel, or to a single frame.
 * Silence takes few bytes, so parts are limited by samples.
 */
export function* slicesOfFlac(bytes: Buffer, samples: number): Generator<Buffer> {
  let from = 0
  let sum = 0
  for (const { at, blockSize } of framesOf(bytes, startOfFrames(bytes) ?? bytes.length)) {
    if (sum > 0 && sum + blockSize > samples) {
      yield bytes.subarray(from, at)
      from = at
      sum = 0
    }
    sum += blockSize
  }
  yield bytes.subarray(from)
}

function countSamples(bytes: Buffer, start: number): number {
  let samples = 0
  for (const { blockSize } of framesOf(bytes, start)) samples += blockSize
  return samples
}

function* framesOf(bytes: Buffer, start: number): Generator<{ readonly at: number; readonly blockSize: number }> {
  let samples = 0
  let frames = 0
  let first: number | undefined
  for (let at = bytes.indexOf(SYNC, start); at !== -1; at = bytes.indexOf(SYNC, at)) {
    const frame = readFrame(bytes, at)
    first ??= frame?.number
    const expected = (first ?? 0) + (frame?.countsSamples === true ? samples : frames)
    if (frame === undefined || frame.number !== expected) {
      at += 1
      continue
    }
    yield { at, blockSize: frame.blockSize }
    samples += frame.blockSize
    frames += 1
    at += frame.headerBytes
  }
}

function readFrame(bytes: Buffer, at: number): Frame | undefined {
  const header = bytes.subarray(at, at + HEADER_BYTES)
  if (header.length < 6 || (header[1] ?? 0) >>> 1 !== 0x7c) return undefined
  const sizeCode = (header[2] ?? 0) >>> 4
  const rateCode = (header[2] ?? 0) & 0x0f
  if (sizeCode === 0 || rateCode === 15 || (header[3] ?? 0) >>> 4 > 10 || ((header[3] ?? 0) & 1) === 1) return undefined
  const number = readNumber(header, 4)
  if (number === undefined) return undefined
  let end = 4 + number.bytes
  const sizeBytes = sizeCode === 6 ? 1 : sizeCode === 7 ? 2 : 0
  const rateBytes = rateCode === 12 ? 1 : rateCode === 13 || rateCode === 14 ? 2 : 0
  if (end + sizeBytes + rateBytes >= header.length) return undefined
  const blockSize = sizeBytes > 0 ? header.readUIntBE(end, sizeBytes) + 1 : (blockSizes[sizeCode] ?? 0)
  end += sizeBytes + rateBytes
  if (checksumOf(header.subarray(0, end)) !== header[end]) return undefined
  return { blockSize, headerBytes: end + 1, number: number.value, countsSamples: ((header[1] ?? 0) & 1) === 1 }
}

const blockSizes: Readonly<Record<number, number>> = {
  1: 192,
  ...Object.fromEntries([2, 3, 4, 5].map((code) => [code, 576 * 2 ** (code - 2)])),
  ...Object.fromEntries([8, 9, 10, 11, 12, 13, 14, 15].map((code) => [code, 2 ** code])),
}

/** The number is encoded as UTF-8 encodes a character, in up to seven bytes. */
function readNumber(header: Buffer, at: number): { value: number; bytes: number } | undefined {
  const first = header[at] ?? 0xff
  if (first < 0x80) return { value: first, bytes: 1 }
  const bytes = Math.clz32(~(first << 24))
  if (bytes < 2 || bytes > 7 || at + bytes > header.length) return undefined
  let value = first & (0xff >>> (bytes + 1))
  for (const byte of header.subarray(at + 1, at + bytes)) {
    if (byte >>> 6 !== 2) return undefined
    value = value * 64 + (byte & 0x3f)
  }
  return { value, bytes }
}

/** CRC-8 with the polynomial 0x07. */
function checksumOf(bytes: Buffer): number {
  let sum = 0
  for (const byte of bytes) {
    sum ^= byte
    for (let bit = 0; bit < 8; bit += 1) sum = (sum & 0x80) === 0 ? sum << 1 : ((sum << 1) ^ 0x07) & 0xff
  }
  return sum & 0xff
}

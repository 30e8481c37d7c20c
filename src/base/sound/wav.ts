/** WAV files with integers of 8 to 32 bits or floats. */
import type { SoundFault, SoundLength } from './sound-length.ts'

export interface Wav extends SoundLength {
  readonly channels: number
  readonly bits: number
  readonly isFloat: boolean
  /** Whole samples, each with the values of all channels. */
  readonly data: Buffer
}

const PCM = 1
const FLOAT = 3
const EXTENSIBLE = 0xff_fe
/** Programs that write to a pipe do not know the length. They write a number from this one up. */
const UNKNOWN_BYTES = 0x7f_ff_00_00
const MAX_CHANNELS = 32

interface Layout {
  readonly channels: number
  readonly sampleRate: number
  readonly bits: number
  readonly isFloat: boolean
}

export function readWav(bytes: Buffer): Wav | SoundFault {
  let layout: Layout | undefined
  for (let at = 12; at + 8 <= bytes.length;) {
    const name = bytes.toString('latin1', at, at + 4)
    const size = bytes.readUInt32LE(at + 4)
    const from = at + 8
    if (name === 'fmt ') {
      const read = readLayout(bytes.subarray(from, Math.min(from + size, bytes.length)))
      if ('fault' in read) return read
      layout = read
    }
    if (name === 'data') {
      if (layout === undefined) return { fault: 'damaged' }
      const isUnknown = size === 0 || size >= UNKNOWN_BYTES
      // A truncated file is rejected, since its sender meant to send more.
      if (!isUnknown && from + size > bytes.length) return { fault: 'damaged' }
      return wavOf(layout, bytes.subarray(from, isUnknown ? bytes.length : from + size))
    }
    // Chunks begin at even offsets.
    at = from + size + (size % 2)
  }
  return { fault: 'damaged' }
}

function wavOf(layout: Layout, data: Buffer): Wav {
  const sampleBytes = (layout.bits / 8) * layout.channels
  const samples = Math.floor(data.length / sampleBytes)
  return { ...layout, samples, data: data.subarray(0, samples * sampleBytes) }
}

function readLayout(chunk: Buffer): Layout | SoundFault {
  if (chunk.length < 16) return { fault: 'damaged' }
  const tag = chunk.readUInt16LE(0)
  const codec = tag === EXTENSIBLE && chunk.length >= 26 ? chunk.readUInt16LE(24) : tag
  const channels = chunk.readUInt16LE(2)
  const bits = chunk.readUInt16LE(14)
  const isFloat = codec === FLOAT
  if (channels === 0 || channels > MAX_CHANNELS) return { fault: 'damaged' }
  const isKnown = isFloat ? bits === 32 || bits === 64 : codec === PCM && [8, 16, 24, 32].includes(bits)
  if (!isKnown) return { fault: 'format', name: `WAV with codec ${codec} and ${bits} bits` }
  return { channels, sampleRate: chunk.readUInt32LE(4), bits, isFloat }
}

const SILENT_RATE = 16_000

/** The smallest recording that every engine accepts. */
export function silentWav(seconds: number): Buffer {
  const data = Buffer.alloc(SILENT_RATE * seconds * 2)
  const head = Buffer.alloc(44)
  head.write('RIFF', 0)
  head.writeUInt32LE(36 + data.length, 4)
  head.write('WAVEfmt ', 8)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(PCM, 20)
  head.writeUInt16LE(1, 22)
  head.writeUInt32LE(SILENT_RATE, 24)
  head.writeUInt32LE(SILENT_RATE * 2, 28)
  head.writeUInt16LE(2, 32)
  head.writeUInt16LE(16, 34)
  head.write('data', 36)
  head.writeUInt32LE(data.length, 40)
  return Buffer.concat([head, data])
}

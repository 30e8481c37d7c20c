/**
 * Decodes a sound file piece by piece into one channel, so that an hour of it is never in memory at once. A file whose
 * frames do not decode to the length that its headers promised is damaged: nobody pays for sound that nobody heard.
 */
import { slicesOfFlac } from '../../base/sound/flac.ts'
import { hasDamagedPage, readOpus, type OpusSound } from '../../base/sound/ogg.ts'
import type { Sound } from '../../base/sound/sound.ts'
import { readWav, type Wav } from '../../base/sound/wav.ts'

const SLICE_SAMPLES = 65_536
const SLICE_BYTES = 65_536
const PACKETS_AT_ONCE = 50
/** A decoder may skip frames whose data began before the file. */
const MAX_MP3_GAP = 4 * 1_152

export class DamagedSound extends Error {}

interface Decoded {
  readonly channelData: readonly Float32Array[]
  readonly samplesDecoded: number
  readonly errors: readonly unknown[]
}

/** Yields samples from -1 to 1 at the rate of the sound. Throws `DamagedSound`, at the latest at the end. */
export async function* decodeSound(bytes: Buffer, sound: Sound): AsyncGenerator<Float32Array, void> {
  let samples = 0
  for await (const channels of channelsOf(bytes, sound)) {
    const mono = mix(channels).subarray(0, sound.samples - samples)
    samples += mono.length
    if (mono.length > 0) yield mono
  }
  const gap = sound.samples - samples
  if (gap > (sound.format === 'mp3' ? MAX_MP3_GAP : 0)) throw new DamagedSound('the file ends early')
}

function channelsOf(
  bytes: Buffer,
  { format }: Sound,
): AsyncIterable<readonly Float32Array[]> | Iterable<Float32Array[]> {
  switch (format) {
    case 'wav': {
      const wav = readWav(bytes)
      if ('fault' in wav) throw new DamagedSound('not a WAV file')
      return decodeWav(wav)
    }
    case 'mp3':
      return decodeMp3(bytes)
    case 'flac':
      return decodeFlac(bytes)
    case 'opus': {
      const opus = readOpus(bytes)
      if ('fault' in opus || hasDamagedPage(bytes)) throw new DamagedSound('a page of the file is damaged')
      return decodeOpus(opus)
    }
  }
}

function mix(channels: readonly Float32Array[]): Float32Array {
  const [first = new Float32Array(0), ...others] = channels
  if (others.length === 0) return first
  return first.map((value, at) => others.reduce((sum, one) => sum + (one[at] ?? 0), value) / channels.length)
}

function* decodeWav({ data, channels, bits, isFloat, samples }: Wav): Generator<Float32Array[]> {
  const bytes = bits / 8
  const read = readerOf(data, bits, isFloat)
  for (let from = 0; from < samples; from += SLICE_SAMPLES) {
    const count = Math.min(SLICE_SAMPLES, samples - from)
    yield Array.from({ length: channels }, (_, channel) =>
      Float32Array.from({ length: count }, (__, at) => read(((from + at) * channels + channel) * bytes)),
    )
  }
}

function readerOf(data: Buffer, bits: number, isFloat: boolean): (at: number) => number {
  if (isFloat) {
    const read = bits === 32 ? (at: number) => data.readFloatLE(at) : (at: number) => data.readDoubleLE(at)
    return (at) => clean(read(at))
  }
  // Eight bits have no sign.
  if (bits === 8) return (at) => (data.readUInt8(at) - 128) / 128
  const scale = 2 ** (bits - 1)
  return (at) => data.readIntLE(at, bits / 8) / scale
}

/** Floats can be anything; one that is not a number would spoil all that follows. */
function clean(value: number): number {
  return Number.isFinite(value) ? Math.min(Math.max(value, -1), 1) : 0
}

async function* decodeMp3(bytes: Buffer): AsyncGenerator<readonly Float32Array[]> {
  const { MPEGDecoder } = await import('mpg123-decoder')
  const decoder = new MPEGDecoder({ enableGapless: false })
  await decoder.ready
  try {
    for (const slice of slicesOf(bytes)) yield checked(decoder.decode(slice))
  } finally {
    decoder.free()
  }
}

async function* decodeFlac(bytes: Buffer): AsyncGenerator<readonly Float32Array[]> {
  const { FLACDecoder } = await import('@wasm-audio-decoders/flac')
  const decoder = new FLACDecoder()
  await decoder.ready
  for (const slice of slicesOfFlac(bytes, SLICE_SAMPLES)) yield checked(await decoder.decode(slice))
  // The flush also frees the decoder's memory.
  yield checked(await decoder.flush())
}

async function* decodeOpus(sound: OpusSound): AsyncGenerator<readonly Float32Array[]> {
  const { OpusDecoder } = await import('opus-decoder')
  const { channels, mapping, packets } = sound
  const decoder = new OpusDecoder({
    channels,
    ...(mapping === null
      ? {}
      : { streamCount: mapping.streams, coupledStreamCount: mapping.coupled, channelMappingTable: [...mapping.table] }),
  })
  await decoder.ready
  let skip = sound.skipped
  try {
    for (let at = 0; at < packets.length; at += PACKETS_AT_ONCE) {
      const decoded = checked(decoder.decodeFrames(packets.slice(at, at + PACKETS_AT_ONCE)))
      const skipped = Math.min(skip, decoded[0]?.length ?? 0)
      skip -= skipped
      yield decoded.map((channel) => channel.subarray(skipped))
    }
  } finally {
    decoder.free()
  }
}

function* slicesOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += SLICE_BYTES) yield bytes.subarray(at, at + SLICE_BYTES)
}

function checked({ channelData, samplesDecoded, errors }: Decoded): readonly Float32Array[] {
  if (errors.length > 0) throw new DamagedSound('a frame of the file is damaged')
  return channelData.map((channel) => channel.subarray(0, samplesDecoded))
}

/** Opus packets of 20 ms in the container that every player knows, Ogg (RFC 7845). */
import OpusScript from 'opusscript'
import type { AudioWriter } from './audio-writer.ts'
import { OggPages } from './ogg.ts'
import { Resampler } from './resampler.ts'
import { join, writePcm } from './samples.ts'
import { SAMPLE_RATE } from './voice.ts'

/** Opus has no 44.1 kHz. Speech has little above 12 kHz. */
const OPUS_RATE = 24_000
const FRAME_SAMPLES = 480
const BITS_PER_SECOND = 32_000
/** The encoder delays the sound by these. Players skip that much, counted at 48 kHz as all of Ogg's times are. */
const DELAY_SAMPLES = 156
const OGG_SAMPLES = 2
const CHANNELS = 1

export class OpusWriter implements AudioWriter {
  readonly #encoder = new OpusScript(OPUS_RATE, CHANNELS, OpusScript.Application.AUDIO)
  readonly #resampler = new Resampler(SAMPLE_RATE, OPUS_RATE)
  readonly #pages = new OggPages()
  /** Samples that do not fill a frame yet. */
  #waiting = new Float32Array(0)
  #samples = 0
  #frames = 0
  #isFirst = true

  constructor() {
    this.#encoder.setBitrate(BITS_PER_SECOND)
  }

  encode(samples: Float32Array): Uint8Array<ArrayBuffer> {
    return this.#write(this.#resampler.push(samples), false)
  }

  finish(): Uint8Array<ArrayBuffer> {
    const last = this.#resampler.finish()
    const all = this.#samples + last.length
    // Silence pushes the end of the sound through the encoder. The last page says how much of it is to be played.
    const frames = Math.ceil((all + DELAY_SAMPLES) / FRAME_SAMPLES)
    const padded = new Float32Array(frames * FRAME_SAMPLES - this.#samples)
    padded.set(last)
    const bytes = this.#write(padded, true, (all + DELAY_SAMPLES) * OGG_SAMPLES)
    this.drop()
    return bytes
  }

  drop(): void {
    this.#encoder.delete()
  }

  /** `end`: where the sound ends, if this is its last part. */
  #write(samples: Float32Array, isLast: boolean, end?: number): Uint8Array<ArrayBuffer> {
    this.#samples += samples.length
    const input = new Float32Array(this.#waiting.length + samples.length)
    input.set(this.#waiting)
    input.set(samples, this.#waiting.length)
    const whole = input.length - (input.length % FRAME_SAMPLES)
    this.#waiting = input.slice(whole)
    const packets: Uint8Array[] = []
    for (let at = 0; at < whole; at += FRAME_SAMPLES) {
      const pcm = Buffer.from(writePcm(input.subarray(at, at + FRAME_SAMPLES)).buffer)
      packets.push(this.#encoder.encode(pcm, FRAME_SAMPLES))
    }
    const parts = this.#isFirst ? [this.#pages.write([head()], 0), this.#pages.write([tags()], 0)] : []
    this.#isFirst = false
    const before = this.#frames * FRAME_SAMPLES * OGG_SAMPLES
    this.#frames += packets.length
    parts.push(this.#pages.writeAll(packets, { before, each: FRAME_SAMPLES * OGG_SAMPLES, isLast, end }))
    return join(parts)
  }
}

function head(): Buffer {
  const packet = Buffer.alloc(19)
  packet.write('OpusHead', 0, 'latin1')
  packet.writeUInt8(1, 8)
  packet.writeUInt8(CHANNELS, 9)
  packet.writeUInt16LE(DELAY_SAMPLES * OGG_SAMPLES, 10)
  packet.writeUInt32LE(SAMPLE_RATE, 12)
  return packet
}

function tags(): Buffer {
  const vendor = 'Berth'
  const packet = Buffer.alloc(16 + vendor.length)
  packet.write('OpusTags', 0, 'latin1')
  packet.writeUInt32LE(vendor.length, 8)
  packet.write(vendor, 12, 'latin1')
  return packet
}

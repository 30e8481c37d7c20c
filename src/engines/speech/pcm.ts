/** Sound without compression: WAV at the rate of the voice, and bare samples at the rate that clients of OpenAI expect. */
import type { AudioWriter } from './audio-writer.ts'
import { Resampler } from './resampler.ts'
import { join, writePcm } from './samples.ts'
import { SAMPLE_RATE } from './voice.ts'

/** The rate of OpenAI's `pcm`, which has no header that could say another. */
const PCM_RATE = 24_000
/** The length of a stream, which is unknown when its header is sent. */
const UNKNOWN_BYTES = 0xffff_ffff

export class PcmWriter implements AudioWriter {
  readonly #resampler = new Resampler(SAMPLE_RATE, PCM_RATE)

  encode(samples: Float32Array): Uint8Array<ArrayBuffer> {
    return writePcm(this.#resampler.push(samples))
  }

  finish(): Uint8Array<ArrayBuffer> {
    return writePcm(this.#resampler.finish())
  }

  drop(): void {}
}

export class WavWriter implements AudioWriter {
  #hasHeader = false

  encode(samples: Float32Array): Uint8Array<ArrayBuffer> {
    const header = this.#hasHeader ? [] : [wavHeader()]
    this.#hasHeader = true
    return join([...header, writePcm(samples)])
  }

  finish(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(0)
  }

  drop(): void {}
}

/** The header of a file with one channel of 16-bit samples. */
function wavHeader(): Buffer {
  const header = Buffer.alloc(44)
  header.write('RIFF', 0, 'latin1')
  header.writeUInt32LE(UNKNOWN_BYTES, 4)
  header.write('WAVEfmt ', 8, 'latin1')
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(SAMPLE_RATE, 24)
  header.writeUInt32LE(SAMPLE_RATE * 2, 28)
  header.writeUInt16LE(2, 32)
  header.writeUInt16LE(16, 34)
  header.write('data', 36, 'latin1')
  header.writeUInt32LE(UNKNOWN_BYTES, 40)
  return header
}

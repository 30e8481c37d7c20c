/** MP3 that is made piece by piece: what has been encoded is handed on, and only the last frames are kept. */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createEncoder } from 'wasm-media-encoders/esnext'
import type { Kbps, SampleRate } from './voice.ts'
import { wasm } from './web-assembly.ts'

type Encoder = Awaited<ReturnType<typeof createEncoder<'audio/mpeg'>>>

export interface Mp3Writer {
  /** Samples of one channel, from -1 to 1. What lies outside is cut off there. */
  encode(samples: Float32Array): Uint8Array<ArrayBuffer>
  /** The last frames. The writer may not be used after it. */
  finish(): Uint8Array<ArrayBuffer>
}

/** As much as is encoded at once: the encoder's memory grows to it and stays so. */
const SLICE_SAMPLES = 65_536

/** Encoders take some MB each, so finished ones are used again. One whose file was given up is left to the collector. */
export class Mp3Writers {
  readonly #module: WebAssembly.Module
  readonly #idle: Encoder[] = []

  static async load(): Promise<Mp3Writers> {
    const file = createRequire(import.meta.url).resolve('wasm-media-encoders/wasm/mp3')
    return new Mp3Writers(await wasm.compile(await readFile(file)))
  }

  private constructor(module: WebAssembly.Module) {
    this.#module = module
  }

  async open(sampleRate: SampleRate, kbps: Kbps): Promise<Mp3Writer> {
    const encoder = this.#idle.pop() ?? (await createEncoder('audio/mpeg', this.#module))
    encoder.configure({ channels: 1, sampleRate, outputSampleRate: sampleRate, bitrate: kbps })
    // The encoder's own memory is handed out, and overwritten by its next call.
    const encodeSlice = (samples: Float32Array): Buffer => Buffer.from(encoder.encode([samples.map(limit)]))
    return {
      encode: (samples) => {
        const parts: Buffer[] = []
        for (let at = 0; at < samples.length; at += SLICE_SAMPLES) {
          parts.push(encodeSlice(samples.subarray(at, at + SLICE_SAMPLES)))
        }
        return join(parts)
      },
      finish: () => {
        const last = join([Buffer.from(encoder.finalize())])
        this.#idle.push(encoder)
        return last
      },
    }
  }
}

/** In memory of its own, so that it can be handed to another thread. */
function join(parts: readonly Buffer[]): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(Buffer.concat(parts))
}

function limit(sample: number): number {
  return Math.min(Math.max(sample, -1), 1)
}

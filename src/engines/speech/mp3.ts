/** MP3: finished frames are returned at once, and only the last ones are buffered. */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createEncoder } from 'wasm-media-encoders/esnext'
import type { AudioWriter } from './audio-writer.ts'
import { join, limit } from './samples.ts'
import { SAMPLE_RATE, type Kbps } from './voice.ts'

/** Node's WebAssembly. Its types come with the DOM types, which the rest of the program must not see. */
const { compile } = (
  globalThis as unknown as {
    readonly WebAssembly: { readonly compile: (bytes: Uint8Array) => Promise<WebAssembly.Module> }
  }
).WebAssembly

type Encoder = Awaited<ReturnType<typeof createEncoder<'audio/mpeg'>>>

/** Samples encoded at once: the encoder's memory grows to this size and never shrinks. */
const SLICE_SAMPLES = 65_536

/** Encoders take some MB each, so they are reused. One whose file was abandoned is garbage collected. */
export class Mp3Writers {
  readonly #module: WebAssembly.Module
  readonly #idle: Encoder[] = []

  static async load(): Promise<Mp3Writers> {
    const file = createRequire(import.meta.url).resolve('wasm-media-encoders/wasm/mp3')
    return new Mp3Writers(await compile(await readFile(file)))
  }

  private constructor(module: WebAssembly.Module) {
    this.#module = module
  }

  async open(kbps: Kbps): Promise<AudioWriter> {
    const encoder = this.#idle.pop() ?? (await createEncoder('audio/mpeg', this.#module))
    encoder.configure({ channels: 1, sampleRate: SAMPLE_RATE, outputSampleRate: SAMPLE_RATE, bitrate: kbps })
    // The encoder returns its own memory and overwrites it in the next call, so copy.
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
      drop: () => {},
    }
  }
}

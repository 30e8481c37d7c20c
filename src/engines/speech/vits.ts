/**
 * The neural English voice. Its package is made for browsers; only its model and its conversion of words to phonemes are
 * used here. ONNX Runtime runs the model. Loading takes some seconds and blocks the thread, as does each run.
 */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { InferenceSession, Tensor, TensorConstructor } from 'onnxruntime-node'
import { z } from 'zod'
import { openOnnxModel } from '../onnx-model.ts'

/** The only speaker of the model. */
const MODEL_SPEAKER = 'MALE'
/** The model's published defaults: how much sound and rhythm vary between readings. */
const SOUND_NOISE = 0.667
const RHYTHM_NOISE = 0.8
/** The model also takes language model features, which English does not need. */
const BERT_FEATURES = 1_024
const SMALL_BERT_FEATURES = 768

const metadataForm = z.object({
  language_id: z.int(),
  tone_offset: z.int(),
  symbols: z.array(z.string()).min(1),
  spk2id: z.record(z.string(), z.int()),
})

export interface Synthesizer {
  /** Samples from -1 to 1, at the voice's rate. */
  speak(text: string, speed: number): Promise<Float32Array>
}

export async function loadVits(threads: number): Promise<Synthesizer> {
  const { resolve } = createRequire(import.meta.url)
  const assetOf = (name: string): string => resolve(`@dittli/tts-en/assets/en/${name}`)
  const { graphemeToPhonemeEN: toPhonemes } = await import('@dittli/tts-en')
  const { Tensor } = await import('onnxruntime-node')
  const metadata = metadataForm.parse(JSON.parse(await readFile(assetOf('metadata.json'), 'utf8')))
  await withFilesFetched(assetOf, () => toPhonemes.prepare?.({ assetBase: '/' }))
  const session = await openOnnxModel(assetOf('model.onnx'), {
    intraOpNumThreads: threads,
    // Otherwise the memory of the longest piece so far would be kept. Speed is the same.
    enableCpuMemArena: false,
  })
  const ids = new Map(metadata.symbols.map((symbol, i) => [symbol, i]))
  const symbols = new Set(metadata.symbols)
  const unknown = ids.get('UNK') ?? 0

  return {
    speak: async (text, speed) => {
      const { phones, tones } = toPhonemes(text, { symbolSet: symbols })
      const feeds = feedsOf(Tensor, {
        phones: phones.map((phone) => ids.get(phone) ?? unknown),
        tones: tones.map((tone) => tone + metadata.tone_offset),
        languages: phones.map(() => metadata.language_id),
        speaker: metadata.spk2id[MODEL_SPEAKER] ?? 0,
        lengthScale: 1 / speed,
      })
      const outcome = await session.run(feeds)
      const samples = outcome['audio']?.data
      if (!(samples instanceof Float32Array)) throw new Error('the model returned no audio')
      return samples
    },
  }
}

interface Phrase {
  readonly phones: readonly number[]
  readonly tones: readonly number[]
  readonly languages: readonly number[]
  readonly speaker: number
  readonly lengthScale: number
}

function feedsOf(Tensor: TensorConstructor, phrase: Phrase): InferenceSession.FeedsType {
  const length = 2 * phrase.phones.length + 1
  // The model expects a blank (0) around each symbol.
  const row = (values: readonly number[]): Tensor => {
    const spread = new BigInt64Array(length)
    values.forEach((value, i) => (spread[2 * i + 1] = BigInt(value)))
    return new Tensor('int64', spread, [1, length])
  }
  const integer = (value: number): Tensor => new Tensor('int64', BigInt64Array.of(BigInt(value)), [1])
  const float = (value: number): Tensor => new Tensor('float32', Float32Array.of(value), [1])
  const zeros = (rows: number): Tensor => new Tensor('float32', new Float32Array(rows * length), [1, rows, length])
  return {
    x: row(phrase.phones),
    x_lengths: integer(length),
    sid: integer(phrase.speaker),
    tone: row(phrase.tones),
    language: row(phrase.languages),
    bert: zeros(BERT_FEATURES),
    ja_bert: zeros(SMALL_BERT_FEATURES),
    noise_scale: float(SOUND_NOISE),
    noise_scale_w: float(RHYTHM_NOISE),
    length_scale: float(phrase.lengthScale),
  }
}

/** The package loads its dictionary with `fetch`, which is replaced by its local files while `work` runs. */
async function withFilesFetched(
  assetOf: (name: string) => string,
  work: () => Promise<void> | undefined,
): Promise<void> {
  const before = globalThis.fetch
  globalThis.fetch = async (url) => {
    const name = String(url instanceof Request ? url.url : url).replace(/^.*\//, '')
    return new Response(await readFile(assetOf(name)))
  }
  try {
    await work()
  } finally {
    globalThis.fetch = before
  }
}

/**
 * The cost of inference. All prices are per million units, so a request is priced by one sum and one division, which
 * rounds down in the customer's favor.
 */
import { nanoUsdOf, type NanoUsd } from '../base/money.ts'

export type ModelKind = 'chat' | 'embedding' | 'rerank' | 'image' | 'speech' | 'transcription'

/** nano-USD per million units. */
export interface ModelPrices {
  readonly input: NanoUsd
  readonly cached: NanoUsd
  readonly output: NanoUsd
  readonly pixelStep: NanoUsd
  readonly character: NanoUsd
  readonly soundMs: NanoUsd
}

/** Usage of a request. `inputTokens` counts all prompt tokens, including cached ones. */
export interface InferenceUnits {
  readonly inputTokens: number
  readonly cachedTokens: number
  readonly outputTokens: number
  /** Width × height × steps, summed over all images. */
  readonly pixelSteps: number
  readonly characters: number
  /** Milliseconds of transcribed sound. */
  readonly soundMs: number
}

export const noUnits: InferenceUnits = {
  inputTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  pixelSteps: 0,
  characters: 0,
  soundMs: 0,
}

const PER_MILLION = 1_000_000n

export function costOf(prices: ModelPrices, units: InferenceUnits): NanoUsd {
  const cached = Math.min(units.cachedTokens, units.inputTokens)
  const millionths =
    priceOf(prices.input, units.inputTokens - cached) +
    priceOf(prices.cached, cached) +
    priceOf(prices.output, units.outputTokens) +
    priceOf(prices.pixelStep, units.pixelSteps) +
    priceOf(prices.character, units.characters) +
    priceOf(prices.soundMs, units.soundMs)
  return nanoUsdOf(millionths / PER_MILLION)
}

/** Most requests have only one or two kinds of units, so zero counts are skipped. */
function priceOf(price: NanoUsd, count: number): bigint {
  return count === 0 ? 0n : price * BigInt(count)
}

/** Batches: their price, and the ids of their requests. */
import { sha256 } from '../base/id.ts'
import type { Instant } from '../base/instant.ts'
import { discounted, type NanoUsd } from '../base/money.ts'
import type { ModelPrices } from './inference.ts'

/** Characters of random digits in the id of a request. */
const DIGITS = 20

/** Lowers each unit price once, rounded down; costs are computed from the lowered prices as usual. */
export function batchPrices(prices: ModelPrices, discountPercent: number): ModelPrices {
  const lower = (price: NanoUsd): NanoUsd => discounted(price, discountPercent)
  return {
    input: lower(prices.input),
    cached: lower(prices.cached),
    output: lower(prices.output),
    pixelStep: lower(prices.pixelStep),
    character: lower(prices.character),
    soundMs: lower(prices.soundMs),
  }
}

/** The id stays the same however often the line is run. It begins with a time, as the ids of other requests do. */
export function lineRequestId({ id, createdAt }: { id: string; createdAt: Instant }, line: number): string {
  const digits = sha256(`${id} ${line}`).toString('hex').slice(0, DIGITS)
  return `req_${createdAt.toString(16).padStart(12, '0')}${digits}`
}

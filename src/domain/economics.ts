/**
 * Computes the income and cost of a model on rented GPUs, and the price that covers it. Money and units are whole
 * numbers; every division names its rounding, and a price is rounded up so that it never falls short of the cost.
 */
import { MINUTE_MS } from '../base/instant.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { ModelKind, ModelPrices } from './inference.ts'

/** The usage of the replicas of one model over a period. */
export interface ServingUsage {
  readonly requests: bigint
  /** Tokens for chats, characters for speech, milliseconds for transcription. Cached units are included. */
  readonly inputUnits: bigint
  readonly cachedUnits: bigint
  /** Tokens for chats, pixels × steps for images. */
  readonly outputUnits: bigint
  /** The sum of the durations of all requests. */
  readonly requestMs: bigint
  /** The time with at least one request, added up over replicas. */
  readonly busyMs: bigint
  /** Time that was charged. */
  readonly paidMs: bigint
  readonly gpuCost: NanoUsd
}

const PER_MILLION = 1_000_000n
const ALL_BP = 10_000n
/** With less busy time than this, the throughput is not representative. */
export const MIN_BUSY_MS = 10n * BigInt(MINUTE_MS)
export const MIN_REQUESTS = 100n

export function unitsOf({ inputUnits, outputUnits }: Pick<ServingUsage, 'inputUnits' | 'outputUnits'>): bigint {
  return inputUnits + outputUnits
}

/** Share of the paid time with at least one request, in basis points, rounded down. null: nothing was paid. */
export function utilizationBp({ busyMs, paidMs }: Pick<ServingUsage, 'busyMs' | 'paidMs'>): number | null {
  return paidMs === 0n ? null : Number(min((busyMs * ALL_BP) / paidMs, ALL_BP))
}

/** Nano-USD per million units. */
export interface UnitPrices {
  readonly input: NanoUsd
  readonly cached: NanoUsd
  readonly output: NanoUsd
}

/** The prices at which the columns of usage are sold. */
export function unitPricesOf(kind: ModelKind, prices: ModelPrices): UnitPrices {
  if (kind === 'image') return { input: zeroUsd, cached: zeroUsd, output: prices.pixelStep }
  if (kind === 'speech') return { input: prices.character, cached: prices.character, output: zeroUsd }
  if (kind === 'transcription') return { input: prices.soundMs, cached: prices.soundMs, output: zeroUsd }
  return { input: prices.input, cached: prices.cached, output: prices.output }
}

type Units = Pick<ServingUsage, 'inputUnits' | 'cachedUnits' | 'outputUnits'>

/** The income from these units, in millionths of a nano-dollar. */
function incomeMillionths(prices: UnitPrices, { inputUnits, cachedUnits, outputUnits }: Units): bigint {
  const cached = min(cachedUnits, inputUnits)
  return prices.input * (inputUnits - cached) + prices.cached * cached + prices.output * outputUnits
}

export type PriceAdvice =
  | {
      readonly kind: 'too_little_measured'
      readonly busyMs: bigint
      readonly requests: bigint
    }
  | {
      readonly kind: 'measured'
      /** The prices below are for this utilization. */
      readonly utilizationBp: number
      /** The price per million units of any kind at which income covers cost. */
      readonly blended: NanoUsd
      /** The current prices, raised or lowered by one factor until they cover cost. null: the model is free. */
      readonly prices: UnitPrices | null
      /** From this utilization on, current prices cover cost. Above 10,000: never. null: the model is free. */
      readonly breakEvenBp: number | null
    }

/**
 * Computes the price that covers the cost of GPUs if replicas are busy for `atBp` of the paid time, with the measured
 * mix of units and the measured throughput while busy. `atBp` undefined: the measured utilization.
 */
export function advisePrice(usage: ServingUsage, prices: UnitPrices, atBp?: number): PriceAdvice {
  const { busyMs, paidMs, requests, gpuCost } = usage
  const units = unitsOf(usage)
  const measuredBp = utilizationBp(usage)
  if (measuredBp === null || busyMs < MIN_BUSY_MS || requests < MIN_REQUESTS || units === 0n || measuredBp === 0) {
    return { kind: 'too_little_measured', busyMs, requests }
  }
  // At the measured utilization, income must equal cost to the nano-dollar, so no rounded throughput is used.
  const [scaledCost, scale] =
    atBp === undefined ? [gpuCost as bigint, 1n] : [gpuCost * busyMs * ALL_BP, paidMs * BigInt(atBp)]
  const income = incomeMillionths(prices, usage)
  const raise = (price: NanoUsd): NanoUsd =>
    nanoUsdOf(ceilDivide(price * scaledCost * PER_MILLION, max(income, 1n) * scale))
  return {
    kind: 'measured',
    utilizationBp: atBp ?? measuredBp,
    blended: nanoUsdOf(ceilDivide(scaledCost * PER_MILLION, units * scale)),
    prices:
      income === 0n ? null : { input: raise(prices.input), cached: raise(prices.cached), output: raise(prices.output) },
    breakEvenBp: income === 0n ? null : toCount(ceilDivide(gpuCost * busyMs * PER_MILLION * ALL_BP, paidMs * income)),
  }
}

/** A percentage of `whole`, to a tenth. null: `whole` is zero. */
export function percentageOf(part: bigint, whole: bigint): number | null {
  return whole === 0n ? null : Number((part * 1_000n) / whole) / 10
}

/** `count` divided by `per`, with two decimals. null: `per` is zero. */
export function rateOf(count: bigint, per: bigint, scale = 1n): number | null {
  return per === 0n ? null : Number((count * scale * 100n) / per) / 100
}

function toCount(value: bigint): number {
  return Number(min(value, BigInt(Number.MAX_SAFE_INTEGER)))
}

function ceilDivide(dividend: bigint, divisor: bigint): bigint {
  return dividend <= 0n ? 0n : (dividend + divisor - 1n) / divisor
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b
}

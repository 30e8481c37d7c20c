/**
 * Crusoe's API has no prices, so the operator enters those of the contract: `h100-80gb-sxm-ib=3.90,
 * h200-141gb-sxm-ib=4.29`.
 */
import { nanoUsdOf, type NanoUsd } from '../../../base/money.ts'
import { fromDecimal } from '../../../base/vendor-price.ts'

const MAX_ENTRIES = 200

/** Returns the price per GPU-hour by the name of the type without its size. */
export function parsePriceList(text: string): Map<string, NanoUsd> {
  const entries = text.split(/[,\n]/).filter((entry) => entry.trim() !== '')
  if (entries.length > MAX_ENTRIES) throw new Error(`The price list has more than ${MAX_ENTRIES} entries.`)
  return new Map(
    entries.map((entry, n) => {
      const match = /^\s*([a-z0-9][a-z0-9-]*)\s*=\s*\$?(\d+(?:\.\d+)?)\s*$/.exec(entry)
      if (match === null) throw new Error(`Entry ${n + 1} of the price list is not of the form type=price.`)
      return [match[1] ?? '', fromDecimal(match[2] ?? '')]
    }),
  )
}

/** Splits the name of a type: `h100-80gb-sxm-ib.8x` is eight GPUs of `h100-80gb-sxm-ib`. */
export function sizeOf(type: string): { readonly family: string; readonly gpus: number } {
  const match = /^(.+)\.(\d+)x$/.exec(type)
  return { family: match?.[1] ?? type, gpus: Number.parseInt(match?.[2] ?? '0', 10) }
}

/** undefined: the type is not in the list. */
export function costOf(prices: ReadonlyMap<string, NanoUsd>, type: string): NanoUsd | undefined {
  const { family, gpus } = sizeOf(type)
  const price = prices.get(family)
  return price === undefined ? undefined : nanoUsdOf(price * BigInt(gpus))
}

/**
 * The disk of an order: the typed size, that of the template, or the default; and its price while the rental is
 * stopped.
 */
import { parseUsd, type NanoUsd } from '../../../src/base/money.ts'
import { quoteDisk } from '../../../src/domain/term.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import type { Template } from './template.tsx'

/** Fields that offers of both kinds have. undefined: the server is older. */
interface Offered {
  readonly stoppedDiskUsdPerGbMonth?: string | null | undefined
}

export interface DiskChoice {
  /** The disk that comes with the GPUs, which is also the maximum. */
  readonly shareGb: number
  /** The size if none is typed. */
  readonly defaultGb: number
  readonly gb: number
  /** null: the rental cannot be stopped. */
  readonly stoppedPrice: NanoUsd | null
}

export function diskChoice(
  { stoppedDiskUsdPerGbMonth: price }: Offered,
  shareGb: number,
  { typed, template, perHour }: { typed: string; template: Template | undefined; perHour: NanoUsd },
): DiskChoice {
  const offer = {
    shareGb,
    stoppedDiskPerGbMonth: price === null || price === undefined ? null : (parseUsd(price) ?? null),
  }
  const ofTemplate = template?.diskGb ?? null
  const size = Number(typed)
  const ordered = Number.isFinite(size) && size > 0 ? size : ofTemplate
  const { gb, stoppedPrice } = quoteDisk(offer, ordered, perHour)
  return { shareGb, defaultGb: quoteDisk(offer, ofTemplate, perHour).gb, gb, stoppedPrice }
}

/** A row for the list of prices. */
export function stoppedFact({ gb, stoppedPrice }: DiskChoice): ReadonlyArray<readonly [string, string]> {
  if (stoppedPrice === null) return []
  return [['While stopped', `${hourlyPrice(stoppedPrice)} for ${number(gb)} GB of disk`]]
}

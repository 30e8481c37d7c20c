/** Counts how recent orders at an offer of another cloud ended. */
import { HOUR_MS } from '../base/instant.ts'

export interface OfferHistory {
  readonly made: number
  readonly noCapacity: number
  /** Orders that were refused for another reason, or whose machine never ran. */
  readonly failed: number
  readonly started: number
  /** The average time from the order until the machine ran. null: none ran. */
  readonly startMs: number | null
  /** The lowest free count that the cloud reported. null: it reports none. */
  readonly lowest: number | null
  readonly highest: number | null
}

/** Placement looks this far back. */
export const HISTORY_MS = HOUR_MS
/** After this many refusals in that time, equal offers are tried first. */
const MAX_NO_CAPACITY = 3

export function isScarce(history: Pick<OfferHistory, 'noCapacity'> | null): boolean {
  return history !== null && history.noCapacity >= MAX_NO_CAPACITY
}

/** Costs of requests by id: all that are not settled yet, and the latest of the others. */
import type { NanoUsd } from '../base/money.ts'

/**
 * Settled costs are cached for a while, to save database queries. They are kept in two generations, and a full one is
 * dropped as a whole: a map that keeps deleting its oldest entry must skip a growing number of holes to find the next.
 */
const REMEMBERED_COSTS = 5_000

export interface KnownCost {
  readonly accountId: string
  readonly cost: NanoUsd
}

export class CostIndex {
  readonly #unsettled = new Map<string, KnownCost>()
  #young = new Map<string, KnownCost>()
  #old = new Map<string, KnownCost>()

  add(requestId: string, cost: KnownCost): void {
    this.#unsettled.set(requestId, cost)
  }

  get(requestId: string): KnownCost | undefined {
    return this.#unsettled.get(requestId) ?? this.#young.get(requestId) ?? this.#old.get(requestId)
  }

  settle(requestId: string): void {
    const cost = this.#unsettled.get(requestId)
    if (cost === undefined) return
    this.#unsettled.delete(requestId)
    this.#young.set(requestId, cost)
    if (this.#young.size < REMEMBERED_COSTS) return
    this.#old = this.#young
    this.#young = new Map()
  }
}

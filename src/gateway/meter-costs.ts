/** What requests cost, by their id: of those that the books do not have yet all, of the others the latest. */
import type { NanoUsd } from '../base/money.ts'

/**
 * Costs that are settled are remembered for a while: whoever asks here need not ask the database. They are kept in two
 * generations, and a full one is let go as a whole: a map that loses its oldest entry again and again must look for the
 * next oldest behind a growing heap of holes.
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

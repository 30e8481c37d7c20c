/** Costs of requests by id: all that are not settled yet, and the latest of the others. */
import type { NanoUsd } from '../base/money.ts'

/**
 * Settled costs are cached for a while, to save database queries. Costs are kept in generations of this many, and dropped
 * by the generation: nothing is moved or deleted for a single request.
 */
const GENERATION_COSTS = 5_000
/** Generations without an unsettled cost that stay. */
const SETTLED_GENERATIONS = 2

export interface KnownCost {
  readonly accountId: string
  readonly cost: NanoUsd
}

interface Generation {
  readonly costs: Map<string, KnownCost>
  unsettled: number
}

export class CostIndex {
  /** Oldest first. */
  readonly #generations: Generation[] = []

  add(requestId: string, cost: KnownCost): void {
    let newest = this.#generations.at(-1)
    if (newest === undefined || newest.costs.size >= GENERATION_COSTS) {
      newest = { costs: new Map(), unsettled: 0 }
      this.#generations.push(newest)
    }
    newest.costs.set(requestId, cost)
    newest.unsettled += 1
  }

  get(requestId: string): KnownCost | undefined {
    for (let at = this.#generations.length - 1; at >= 0; at -= 1) {
      const known = this.#generations[at]?.costs.get(requestId)
      if (known !== undefined) return known
    }
    return undefined
  }

  /** The oldest `count` that were not: requests are settled in the order in which they ended. */
  settle(count: number): void {
    let left = count
    for (const generation of this.#generations) {
      const settled = Math.min(left, generation.unsettled)
      generation.unsettled -= settled
      left -= settled
    }
    const oldest = this.#generations.findIndex(({ unsettled }) => unsettled > 0)
    const unneeded = (oldest === -1 ? this.#generations.length - 1 : oldest) - SETTLED_GENERATIONS
    if (unneeded > 0) this.#generations.splice(0, unneeded)
  }
}

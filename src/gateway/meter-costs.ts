/** What requests cost, by their id: of those that the books do not have yet all, of the others the latest. */
import type { NanoUsd } from '../base/money.ts'

/** Costs that are settled are remembered for a while: whoever asks here need not ask the database. */
const REMEMBERED_COSTS = 10_000

export interface KnownCost {
  readonly accountId: string
  readonly cost: NanoUsd
}

export class CostIndex {
  readonly #unsettled = new Map<string, KnownCost>()
  readonly #settled = new Map<string, KnownCost>()

  add(requestId: string, cost: KnownCost): void {
    this.#unsettled.set(requestId, cost)
  }

  get(requestId: string): KnownCost | undefined {
    return this.#unsettled.get(requestId) ?? this.#settled.get(requestId)
  }

  settle(requestId: string): void {
    const cost = this.#unsettled.get(requestId)
    if (cost === undefined) return
    this.#unsettled.delete(requestId)
    this.#settled.set(requestId, cost)
    if (this.#settled.size <= REMEMBERED_COSTS) return
    for (const oldest of this.#settled.keys()) {
      this.#settled.delete(oldest)
      return
    }
  }
}

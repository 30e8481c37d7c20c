/**
 * Concurrent requests per account. A gateway counts for itself and lends places to its workers, several at a time, so
 * that a request usually needs no message. Before a request is refused, all others return the places they do not use:
 * the limit is reached exactly, whichever worker the connections of an account are at.
 */

export interface Places {
  /** false: no place is free in this process; `enter` may still get one from another. */
  tryEnter(accountId: string, streams: number): boolean
  enter(accountId: string, streams: number): Promise<boolean>
  leave(accountId: string): void
}

export interface PlaceBorrower {
  /** Lends one or several places. 0: none is free anywhere. */
  readonly lend: (accountId: string, streams: number) => Promise<number>
  readonly takeBack: (accountId: string, places: number) => void
  /** Called when the worker has exited. */
  readonly close: () => void
}

interface Borrower {
  readonly lent: Map<string, number>
  /** Asks the worker for its unused places. */
  readonly recall: (accountId: string) => Promise<number>
}

/** A worker gets this fraction of the free places at once. */
const PARTS = 8

/** The places of a gateway. */
export class GatewayPlaces implements Places {
  /** The places in use by each account: its requests here, and the places lent to borrowers. */
  readonly #placesInUse = new Map<string, number>()
  readonly #borrowers = new Set<Borrower>()
  readonly #liveGateways: () => number

  /** Live servers share the places of an account. */
  constructor(liveGateways: () => number) {
    this.#liveGateways = liveGateways
  }

  tryEnter(accountId: string, streams: number): boolean {
    if (this.#free(accountId, streams) < 1) return false
    this.#add(accountId, 1)
    return true
  }

  async enter(accountId: string, streams: number): Promise<boolean> {
    return this.tryEnter(accountId, streams) || ((await this.#recall(accountId)) && this.tryEnter(accountId, streams))
  }

  leave(accountId: string): void {
    this.#add(accountId, -1)
  }

  borrower(recall: Borrower['recall']): PlaceBorrower {
    const one: Borrower = { lent: new Map(), recall }
    this.#borrowers.add(one)
    const change = (accountId: string, places: number): void => {
      this.#add(accountId, places)
      addTo(one.lent, accountId, places)
    }
    return {
      lend: async (accountId, streams) => {
        if (this.#free(accountId, streams) < 1) await this.#recall(accountId, one)
        const free = this.#free(accountId, streams)
        const places = free < 1 ? 0 : Math.ceil(free / PARTS)
        // It may have exited meanwhile.
        if (places === 0 || !this.#borrowers.has(one)) return 0
        change(accountId, places)
        return places
      },
      takeBack: (accountId, places) => change(accountId, -Math.min(places, one.lent.get(accountId) ?? 0)),
      close: () => {
        for (const [accountId, places] of one.lent) this.#add(accountId, -places)
        one.lent.clear()
        this.#borrowers.delete(one)
      },
    }
  }

  #free(accountId: string, streams: number): number {
    const share = Math.ceil(streams / Math.max(1, this.#liveGateways()))
    return share - (this.#placesInUse.get(accountId) ?? 0)
  }

  /** Whether any place came back. */
  async #recall(accountId: string, except?: Borrower): Promise<boolean> {
    const borrowers = [...this.#borrowers].filter((one) => one !== except && one.lent.has(accountId))
    const returned = await Promise.all(
      borrowers.map(async (one) => {
        const places = Math.min(await one.recall(accountId), one.lent.get(accountId) ?? 0)
        this.#add(accountId, -places)
        addTo(one.lent, accountId, -places)
        return places > 0
      }),
    )
    return returned.includes(true)
  }

  #add(accountId: string, places: number): void {
    addTo(this.#placesInUse, accountId, places)
  }
}

export interface PlaceLender {
  lend(accountId: string, streams: number): Promise<number>
  takeBack(accountId: string, places: number): void
}

interface Borrowed {
  allowed: number
  used: number
  usedAt: number
}

/** Places go back when no request has used them for this long. */
const IDLE_MS = 5_000

/** The places of a worker. */
export class BorrowedPlaces implements Places {
  readonly #accounts = new Map<string, Borrowed>()
  readonly #lender: PlaceLender

  constructor(lender: PlaceLender) {
    this.#lender = lender
  }

  tryEnter(accountId: string, streams: number): boolean {
    const one = this.#accounts.get(accountId)
    if (one === undefined || one.used >= Math.min(one.allowed, streams)) return false
    one.used += 1
    return true
  }

  async enter(accountId: string, streams: number): Promise<boolean> {
    if (this.tryEnter(accountId, streams)) return true
    const places = await this.#lender.lend(accountId, streams)
    if (places > 0) {
      const one = this.#accounts.get(accountId) ?? { allowed: 0, used: 0, usedAt: performance.now() }
      this.#accounts.set(accountId, one)
      one.allowed += places
    }
    return this.tryEnter(accountId, streams)
  }

  leave(accountId: string): void {
    const one = this.#accounts.get(accountId)
    if (one === undefined) return
    one.used -= 1
    one.usedAt = performance.now()
  }

  /** Gives up the unused places of an account. */
  giveUp(accountId: string): number {
    const one = this.#accounts.get(accountId)
    if (one === undefined) return 0
    const places = one.allowed - one.used
    one.allowed = one.used
    if (one.used === 0) this.#accounts.delete(accountId)
    return places
  }

  /** Returns places that have been idle for a while. */
  sweep(now: number): void {
    for (const [accountId, one] of this.#accounts) {
      if (one.used > 0 || now - one.usedAt < IDLE_MS) continue
      this.#accounts.delete(accountId)
      this.#lender.takeBack(accountId, one.allowed)
    }
  }
}

function addTo(counts: Map<string, number>, accountId: string, places: number): void {
  const total = (counts.get(accountId) ?? 0) + places
  if (total === 0) counts.delete(accountId)
  else counts.set(accountId, total)
}

/**
 * Calls waiting for a slot. The next slot goes to the account with the fewest, so that accounts that hold slots for long
 * get no more while others wait. Accounts with equally many take turns, one call each, in order of arrival; within an
 * account, first come, first served. So one account's flood delays another's call by one turn at most. Calls can leave
 * from the middle at no cost, since clients do go away while they wait.
 */

/** The fields below `queuedAt` belong to the queue. */
export interface Waiter {
  readonly accountId: string
  queuedAt: number
  line: Line | undefined
  before: Waiter | undefined
  after: Waiter | undefined
}

export interface Line {
  readonly accountId: string
  first: Waiter | undefined
  last: Waiter | undefined
  size: number
}

export interface QueueLimits {
  readonly calls: number
  readonly callsPerAccount: number
  readonly waitMs: number
  /** How long a client may leave its answer unread while other accounts wait. */
  readonly unreadMs: number
}

export class FairQueue<W extends Waiter> {
  limits: QueueLimits
  readonly #lines = new Map<string, Line>()
  /** The next in turn is first. */
  readonly #turns: Line[] = []
  #size = 0

  constructor(limits: QueueLimits) {
    this.limits = limits
  }

  get size(): number {
    return this.#size
  }

  /** false: full. `isRetried`: it had its turn already, and goes before the others of its account. */
  add(waiter: W, isRetried: boolean): boolean {
    const line = this.#lineOf(waiter.accountId)
    if (!isRetried && (this.#size >= this.limits.calls || line.size >= this.limits.callsPerAccount)) {
      this.#dropEmpty(line)
      return false
    }
    waiter.line = line
    if (isRetried) {
      waiter.after = line.first
      if (line.first === undefined) line.last = waiter
      else line.first.before = waiter
      line.first = waiter
    } else {
      waiter.before = line.last
      if (line.last === undefined) line.first = waiter
      else line.last.after = waiter
      line.last = waiter
    }
    line.size += 1
    this.#size += 1
    return true
  }

  remove(waiter: W): void {
    const { line, before, after } = waiter
    if (line === undefined) return
    if (before === undefined) line.first = after
    else before.after = after
    if (after === undefined) line.last = before
    else after.before = before
    waiter.line = undefined
    waiter.before = undefined
    waiter.after = undefined
    line.size -= 1
    this.#size -= 1
    this.#dropEmpty(line)
  }

  /** Removes the first that fits, of the account with the fewest slots, which then goes last among its equals. */
  take(fits: (waiter: W) => boolean, placesOf: (accountId: string) => number): W | undefined {
    const lines = this.#turns.toSorted((a, b) => placesOf(a.accountId) - placesOf(b.accountId))
    for (const line of lines) {
      for (let waiter = line.first; waiter !== undefined; waiter = waiter.after) {
        if (!fits(waiter as W)) continue
        this.#turns.splice(this.#turns.indexOf(line), 1)
        this.#turns.push(line)
        this.remove(waiter as W)
        return waiter as W
      }
    }
    return undefined
  }

  /** Whether another account waits. */
  hasOther(accountId: string): boolean {
    return this.#lines.size > (this.#lines.has(accountId) ? 1 : 0)
  }

  /** How many calls come before it, if accounts only took turns. */
  ahead(waiter: W): number {
    let own = 0
    for (let other = waiter.before; other !== undefined; other = other.before) own += 1
    let before = own
    let hasPassed = false
    for (const line of this.#turns) {
      if (line === waiter.line) hasPassed = true
      // Accounts whose turn comes sooner have one more turn until then.
      else before += Math.min(line.size, hasPassed ? own : own + 1)
    }
    return before
  }

  /** Removes calls that have waited too long. */
  expire(now: number): W[] {
    const late: W[] = []
    const since = now - this.limits.waitMs
    for (const line of this.#turns) {
      for (let waiter = line.first; waiter !== undefined; waiter = waiter.after) {
        if (waiter.queuedAt <= since) late.push(waiter as W)
      }
    }
    for (const waiter of late) this.remove(waiter)
    return late
  }

  #lineOf(accountId: string): Line {
    const known = this.#lines.get(accountId)
    if (known !== undefined) return known
    const line: Line = { accountId, first: undefined, last: undefined, size: 0 }
    this.#lines.set(accountId, line)
    this.#turns.push(line)
    return line
  }

  #dropEmpty(line: Line): void {
    if (line.size > 0) return
    this.#lines.delete(line.accountId)
    const place = this.#turns.indexOf(line)
    if (place !== -1) this.#turns.splice(place, 1)
  }
}

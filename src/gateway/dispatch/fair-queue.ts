/**
 * Calls that wait for a slot, and a counter of tokens for each account. The next slot goes to the account with the
 * smallest counter. A call adds its prompt when it is sent, and its output twice while it streams, since an engine
 * reads prompts faster than it writes. So accounts get equal work of an engine, however long their requests are. A
 * returning account starts at the smallest counter of the active accounts: time without requests is no credit. Accounts
 * with equal counters take turns, those with fewer calls at the engines first; within an account, the first call comes
 * first. Calls of class batch take slots that nobody else waits for, and at least one slot in sixteen. A call can leave
 * from the middle at no cost, since clients disconnect while they wait.
 */

/** A waiting call. The fields below `queuedAt` belong to the queue. */
export interface Waiter {
  readonly accountId: string
  readonly isBatch: boolean
  /** The estimated tokens that the call will add to the counter of its account. */
  readonly cost: number
  queuedAt: number
  line: Line | undefined
  before: Waiter | undefined
  after: Waiter | undefined
}

/** An account that uses the model, or has used it while others did. */
export interface Account {
  readonly id: string
  /** The counter of weighted tokens. */
  served: number
  /** The number of calls at engines. */
  running: number
  waiting: number
}

export interface Line {
  readonly account: Account
  readonly isBatch: boolean
  first: Waiter | undefined
  last: Waiter | undefined
  size: number
  cost: number
  /** Grows with each call that the account sends: of accounts with equal counters, the smaller one is next. */
  turn: number
}

export interface QueueLimits {
  readonly calls: number
  readonly callsPerAccount: number
  readonly waitMs: number
  /** How long a client may leave its answer unread while other accounts wait. */
  readonly unreadMs: number
}

/** One slot in this many goes to calls of class batch while others wait. */
const BATCH_EVERY = 16
/** With more accounts than this, counters of inactive ones are forgotten. */
const MAX_ACCOUNTS = 10_000

export class FairQueue<W extends Waiter> {
  limits: QueueLimits
  readonly #accounts = new Map<string, Account>()
  readonly #active = new Set<Account>()
  readonly #interactive = new Map<string, Line>()
  readonly #batch = new Map<string, Line>()
  #size = 0
  #turns = 0
  #sinceBatch = 0

  constructor(limits: QueueLimits) {
    this.limits = limits
  }

  get size(): number {
    return this.#size
  }

  /** A call of the account goes to an engine. The caller adds its tokens to the counter of the returned account. */
  begin(accountId: string): Account {
    const account = this.#activate(accountId)
    account.running += 1
    return account
  }

  end(account: Account): void {
    account.running -= 1
    this.#rest(account)
  }

  /**
   * Adds a call. false: the queue is full. `isRetried`: the call has had its turn and goes before the others of its
   * account.
   */
  add(waiter: W, isRetried: boolean): boolean {
    const { isBatch, accountId } = waiter
    const waiting = this.#accounts.get(accountId)?.waiting ?? 0
    if (!isRetried && (this.#size >= this.limits.calls || waiting >= this.limits.callsPerAccount)) return false
    const account = this.#activate(accountId)
    const line = this.#lineOf(account, isBatch)
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
    line.cost += waiter.cost
    account.waiting += 1
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
    line.cost -= waiter.cost
    line.account.waiting -= 1
    this.#size -= 1
    if (line.size === 0) this.#linesOf(line.isBatch).delete(line.account.id)
    this.#rest(line.account)
  }

  /** Removes and returns the first suitable call of the account that is next. */
  take(fits: (waiter: W) => boolean): W | undefined {
    const isBatchDue = this.#sinceBatch >= BATCH_EVERY - 1
    const waiter = this.#takeFrom(isBatchDue, fits) ?? this.#takeFrom(!isBatchDue, fits)
    if (waiter === undefined) return undefined
    if (waiter.isBatch || this.#batch.size === 0) this.#sinceBatch = 0
    else this.#sinceBatch += 1
    return waiter
  }

  #takeFrom(isBatch: boolean, fits: (waiter: W) => boolean): W | undefined {
    const unfit = new Set<Line>()
    for (;;) {
      let next: Line | undefined
      for (const line of this.#linesOf(isBatch).values()) {
        if (!unfit.has(line) && (next === undefined || isBefore(line, next))) next = line
      }
      if (next === undefined) return undefined
      for (let waiter = next.first; waiter !== undefined; waiter = waiter.after) {
        if (!fits(waiter as W)) continue
        this.#turns += 1
        next.turn = this.#turns
        this.remove(waiter as W)
        return waiter as W
      }
      unfit.add(next)
    }
  }

  /** Whether another account waits. */
  hasOther(accountId: string): boolean {
    const ownLines = (this.#interactive.has(accountId) ? 1 : 0) + (this.#batch.has(accountId) ? 1 : 0)
    return this.#interactive.size + this.#batch.size > ownLines
  }

  /** The number of calls that come before this one, if accounts only took turns. */
  ahead(waiter: W): number {
    const { line } = waiter
    if (line === undefined) return 0
    let callsBefore = 0
    for (let other = waiter.before; other !== undefined; other = other.before) callsBefore += 1
    let before = callsBefore
    for (const other of this.#linesOf(line.isBatch).values()) {
      // Accounts whose turn comes sooner have one more turn in that time.
      if (other !== line) before += Math.min(other.size, isBefore(other, line) ? callsBefore + 1 : callsBefore)
    }
    if (line.isBatch) for (const other of this.#interactive.values()) before += other.size
    return before
  }

  /** The weighted tokens that would be sent before a new call. */
  costAhead({ accountId, isBatch, cost }: Pick<Waiter, 'accountId' | 'isBatch' | 'cost'>): number {
    const account = this.#accounts.get(accountId)
    const ownCost = this.#linesOf(isBatch).get(accountId)?.cost ?? 0
    const isActive = account !== undefined && this.#active.has(account)
    const served = isActive ? account.served : Math.max(account?.served ?? 0, this.#leastServed())
    // Another account goes first until its counter has reached the level at which this call is sent.
    const level = served + ownCost
    let ahead = ownCost
    for (const line of this.#linesOf(isBatch).values()) {
      if (line.account !== account) ahead += Math.min(Math.max(0, level - line.account.served), line.cost)
    }
    if (!isBatch) return ahead
    let others = 0
    for (const line of this.#interactive.values()) others += line.cost
    return ahead + Math.min(others, (BATCH_EVERY - 1) * (ahead + cost))
  }

  /** Removes calls that have waited too long. */
  expire(now: number): W[] {
    const expired: W[] = []
    const since = now - this.limits.waitMs
    for (const line of [...this.#interactive.values(), ...this.#batch.values()]) {
      for (let waiter = line.first; waiter !== undefined; waiter = waiter.after) {
        if (waiter.queuedAt <= since) expired.push(waiter as W)
      }
    }
    for (const waiter of expired) this.remove(waiter)
    return expired
  }

  #linesOf(isBatch: boolean): Map<string, Line> {
    return isBatch ? this.#batch : this.#interactive
  }

  #lineOf(account: Account, isBatch: boolean): Line {
    const lines = this.#linesOf(isBatch)
    const existingLine = lines.get(account.id)
    if (existingLine !== undefined) return existingLine
    this.#turns += 1
    const line: Line = { account, isBatch, first: undefined, last: undefined, size: 0, cost: 0, turn: this.#turns }
    lines.set(account.id, line)
    return line
  }

  #activate(accountId: string): Account {
    const existingAccount = this.#accounts.get(accountId)
    if (existingAccount !== undefined && this.#active.has(existingAccount)) return existingAccount
    const account = existingAccount ?? { id: accountId, served: 0, running: 0, waiting: 0 }
    account.served = Math.max(account.served, this.#leastServed())
    this.#accounts.set(accountId, account)
    this.#active.add(account)
    return account
  }

  #leastServed(): number {
    let least = Infinity
    for (const { served } of this.#active) if (served < least) least = served
    return least === Infinity ? 0 : least
  }

  /** The account may have no calls here any more. Without any active account, all counters are reset. */
  #rest(account: Account): void {
    if (account.running > 0 || account.waiting > 0) return
    this.#active.delete(account)
    if (this.#active.size === 0) this.#accounts.clear()
    else if (this.#accounts.size > MAX_ACCOUNTS) this.#accounts.delete(account.id)
  }
}

function isBefore(a: Line, b: Line): boolean {
  if (a.account.served !== b.account.served) return a.account.served < b.account.served
  if (a.account.running !== b.account.running) return a.account.running < b.account.running
  return a.turn < b.turn
}

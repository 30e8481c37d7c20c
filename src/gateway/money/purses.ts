/**
 * The purses of a gateway. Money is taken from the account some cents at a time and spent in memory, so that a request
 * usually needs no database query. Nothing is spent that was not granted: a request starts only if its highest cost is
 * free in its purse. An uncovered request is refused at once, even while other requests of the same purse run and may
 * leave some of their money unused: they may take minutes.
 */
import { MINUTE_MS, SECOND_MS, type Clock, type Instant } from '../../base/instant.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import type { PurseOwner, Treasury } from '../../domain/purse.ts'
import { OpenReservation, Purse, type Waiter } from './purse.ts'

/** An unused purse is given back after this time. */
const IDLE_MS = 30 * SECOND_MS
const RENEW_BEFORE_MS = 5 * MINUTE_MS
const RENEW_BATCH = 500
/** The longest that a request waits for a top-up. */
const TOP_UP_WAIT_MS = 5 * SECOND_MS
const MAX_WAITERS = 1_000
const MAX_PURSES = 100_000
const MAX_GIVE_BACKS_PER_PASS = 200
const MAX_CONCURRENT_GIVE_BACKS = 4
const RETRY_AFTER_MS = 2 * SECOND_MS
/** More than any purse holds: uncertain money goes back with the rest of its purse. */
const EVERYTHING = nanoUsdOf(2n ** 63n - 1n)

export interface PurseTreasury extends Pick<Treasury, 'topUp' | 'giveBack' | 'renew'> {
  readPurses(holdKeys: readonly string[]): Promise<ReadonlyMap<string, NanoUsd>>
}

/** The part of a purse that goes back. */
interface Return {
  readonly purse: Purse
  readonly part: 'everything' | 'free' | 'surplus'
}

interface AccountPurses {
  shared: Purse | undefined
  readonly ofKeys: Map<string, Purse>
}

export interface PursesOptions {
  readonly treasury: PurseTreasury
  readonly clock: Clock
  readonly onError: (error: unknown, message: string) => void
  /** Called when a limit of the account was set: workers return what they have borrowed. */
  readonly recallLoans?: ((accountId: string) => Promise<void>) | undefined
  /** Called before a request is refused: takes back what other borrowers do not use. false: nothing came back. */
  readonly recall?: ((owner: PurseOwner, except: object | undefined) => Promise<boolean>) | undefined
}

export class Purses {
  readonly #treasury: PurseTreasury
  readonly #clock: Clock
  readonly #onError: (error: unknown, message: string) => void
  readonly #recall: PursesOptions['recall']
  readonly #recallLoans: PursesOptions['recallLoans']
  readonly #accounts = new Map<string, AccountPurses>()
  readonly #all = new Set<Purse>()
  /** Owners of a dropped purse whose first top-up was never answered. */
  readonly #unanswered = new Set<string>()

  /** Settlements of loans in progress, and the number of finished ones. */
  #loanSettlements = 0
  #settledLoans = 0

  constructor(options: PursesOptions) {
    this.#treasury = options.treasury
    this.#recall = options.recall
    this.#recallLoans = options.recallLoans
    this.#clock = options.clock
    this.#onError = options.onError
  }

  get size(): number {
    return this.#all.size
  }

  /** undefined: the purse needs a top-up. */
  tryReserve(owner: PurseOwner, worst: NanoUsd): OpenReservation | undefined {
    return this.#find(owner)?.reserve(worst, this.#clock.now())
  }

  async reserve(owner: PurseOwner, worst: NanoUsd, from?: object): Promise<Result<OpenReservation>> {
    if (worst < 0n) throw new RangeError('a cost cannot be negative')
    const purse = this.#find(owner) ?? this.#make(owner)
    if (purse === undefined) return tooBusy()
    const reservation = purse.reserve(worst, this.#clock.now())
    if (reservation !== undefined) return ok(reservation)
    if (purse.waiters.length >= MAX_WAITERS) return tooBusy()
    return new Promise((resolve) => {
      const timeout = setTimeout(() => {
        purse.waiters.splice(purse.waiters.indexOf(waiter), 1)
        resolve(unreachable())
      }, TOP_UP_WAIT_MS)
      const waiter: Waiter = {
        worst,
        from,
        answer: (result) => {
          clearTimeout(timeout)
          resolve(result)
        },
      }
      purse.waiters.push(waiter)
      if (!purse.isFilling) void this.#fill(purse)
    })
  }

  /** Ends a reservation and frees its unused part. Returns its purse. */
  end(reservation: { readonly amount: NanoUsd }, cost: NanoUsd): Purse {
    if (!(reservation instanceof OpenReservation)) throw new TypeError('not a reservation of these purses')
    const { purse } = reservation
    if (purse === undefined) throw new Error('the reservation has already ended')
    void this.#handBack(purse, purse.end(reservation, cost, this.#clock.now()))
    this.#serve(purse)
    return purse
  }

  /**
   * Renews purses in use, recounts those that need it, and gives unused money back. Must not run while requests are being
   * settled, or a recount would see half of them.
   */
  async maintain(): Promise<void> {
    const now = this.#clock.now()
    await this.#renew(now)
    await this.#recount(now)
    const due: Return[] = []
    for (const purse of this.#all) {
      const isIdle = now - purse.usedAt >= IDLE_MS && !purse.isUsed()
      if (isIdle) due.push({ purse, part: 'everything' })
      else if (purse.isAlive(now) && purse.surplus(now) > 0n) due.push({ purse, part: 'surplus' })
      if (due.length === MAX_GIVE_BACKS_PER_PASS) break
    }
    await this.#giveBackAll(due)
  }

  /** Runs the settlement of a loan with its deduction, which no recount may see half done. */
  async settleLoans(work: () => Promise<void>): Promise<void> {
    this.#loanSettlements += 1
    try {
      await work()
    } finally {
      this.#loanSettlements -= 1
      this.#settledLoans += 1
    }
  }

  /** Gives up the money of a purse that no request uses. It goes back to the lender. */
  giveUpFree(owner: PurseOwner): { holdKey: string; amount: NanoUsd } | undefined {
    const purse = this.#find(owner)
    if (purse?.holdKey === undefined || purse.free <= 0n || purse.giving !== undefined) return undefined
    const amount = purse.free
    purse.free = zeroUsd
    return { holdKey: purse.holdKey, amount }
  }

  /** Takes back money from a borrower. Requests may be waiting for it. */
  takeBack(purse: Purse, amount: NanoUsd): void {
    void this.#handBack(purse, purse.takeBack(amount))
    this.#serve(purse)
  }

  /**
   * Called when a limit of the account was set or lowered: money that was granted before goes back, and so does what
   * running requests do not use, so that each later request is compared with the limit. Resolves when nothing granted
   * before can be spent.
   */
  async recall(accountId: string): Promise<void> {
    const { shared, ofKeys } = this.#accounts.get(accountId) ?? {}
    const purses = [...(shared === undefined ? [] : [shared]), ...(ofKeys?.values() ?? [])]
    await Promise.all(
      purses.map(async (purse) => {
        // A top-up in progress may have been granted before the limit was set.
        await purse.topUp?.catch(() => {})
        void this.#handBack(purse, purse.recall())
      }),
    )
    await this.#recallLoans?.(accountId)
    for (const purse of purses) await purse.giving
  }

  /** Recalls all purses, for limits that were set while notifications were missed. */
  async recallAll(): Promise<void> {
    const accountIds = [...this.#accounts.keys()]
    const worker = async (): Promise<void> => {
      for (let one = accountIds.shift(); one !== undefined; one = accountIds.shift()) await this.recall(one)
    }
    await Promise.all(Array.from({ length: MAX_CONCURRENT_GIVE_BACKS }, worker))
  }

  /** Gives back everything that no request is using, at shutdown. */
  async giveAllBack(): Promise<void> {
    await this.#giveBackAll([...this.#all].map((purse) => ({ purse, part: purse.isUsed() ? 'free' : 'everything' })))
  }

  #find(owner: PurseOwner): Purse | undefined {
    const purses = this.#accounts.get(owner.accountId)
    return owner.apiKeyId === null ? purses?.shared : purses?.ofKeys.get(owner.apiKeyId)
  }

  /** undefined: there are too many purses. */
  #make(owner: PurseOwner): Purse | undefined {
    if (this.#all.size >= MAX_PURSES) return undefined
    const purse = new Purse({ ...owner }, this.#clock.now())
    // The answer for an earlier purse was lost: money granted then may still be in the hold.
    purse.needsRecount = this.#unanswered.delete(nameOf(owner))
    const purses: AccountPurses = this.#accounts.get(owner.accountId) ?? { shared: undefined, ofKeys: new Map() }
    this.#accounts.set(owner.accountId, purses)
    if (owner.apiKeyId === null) purses.shared = purse
    else purses.ofKeys.set(owner.apiKeyId, purse)
    this.#all.add(purse)
    return purse
  }

  #forget(purse: Purse): void {
    const { accountId, apiKeyId } = purse.owner
    const purses = this.#accounts.get(accountId)
    if (purses === undefined) return
    if (apiKeyId === null) purses.shared = undefined
    else purses.ofKeys.delete(apiKeyId)
    if (purses.shared === undefined && purses.ofKeys.size === 0) this.#accounts.delete(accountId)
    this.#all.delete(purse)
  }

  /** Makes one top-up at a time, for all waiting requests, until none waits. Never rejects. */
  async #fill(purse: Purse): Promise<void> {
    purse.isFilling = true
    try {
      for (;;) {
        await purse.giving
        this.#serve(purse)
        const head = purse.waiters[0]
        if (head === undefined) return
        const topUp = this.#treasury.topUp(purse.owner, purse.topUpNeed(this.#clock.now()))
        purse.topUp = topUp
        const topped = await topUp
        if (topped.kind === 'granted') {
          purse.fill(topped, this.#clock.now())
          continue
        }
        this.#serve(purse)
        if (purse.waiters[0] !== head || (await this.#recall?.(purse.owner, head.from)) === true) continue
        // Requests that need at least as much are not covered either; smaller ones try again.
        const refused = purse.waiters.filter((waiter) => waiter.worst >= head.worst)
        for (const waiter of refused) {
          purse.waiters.splice(purse.waiters.indexOf(waiter), 1)
          waiter.answer(notCovered(waiter.worst, topped.why))
        }
      }
    } catch (error) {
      // The money may have been granted even so.
      purse.needsRecount = true
      this.#onError(error, 'could not top up a purse')
      for (const waiter of purse.waiters.splice(0)) waiter.answer(unreachable())
    } finally {
      purse.isFilling = false
      purse.topUp = undefined
    }
  }

  /** Serves waiting requests in order of arrival. */
  #serve(purse: Purse): void {
    for (let head = purse.waiters[0]; head !== undefined; head = purse.waiters[0]) {
      const reservation = purse.reserve(head.worst, this.#clock.now())
      if (reservation === undefined) return
      purse.waiters.shift()
      head.answer(ok(reservation))
    }
  }

  async #renew(now: Instant): Promise<void> {
    const due = [...this.#all].filter(
      (purse) => purse.holdKey !== undefined && purse.isAlive(now) && purse.expiresAt - now < RENEW_BEFORE_MS,
    )
    for (let at = 0; at < due.length; at += RENEW_BATCH) {
      const batch = due.slice(at, at + RENEW_BATCH)
      const expiresAt = await this.#treasury.renew(batch.flatMap((purse) => purse.holdKey ?? []))
      for (const purse of batch) if (purse.expiresAt < expiresAt) purse.expiresAt = expiresAt
    }
  }

  /** Recounts only while nothing else changes the hold; otherwise next time. */
  async #recount(now: Instant): Promise<void> {
    const isSettled = (purse: Purse): boolean => !purse.isFilling && purse.giving === undefined
    const uncertain = [...this.#all].filter((purse) => purse.needsRecount && purse.isAlive(now) && isSettled(purse))
    if (uncertain.length === 0) return
    if (this.#loanSettlements > 0) return
    const settledLoans = this.#settledLoans
    const fills = uncertain.map((purse) => purse.fills)
    const inLedger = await this.#treasury.readPurses(uncertain.flatMap((purse) => purse.holdKey ?? []))
    // The ledger may have charged a loan that is not deducted here yet.
    if (this.#loanSettlements > 0 || settledLoans !== this.#settledLoans) return
    uncertain.forEach((purse, n) => {
      if (!isSettled(purse) || purse.fills !== fills[n]) return
      purse.recount(inLedger.get(purse.holdKey ?? '') ?? zeroUsd)
    })
  }

  async #giveBackAll(due: Return[]): Promise<void> {
    const worker = async (): Promise<void> => {
      for (let one = due.shift(); one !== undefined; one = due.shift()) await this.#giveBack(one)
    }
    await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT_GIVE_BACKS, due.length) }, worker))
  }

  async #giveBack({ purse, part }: Return): Promise<void> {
    const isWhole = part === 'everything'
    // Earlier returns may have taken a while, so the purse is checked again.
    if (purse.isFilling || purse.giving !== undefined || (isWhole && purse.isUsed())) return
    const { holdKey } = purse
    if (holdKey === undefined) {
      if (!isWhole) return
      if (purse.needsRecount && this.#unanswered.size < MAX_PURSES) this.#unanswered.add(nameOf(purse.owner))
      this.#forget(purse)
      return
    }
    const now = this.#clock.now()
    const amount = part === 'surplus' ? purse.surplus(now) : purse.free
    if (!isWhole && amount === 0n) return
    purse.free = nanoUsdOf(purse.free - amount)
    // Uncertain money goes back with the purse.
    if (isWhole) purse.needsRecount = false
    await this.#handBack(purse, isWhole ? EVERYTHING : amount)
    if (isWhole && !purse.needsRecount && !purse.isUsed()) this.#forget(purse)
  }

  /** Gives money back after earlier returns of the purse. Never rejects. */
  async #handBack(purse: Purse, amount: NanoUsd): Promise<void> {
    const { holdKey, giving: before } = purse
    if (holdKey === undefined || amount === 0n) return
    const now = this.#clock.now()
    const give = async (): Promise<void> => {
      await before
      try {
        await this.#treasury.giveBack(holdKey, amount)
      } catch (error) {
        // The money may have gone back even so.
        purse.needsRecount = true
        purse.usedAt = now
        this.#onError(error, 'could not give a purse back')
      } finally {
        if (purse.giving === giving) purse.giving = undefined
      }
    }
    const giving = give()
    purse.giving = giving
    await giving
  }
}

function nameOf({ accountId, apiKeyId }: PurseOwner): string {
  return `${accountId} ${apiKeyId ?? ''}`
}

function notCovered(worst: NanoUsd, limit: 'balance' | 'key_limit' | 'budget'): Failure {
  if (limit === 'budget') return fail('budget_exceeded', {})
  return limit === 'balance'
    ? fail('insufficient_balance', { amount: worst, purpose: 'request' })
    : fail('key_spending_limit', { amount: worst })
}

function unreachable(): Failure {
  return fail('balance_unreachable', { retryAfterMs: RETRY_AFTER_MS })
}

function tooBusy(): Failure {
  return fail('overloaded', { model: undefined, retryAfterMs: RETRY_AFTER_MS })
}

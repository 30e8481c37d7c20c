/**
 * Metering, from reserving money for a request to settling its cost. No request waits for the database: money comes out of
 * purses in memory (purses.ts), costs go to a journal on disk (gateway/journal/journal.ts), and are settled in batches some moments
 * later.
 */
import { SECOND_MS, type Clock, type Instant } from '../../base/instant.ts'
import { maxUsd, minUsd, nanoUsdOf, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { fail, type Failure, type Result } from '../../contract/result.ts'
import type { InferenceRecord } from '../../domain/inference-record.ts'
import type { PurseOwner } from '../../domain/purse.ts'
import { SETTLEMENT_RECORDS, SettlementBatch, settleRecords, type KnownCost } from '../../domain/settlement.ts'
import type { Journal, JournalEntry, JournalLog } from '../journal/journal.ts'
import type { Purse } from './purse.ts'
import { PurseLoans, type Returned } from './purse-loans.ts'
import type { MeterFigures, MeterOptions, MeterTreasury } from './meter-options.ts'
import { Purses } from './purses.ts'

/**
 * A request after a quiet time is settled this soon. While requests keep coming they are settled less often: a batch costs
 * the database about the same whether it has one request or a hundred, and each makes postings that are kept for good.
 */
const SETTLE_SOON_MS = 200
const SETTLE_EVERY_MS = 2 * SECOND_MS
/** This many are settled at once, without waiting for the timer. */
const MANY_RECORDS = SETTLEMENT_RECORDS / 2
const MAINTAIN_EVERY_MS = SECOND_MS
/** How much sooner than planned a timer may run. */
const TIMER_EARLY_MS = 2
const BEAT_EVERY_MS = 10 * SECOND_MS
/** While the database is down. */
const BACK_OFF_MS = [200, 500, 1_000, 2_000, 5_000] as const
/** Unsettled records in memory. Above this, no new request starts. */
const UNSETTLED_RECORDS = 50_000
const MAX_UNSETTLED_BYTES = 128 * 1_048_576
/** Stored length of a request or answer body. */
const MAX_BODY_CHARS = 1_048_576
/** A shutdown has ten seconds, and the requests take up to eight of them. */
const CLOSE_WITHIN_MS = 1_500

/** Money for the most that a request can cost. */
export interface Reservation {
  readonly amount: NanoUsd
}

/** A finished request that the caller settles itself (`settleWith`). */
export interface OwnRecord {
  readonly record: InferenceRecord
  readonly purse: Purse | undefined
}

/** A finished request. Its cost is capped by its reservation. */
export type EndedCall = Omit<InferenceRecord, 'holdKey'>

export interface Meter {
  /** Money for the workers of this gateway, and its return. */
  readonly loans: PurseLoans
  /** Reserves the most that a request can cost. undefined: call `reserve`, which may wait. */
  tryReserve(owner: PurseOwner, worst: NanoUsd): Reservation | undefined
  reserve(owner: PurseOwner, worst: NanoUsd): Promise<Result<Reservation>>
  /** Cancels a reservation of which nothing was used. Nothing is recorded. */
  cancel(reservation: Reservation): void
  /** `done` runs when a crash of the process can no longer lose the record: then the client may see the end. */
  finish(reservation: Reservation | undefined, call: EndedCall, done: () => void): void
  /** The same, but not written to the journal: a crash loses it, and the caller, who repeats the request, charges it. */
  finishOwn(reservation: Reservation, call: EndedCall): OwnRecord
  /** Settles such requests in a transaction of the caller's, who answers the ids of those that were charged. */
  settleWith(records: readonly OwnRecord[], work: () => Promise<ReadonlySet<string>>): Promise<void>
  /** The cost of a request that is not settled yet. undefined: the database has it. */
  costOf(requestId: string): KnownCost | undefined
  figures(): MeterFigures
  /** In a worker: gives up at once the part of a purse that no request uses. */
  giveUpFree(owner: PurseOwner): Returned | undefined
  /** Settles the records of an earlier run, gives its purses back, and starts. */
  start(): Promise<void>
  /** One round of background work: settling, and maintaining the purses. */
  pass(): Promise<void>
  /** Settles and gives back what it can in a bounded time. The journal stays open. */
  close(): Promise<void>
}

/** Requests that are settled together. */
interface Unsettled {
  readonly batch: SettlementBatch
  readonly sinceMs: number
  readonly spent: Map<Purse, { cost: NanoUsd; requests: number }>
  bytes: number
  /** The journal entry of the batch's last request. */
  last: JournalEntry
}

export function makeMeter(options: MeterOptions): Meter {
  return new MeterOfGateway(options)
}

class MeterOfGateway implements Meter {
  readonly loans: PurseLoans
  readonly #treasury: MeterTreasury
  readonly #journal: Journal
  readonly #clock: Clock
  readonly #log: JournalLog
  readonly #seal: (text: string) => string
  readonly #settleSoonMs: number
  readonly #settleEveryMs: number
  readonly #unsettledRecords: number
  readonly #recover: MeterOptions['recover']
  readonly #purses: Purses
  /** Oldest first. */
  readonly #batches: Unsettled[] = []
  /** The last of them, while requests are added to it. */
  #open: Unsettled | undefined
  #unsettled = 0
  #unsettledBytes = 0
  #settled = 0
  #settleFailures = 0
  #cappedCosts = 0
  #failures = 0
  /** undefined: not yet. */
  #maintainedAt: Instant | undefined
  #beatAt: Instant | undefined
  /** The time of the last settlement, on the monotonic clock. */
  #settledAt = -Infinity
  #passing: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #dueAt = Infinity
  #isRunning = false
  #isGivingUp = false

  constructor(options: MeterOptions) {
    this.#treasury = options.treasury
    this.#journal = options.journal
    this.#clock = options.clock
    this.#log = options.log
    this.#seal = options.seal
    this.#settleSoonMs = options.settleSoonMs ?? SETTLE_SOON_MS
    this.#settleEveryMs = options.settleEveryMs ?? SETTLE_EVERY_MS
    this.#unsettledRecords = options.unsettledRecords ?? UNSETTLED_RECORDS
    this.#purses = new Purses({
      treasury: options.treasury,
      clock: options.clock,
      onError: (error, message) => this.#log.warn({ err: error }, message),
      recall: (owner, except) => this.loans.recall(owner, except),
      recallLoans: (accountId) => this.loans.recallAccount(accountId),
    })
    this.loans = new PurseLoans({ purses: this.#purses, treasury: options.treasury })
    this.#recover = options.recover
  }

  tryReserve(owner: PurseOwner, worst: NanoUsd): Reservation | undefined {
    return this.#refusal() === undefined ? this.#purses.tryReserve(owner, worst) : undefined
  }

  async reserve(owner: PurseOwner, worst: NanoUsd): Promise<Result<Reservation>> {
    return this.#refusal() ?? this.#purses.reserve(owner, worst)
  }

  cancel(reservation: Reservation): void {
    this.#purses.end(reservation, zeroUsd)
  }

  finish(reservation: Reservation | undefined, call: EndedCall, done: () => void): void {
    const { record, purse } = this.#end(reservation, call)
    this.#record(record, purse, done)
    if (this.#unsettled === 1 || this.#unsettled === MANY_RECORDS) this.#hasten()
  }

  finishOwn(reservation: Reservation, call: EndedCall): OwnRecord {
    return this.#end(reservation, call)
  }

  settleWith(records: readonly OwnRecord[], work: () => Promise<ReadonlySet<string>>): Promise<void> {
    return this.#purses.settleLoans(async () => {
      const charged = await work()
      for (const { record, purse } of records) {
        purse?.settle(record.cost)
        // The hold has what was not charged.
        if (purse !== undefined && !charged.has(record.requestId)) purse.needsRecount = true
      }
    })
  }

  #end(reservation: Reservation | undefined, call: EndedCall): OwnRecord {
    const cost = maxUsd(zeroUsd, minUsd(call.cost, reservation?.amount ?? zeroUsd))
    if (cost < call.cost) this.#cappedCosts += 1
    const purse = reservation === undefined ? undefined : this.#purses.end(reservation, cost)
    const paidBy = cost > 0n ? purse : undefined
    return { record: this.#recordOf(call, cost, paidBy), purse: paidBy }
  }

  costOf(requestId: string): KnownCost | undefined {
    for (const { batch } of this.#batches) {
      const cost = batch.costOf(requestId)
      if (cost !== undefined) return cost
    }
    return undefined
  }

  figures(): MeterFigures {
    const [oldest] = this.#batches
    return {
      unsettled: this.#unsettled,
      unsettledBytes: this.#unsettledBytes,
      settleLagMs: oldest === undefined ? 0 : performance.now() - oldest.sinceMs,
      settled: this.#settled,
      settleFailures: this.#settleFailures,
      purses: this.#purses.size,
      cappedCosts: this.#cappedCosts,
    }
  }

  giveUpFree(owner: PurseOwner): Returned | undefined {
    return this.#purses.giveUpFree(owner)
  }

  async start(): Promise<void> {
    await this.#treasury.registerGateway()
    for await (const batch of this.#journal.replay()) await settleRecords(this.#treasury, batch)
    await this.#recover?.()
    // Everything that the earlier run spent is settled; the rest of its purses goes back to the customers.
    await this.#treasury.releaseOwnPurses()
    this.#isRunning = true
    this.#plan(this.#pauseMs())
  }

  pass(): Promise<void> {
    return this.#passOnce(true)
  }

  async close(): Promise<void> {
    this.#isRunning = false
    clearTimeout(this.#timer)
    let timer: NodeJS.Timeout | undefined
    const isLate = new Promise<void>((resolve) => {
      timer = setTimeout(() => {
        this.#isGivingUp = true
        resolve()
      }, CLOSE_WITHIN_MS)
    })
    await Promise.race([this.#settleAll(), isLate])
    clearTimeout(timer)
    const records = this.#unsettled
    if (records > 0) this.#log.warn({ records }, 'unsettled requests stay in the journal until the next start')
  }

  async #settleAll(): Promise<void> {
    await this.#passing
    while (this.#unsettled > 0 && !this.#isGivingUp) {
      await this.pass()
      if (this.#failures > 0) await new Promise((resolve) => setTimeout(resolve, BACK_OFF_MS[0]))
    }
    if (!this.#isGivingUp) await this.#purses.giveAllBack()
  }

  #refusal(): Failure | undefined {
    if (this.#journal.isFailing) return cannotRecord()
    const isFull = this.#unsettled >= this.#unsettledRecords || this.#unsettledBytes >= MAX_UNSETTLED_BYTES
    return isFull ? cannotRecord() : undefined
  }

  #record(record: InferenceRecord, paidBy: Purse | undefined, done: () => void): void {
    const open = this.#open
    const batch = open?.batch ?? new SettlementBatch()
    const entry = this.#journal.append(record.requestId, batch.add(record), done)
    const to = open ?? this.#openBatch(batch, entry)
    to.last = entry
    to.bytes += entry.bytes
    this.#unsettled += 1
    this.#unsettledBytes += entry.bytes
    if (batch.isFull) this.#open = undefined
    if (paidBy === undefined) return
    const spent = to.spent.get(paidBy)
    if (spent === undefined) to.spent.set(paidBy, { cost: record.cost, requests: 1 })
    else {
      spent.cost = nanoUsdOf(spent.cost + record.cost)
      spent.requests += 1
    }
  }

  #openBatch(batch: SettlementBatch, last: JournalEntry): Unsettled {
    const open = { batch, sinceMs: performance.now(), spent: new Map(), bytes: 0, last }
    this.#batches.push(open)
    this.#open = open
    return open
  }

  #recordOf(call: EndedCall, cost: NanoUsd, paidBy: Purse | undefined): InferenceRecord {
    return {
      requestId: call.requestId,
      accountId: call.accountId,
      apiKeyId: call.apiKeyId,
      holdKey: paidBy?.holdKey ?? null,
      operation: call.operation,
      model: call.model,
      deployment: call.deployment,
      at: call.at,
      status: call.status,
      outcome: call.outcome,
      reason: call.reason,
      streamed: call.streamed,
      units: call.units,
      cost,
      firstByteMs: call.firstByteMs,
      totalMs: call.totalMs,
      traceId: call.traceId,
      requestBody: this.#sealed(call.requestBody),
      responseBody: this.#sealed(call.responseBody),
    }
  }

  #sealed(body: string | null): string | null {
    return body === null ? null : this.#seal(body.slice(0, MAX_BODY_CHARS))
  }

  #plan(afterMs: number): void {
    if (!this.#isRunning) return
    clearTimeout(this.#timer)
    this.#dueAt = performance.now() + afterMs
    this.#timer = setTimeout(() => {
      this.#dueAt = Infinity
      const settles = this.#failures > 0 || this.#settleInMs() < TIMER_EARLY_MS
      void this.#passOnce(settles).then(() => this.#plan(this.#pauseMs()))
    }, afterMs)
  }

  #passOnce(settles: boolean): Promise<void> {
    // Requests that end from now on make a better batch of their own.
    this.#passing ??= this.#pass(settles ? [...this.#batches] : []).finally(() => {
      this.#passing = undefined
    })
    return this.#passing
  }

  #pauseMs(): number {
    if (this.#failures > 0) return BACK_OFF_MS[Math.min(this.#failures, BACK_OFF_MS.length) - 1] ?? SECOND_MS
    return Math.min(MAINTAIN_EVERY_MS, Math.max(0, this.#settleInMs()))
  }

  /** The time until requests are to be settled. */
  #settleInMs(): number {
    const [oldest] = this.#batches
    if (oldest === undefined) return Infinity
    if (this.#unsettled >= MANY_RECORDS) return 0
    return Math.max(oldest.sinceMs + this.#settleSoonMs, this.#settledAt + this.#settleEveryMs) - performance.now()
  }

  /** More waits than when the next pass was planned: it may be due earlier, unless one is running. */
  #hasten(): void {
    if (this.#passing !== undefined || this.#failures > 0) return
    const afterMs = this.#pauseMs()
    if (performance.now() + afterMs < this.#dueAt) this.#plan(afterMs)
  }

  async #pass(waiting: readonly Unsettled[]): Promise<void> {
    try {
      for (const batch of waiting) await this.#settle(batch)
      if (waiting.length > 0) this.#settledAt = performance.now()
      const now = this.#clock.now()
      if (isDue(this.#maintainedAt, MAINTAIN_EVERY_MS, now)) {
        await this.#purses.maintain()
        this.#maintainedAt = now
      }
      if (isDue(this.#beatAt, BEAT_EVERY_MS, now)) {
        await this.#treasury.beat()
        this.#beatAt = now
      }
      if (this.#failures > 0) this.#log.warn({ tries: this.#failures }, 'settling works again')
      this.#failures = 0
    } catch (error) {
      this.#failures += 1
      this.#settleFailures += 1
      if (this.#failures === 1) this.#log.error({ err: error }, 'could not settle requests; they wait in the journal')
    }
  }

  async #settle(oldest: Unsettled): Promise<void> {
    const { batch, bytes, last, spent } = oldest
    const { requests } = batch
    // Requests that end from now on belong to the next batch.
    if (this.#open === oldest) this.#open = undefined
    // Sync first: a settled record must be on disk. If the disk fails, the database is the safer place.
    await this.#journal.sync()
    await this.#treasury.settle(batch.settlement)
    this.#journal.settle(last)
    this.#batches.shift()
    this.#settled += requests
    this.#unsettled -= requests
    this.#unsettledBytes -= bytes
    for (const [purse, { cost, requests: paid }] of spent) purse.settle(cost, paid)
  }
}

/** A clock set back makes everything due. */
function isDue(last: Instant | undefined, everyMs: number, now: Instant): boolean {
  return last === undefined || Math.abs(now - last) >= everyMs
}

function cannotRecord(): Failure {
  return fail('cannot_record', { retryAfterMs: 2 * SECOND_MS })
}

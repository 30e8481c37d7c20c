/** What a gateway needs of the money: purses that it spends from in memory, and a place for what was spent. */
import type { Instant } from '../base/instant.ts'
import type { NanoUsd } from '../base/money.ts'
import type { InferenceUnits } from './inference.ts'

/** Whose money: the account's, or the part of it that one key with a spending limit may still spend. */
export interface PurseOwner {
  readonly accountId: string
  /** null: keys without limits of their own share the account's purse. */
  readonly apiKeyId: string | null
}

export type Topped =
  | { readonly kind: 'granted'; readonly holdKey: string; readonly amount: NanoUsd; readonly expiresAt: Instant }
  /** The account (or the key's limit) has less than `needed`. */
  | { readonly kind: 'insufficient'; readonly why: 'balance' | 'key_limit' }

/** Implemented over the database. A rejection means that it cannot be reached. */
export interface Treasury {
  /** Moves up to `wanted`, and at least `needed`, from the account into this gateway's purse. */
  topUp(owner: PurseOwner, amounts: { wanted: NanoUsd; needed: NanoUsd }): Promise<Topped>
  /** Writes costs and log, charges the purses. Each request id counts once, however often it is sent. */
  settle(records: readonly InferenceRecord[]): Promise<void>
  /** Gives `amount` of what is left in a purse back to the account, and keeps the rest for longer. */
  giveBack(holdKey: string, amount: NanoUsd): Promise<void>
  /** Purses that are still in use are not to expire. */
  renew(holdKeys: readonly string[]): Promise<Instant>
}

/** One request that has ended: what the journal keeps and the database is told. JSON-safe, money as decimal text. */
export interface InferenceRecord {
  readonly requestId: string
  readonly accountId: string
  readonly apiKeyId: string
  /** null: it cost nothing. */
  readonly holdKey: string | null
  readonly operation: string
  readonly model: string
  readonly deployment: string | null
  readonly at: Instant
  readonly status: number
  readonly outcome: 'answered' | 'cut' | 'broken' | 'failed'
  readonly reason: string | null
  readonly streamed: boolean
  readonly units: InferenceUnits
  /** nano-USD in decimal. */
  readonly cost: string
  readonly firstByteMs: number | null
  readonly totalMs: number
  readonly traceId: string
  readonly requestBody: string | null
  readonly responseBody: string | null
}

/** Money in a gateway: purses that it spends from in memory, and the interface that records spending. */
import type { Instant } from '../base/instant.ts'
import type { NanoUsd } from '../base/money.ts'
import type { Settlement } from './settlement.ts'

/** The owner of a purse: the account, or one key with a spending limit. */
export interface PurseOwner {
  readonly accountId: string
  /** null: keys without limits of their own share the account's purse. */
  readonly apiKeyId: string | null
}

export type Topped =
  | { readonly kind: 'granted'; readonly holdKey: string; readonly amount: NanoUsd; readonly expiresAt: Instant }
  /** The account, or the limit of the key, has less than `minimum`. */
  | { readonly kind: 'insufficient'; readonly why: 'balance' | 'key_limit' | 'budget' }

/** Implemented over the database. A rejection means that the database is unreachable. */
export interface Treasury {
  /** Moves at most `maximum`, and at least `minimum`, from the account into this gateway's purse. */
  topUp(owner: PurseOwner, amounts: { minimum: NanoUsd; maximum: NanoUsd }): Promise<Topped>
  /** Writes costs and log, charges the purses. Each request id counts once, however often it is sent. */
  settle(settlement: Settlement): Promise<void>
  /** Returns `amount` from a purse to the account, and extends the expiry of the remainder. */
  giveBack(holdKey: string, amount: NanoUsd): Promise<void>
  /** Keeps purses in use from expiring. */
  renew(holdKeys: readonly string[]): Promise<Instant>
}

/** The functions that a server and its workers call of each other. */
import type { Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { BodyBudgetOptions } from '../../domain/body-budget.ts'
import type { PurseOwner, Topped } from '../../domain/purse.ts'
import type { KnownCost, Settlement } from '../../domain/settlement.ts'
import type { Caller } from '../../gateway/call.ts'
import type { Catalog } from '../../gateway/catalog.ts'
import type { DispatcherStats } from '../../gateway/dispatch/dispatch.ts'
import type { Returned } from '../../gateway/money/purse-loans.ts'
import type { PortDomain } from '../ports/port-domain.ts'
import type { SliceRequest } from '../http/rate-limit.ts'

/** The data that a worker needs to start. */
export interface WorkerStart {
  /** A folder of its own. */
  readonly journalDir: string
  readonly logLevel: string
  readonly bodyMemory: BodyBudgetOptions
  readonly portDomain: PortDomain | undefined
  readonly firstTokenMs: number
  readonly catalog: Catalog
}

/** A key that may call models. */
export interface KnownCaller {
  readonly caller: Caller
  readonly expiresAt: Instant | null
  /** Whether it may be remembered until the server says otherwise. */
  readonly isCached: boolean
}

/** A key, the keys of an account, or any of them. */
export type ChangedKeys = { readonly kind: 'keyId' | 'accountId'; readonly id: string } | { readonly kind: 'any' }

/** Calls of a worker that its server answers. */
export interface ServerFunctions {
  readonly introduce: (authorization: string) => Promise<KnownCaller | undefined>
  readonly topUp: (owner: PurseOwner, amounts: { minimum: NanoUsd; maximum: NanoUsd }) => Promise<Topped>
  readonly settle: (settlement: Settlement) => Promise<void>
  readonly giveBack: (holdKey: string, amount: NanoUsd) => Promise<void>
  readonly renew: (holdKeys: readonly string[]) => Promise<Instant>
  readonly readPurses: (holdKeys: readonly string[]) => Promise<ReadonlyMap<string, NanoUsd>>
  readonly takeSlice: (request: SliceRequest) => Promise<{ granted: number; taken: number }>
  readonly lendPlaces: (accountId: string, streams: number) => Promise<number>
  readonly takeBackPlaces: (accountId: string, places: number) => void
  readonly keysUsed: (lastUsed: ReadonlyMap<string, Instant>) => void
  /** Connections that it has closed or handed back, since it started. */
  readonly connectionsLeft: (count: number) => void
  readonly stats: (stats: DispatcherStats) => void
}

/** Calls of a server that its worker answers. */
export interface WorkerFunctions {
  /** Resolves when it accepts connections. */
  readonly start: (options: WorkerStart) => Promise<void>
  readonly setCatalog: (catalog: Catalog) => void
  readonly forgetKeys: (changed: ChangedKeys) => void
  /** Sent often while the server hears of changed keys. */
  readonly keysAreFresh: () => void
  readonly giveUpMoney: (owner: PurseOwner) => Promise<Returned | undefined>
  /** Resolves when it can spend nothing that it borrowed before. */
  readonly recallMoney: (accountId: string) => Promise<void>
  readonly giveUpRate: (subject: string, minute: Instant) => Promise<number>
  readonly giveUpPlaces: (accountId: string) => Promise<number>
  readonly costsOf: (requestIds: readonly string[]) => Promise<ReadonlyMap<string, KnownCost>>
  readonly metrics: () => Promise<string>
  readonly journalState: () => Promise<string>
  readonly startDraining: () => void
  /** Finishes what is in progress, settles, and exits. */
  readonly close: (finishMs: number) => Promise<void>
}

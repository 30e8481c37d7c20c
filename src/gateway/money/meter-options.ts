/** The parts that a meter is made of, and the figures it gives. */
import type { Clock } from '../../base/instant.ts'
import type { Treasury } from '../../domain/purse.ts'
import type { Journal, JournalLog } from '../journal/journal.ts'
import type { PurseTreasury } from './purses.ts'

export interface MeterTreasury extends Treasury, PurseTreasury {
  registerGateway(): Promise<void>
  beat(): Promise<void>
  releaseOwnPurses(): Promise<void>
}

export interface MeterOptions {
  readonly treasury: MeterTreasury
  readonly journal: Journal
  readonly clock: Clock
  readonly log: JournalLog
  /** Encrypts bodies, on disk and in the database. */
  readonly seal: (text: string) => string
  /** Settles what workers of an earlier run left in their journals. */
  readonly recover?: () => Promise<void>
  readonly settleSoonMs?: number
  readonly settleEveryMs?: number
  readonly unsettledRecords?: number
}

export interface MeterFigures {
  readonly unsettled: number
  readonly unsettledBytes: number
  /** Age of the oldest unsettled record. */
  readonly settleLagMs: number
  readonly settled: number
  readonly settleFailures: number
  readonly purses: number
  /** Requests that cost more than was reserved, and were charged less. */
  readonly cappedCosts: number
}

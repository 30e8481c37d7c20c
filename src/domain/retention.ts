/** The time after which the server deletes what grows with use. */
import { limits } from '../base/limits.ts'

export interface Retention {
  /** Single inference requests; their sums by day are kept forever. */
  readonly requestDays: number
  /** Stored responses. */
  readonly responseDays: number
}

export const defaultRetention: Retention = { requestDays: 400, responseDays: limits.responseDays }

/** Retention of single inference requests; their totals are kept forever. */
export interface Retention {
  readonly requestLogDays: number
  readonly requestCostDays: number
}

export const defaultRetention: Retention = { requestLogDays: 30, requestCostDays: 400 }

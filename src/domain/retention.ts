/** How long requests to models are kept one by one; their sums stay for ever. */
export interface Retention {
  readonly requestLogDays: number
  readonly requestCostDays: number
}

export const defaultRetention: Retention = { requestLogDays: 30, requestCostDays: 400 }

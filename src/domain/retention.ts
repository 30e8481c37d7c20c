/** Retention of single inference requests; their sums by day are kept forever. */
export interface Retention {
  readonly requestDays: number
}

export const defaultRetention: Retention = { requestDays: 400 }

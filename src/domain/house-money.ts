/** Decides how much money the house keeps in the account that rents GPUs for models for everyone. */

export interface HousePosition {
  /** The cost of the house's replicas in the account per hour. */
  readonly perHour: bigint
  /** Money of the house in the account that no rental holds. */
  readonly free: bigint
}

/**
 * Returns the amount to put into the account; below zero, the amount to take back. Rentals hold an hour ahead, and the
 * account has another for the meter to top them up from. It is filled at half of that: a posting per charge would
 * double the ledger.
 */
export function planHouseMoney({ perHour, free }: HousePosition): bigint {
  if (free > perHour) return perHour - free
  return free * 2n < perHour ? perHour - free : 0n
}

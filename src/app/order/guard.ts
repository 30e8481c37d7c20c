/** The end time, spending limit and price cap that customers set. */
import type { Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { IdleRule } from '../../contract/workload.ts'
import type { Guards } from '../../domain/order.ts'

/** The end time and the spending limit have a second name each. */
export interface GuardFields {
  readonly autoTerminateAt?: Instant | undefined
  readonly terminateAt?: Instant | undefined
  readonly spendingLimitUsd?: NanoUsd | undefined
  readonly maxCostUsd?: NanoUsd | undefined
  readonly maxCostPerHourUsd?: NanoUsd | undefined
}

export function readGuards(fields: GuardFields): Guards {
  return {
    autoTerminateAt: fields.terminateAt ?? fields.autoTerminateAt ?? null,
    spendingLimit: fields.maxCostUsd ?? fields.spendingLimitUsd ?? null,
    maxCostPerHour: fields.maxCostPerHourUsd ?? null,
  }
}

/** undefined: no change. null: remove it. */
export interface GuardChange {
  readonly autoTerminateAt?: Instant | null | undefined
  readonly spendingLimit?: NanoUsd | null | undefined
  readonly stopAt?: Instant | null | undefined
  readonly idle?: IdleRule | null | undefined
}

/** The end time, spending limit and price cap that customers set, as they write them. */
import { parseInstant, type Instant } from '../../base/instant.ts'
import { parseUsd, type NanoUsd } from '../../base/money.ts'
import { failField, ok, type Result } from '../../contract/result.ts'
import type { IdleRule } from '../../contract/workload.ts'
import type { Guards } from '../../domain/order.ts'

/** The end time and the spending limit have a second name each. */
export interface GuardFields {
  readonly autoTerminateAt?: string | undefined
  readonly terminateAt?: string | undefined
  readonly spendingLimitUsd?: string | undefined
  readonly maxCostUsd?: string | undefined
  readonly maxCostPerHourUsd?: string | undefined
}

export function readGuards(wire: GuardFields): Result<Guards> {
  const endText = wire.terminateAt ?? wire.autoTerminateAt
  const end = endText === undefined ? null : parseInstant(endText)
  if (end === undefined) return failField(['autoTerminateAt'], 'bad_time')
  const limitText = wire.maxCostUsd ?? wire.spendingLimitUsd
  const limit = limitText === undefined ? null : parseUsd(limitText)
  if (limit === undefined) return failField(['spendingLimitUsd'], 'bad_amount')
  const maxCost = wire.maxCostPerHourUsd === undefined ? null : parseUsd(wire.maxCostPerHourUsd)
  if (maxCost === undefined) return failField(['maxCostPerHourUsd'], 'bad_amount')
  return ok({ autoTerminateAt: end, spendingLimit: limit, maxCostPerHour: maxCost })
}

/** undefined: no change. null: remove it. */
export interface GuardChange {
  readonly autoTerminateAt?: Instant | null | undefined
  readonly spendingLimit?: NanoUsd | null | undefined
  readonly stopAt?: Instant | null | undefined
  readonly idle?: IdleRule | null | undefined
}

/** Changes of the end time and spending limit of a live rental. */
export function readGuardChange(wire: {
  autoTerminateAt?: string | null | undefined
  spendingLimitUsd?: string | null | undefined
  stopAt?: string | null | undefined
  idle?: IdleRule | null | undefined
}): Result<GuardChange> {
  const stopAt = wire.stopAt === undefined || wire.stopAt === null ? wire.stopAt : parseInstant(wire.stopAt)
  if (stopAt === undefined && wire.stopAt !== undefined) return failField(['stopAt'], 'bad_time')
  const { autoTerminateAt: endText, spendingLimitUsd: limitText } = wire
  const guards = readGuards({ autoTerminateAt: endText ?? undefined, spendingLimitUsd: limitText ?? undefined })
  if (!guards.ok) return guards
  const { autoTerminateAt, spendingLimit } = guards.value
  return ok({
    autoTerminateAt: endText === undefined ? undefined : autoTerminateAt,
    spendingLimit: limitText === undefined ? undefined : spendingLimit,
    stopAt,
    idle: wire.idle,
  })
}

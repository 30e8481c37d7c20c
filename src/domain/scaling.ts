/**
 * How many replicas a deployment should have, from the requests that wait and run. A decision needs a trend, not a
 * moment: scaling up takes the smallest need of the up delay, scaling down the largest need of the down delay, so a
 * constant load never makes a deployment oscillate. Replicas that are starting count as capacity: the load that ordered
 * them orders no others. While one of them is missing (it starts, was lost, or its host is not connected), requests queue
 * up for it, and that queue says nothing about how many are needed once it answers. So no more are ordered meanwhile.
 */
import type { Instant } from '../base/instant.ts'
import { MIN_WITHOUT_METRICS } from './admission-limit.ts'
import type { ReplicaLoads } from './serving.ts'

export interface ScalingRule {
  readonly min: number
  readonly max: number
  /** Requests that one replica should have, waiting or running. */
  readonly targetOutstanding: number
  readonly upDelayMs: number
  readonly downDelayMs: number
  /** The last replica ends after this long without a request. Applies only with `min` 0. */
  readonly idleMs: number
}

export interface ScalingState {
  readonly desired: number
  /** The time since which more replicas are needed, and the smallest need since then. null: no more are needed. */
  readonly above: Trend | null
  /** The time since which fewer replicas are needed, and the largest need since then. null: no fewer are needed. */
  readonly below: Trend | null
  /** When a request last waited or ran. */
  readonly activeAt: Instant
}

interface Trend {
  readonly since: Instant
  readonly need: number
}

export interface ServingDemand {
  /** Waiting and running, as an average over the last second or so: the gateways' own count. */
  readonly outstanding: number
  /** Waiting and running right now. */
  readonly current: number
  /** The last time that a gateway had a request. null: unknown. */
  readonly activeAt: Instant | null
  /** Replicas that have not answered yet. */
  readonly starting: number
  /** Replicas that take requests. */
  readonly ready: number
}

export type ScalingReason =
  | 'steady'
  | 'minimum'
  | 'maximum'
  | 'budget'
  | 'request_at_zero'
  | 'load'
  | 'less_load'
  | 'idle'

export interface ScalingDecision {
  readonly state: ScalingState
  readonly why: ScalingReason
}

/**
 * Fewer replicas must carry the load at this share of their target. Otherwise the next wave would bring the replica
 * back.
 */
const DOWN_HEADROOM = 0.9

export function initialScaling(rule: Pick<ScalingRule, 'min'>, now: Instant): ScalingState {
  return { desired: rule.min, above: null, below: null, activeAt: now }
}

/**
 * The target of one replica, from what gateways have learned about each. Gateways share replicas, so their targets add
 * up.
 */
export function automaticTarget(loads: readonly ReplicaLoads[], replicaIds: readonly string[]): number {
  const targets = replicaIds
    .map((id) => loads.reduce((sum, replicas) => sum + (replicas[id]?.target ?? 0), 0))
    .filter((target) => target > 0)
  if (targets.length === 0) return MIN_WITHOUT_METRICS
  return targets.reduce((sum, target) => sum + target, 0) / targets.length
}

/** `affordable`: as many replicas as the hourly budget covers. */
export function decideScale(
  rule: ScalingRule,
  before: ScalingState,
  demand: ServingDemand,
  now: Instant,
  affordable = Infinity,
): ScalingDecision {
  const isActive = demand.outstanding > 0 || demand.current > 0
  const activeAt = isActive ? now : latest(before.activeAt, demand.activeAt, now)
  const state = { ...before, activeAt }
  const max = Math.min(rule.max, affordable)
  const min = Math.min(rule.min, max)
  const capped = max < rule.max ? 'budget' : 'maximum'

  if (state.desired > max) return settle(state, max, capped)
  if (state.desired < min) return settle(state, min, 'minimum')
  if (state.desired === 0) {
    if (!isActive) return settle(state, 0, 'steady')
    return max === 0 ? settle(state, 0, capped) : settle(state, 1, 'request_at_zero')
  }

  const load = Math.max(demand.outstanding, 0)
  const upNeed = Math.ceil(load / rule.targetOutstanding)
  if (upNeed > state.desired && demand.ready < state.desired) {
    return keep({ ...state, above: null, below: null }, 'steady')
  }
  if (upNeed > state.desired) return scaleUp(rule, state, upNeed, { max, capped, now })

  const isIdle = !isActive && demand.starting === 0 && now - activeAt >= rule.idleMs
  if (min === 0 && isIdle) return settle(state, 0, 'idle')
  // While a request waits or runs, the last replica stays, however small the average is.
  const floor = Math.max(min, 1)
  const downNeed = Math.max(Math.ceil(load / (rule.targetOutstanding * DOWN_HEADROOM)), floor)
  if (downNeed >= state.desired) return keep({ ...state, above: null, below: null }, 'steady')
  return scaleDown(rule, state, downNeed, now)
}

function scaleUp(
  rule: ScalingRule,
  state: ScalingState,
  need: number,
  { max, capped, now }: { max: number; capped: ScalingReason; now: Instant },
): ScalingDecision {
  if (state.desired >= max) return keep({ ...state, above: null, below: null }, capped)
  const above = { since: state.above?.since ?? now, need: Math.min(state.above?.need ?? need, need) }
  if (now - above.since < rule.upDelayMs) return keep({ ...state, above, below: null }, 'steady')
  return settle(state, Math.min(above.need, max), 'load')
}

function scaleDown(rule: ScalingRule, state: ScalingState, need: number, now: Instant): ScalingDecision {
  const below = { since: state.below?.since ?? now, need: Math.max(state.below?.need ?? need, need) }
  if (now - below.since < rule.downDelayMs) return keep({ ...state, above: null, below }, 'steady')
  return settle(state, below.need, 'less_load')
}

function keep(state: ScalingState, why: ScalingReason): ScalingDecision {
  return { state, why }
}

function settle(state: ScalingState, desired: number, why: ScalingReason): ScalingDecision {
  return { state: { ...state, desired, above: null, below: null }, why }
}

/** Clocks of servers differ a little: nothing is later than now. */
function latest(before: Instant, reported: Instant | null, now: Instant): Instant {
  const newest = reported === null || reported < before ? before : reported
  return newest > now ? now : newest
}

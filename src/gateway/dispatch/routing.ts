/**
 * Chooses the deployment for a call: the one with the least outstanding work for its weight, unless another has the prompt
 * prefix cached, or the adapter loaded, and would compute its prompt within two seconds. A deployment that failed this call is tried again only if no other is left.
 */
import type { RoutingMemory } from './routing-memory.ts'
import type { Target } from './routing-target.ts'
import type { UpstreamCall } from '../upstream/upstream-call.ts'

/** The targets that a call has tried. */
export interface Tried {
  /** The number of attempts; Infinity: the target must not be tried again. */
  timesOf(target: Target): number
  readonly isEmpty: boolean
}

export interface Refusal {
  readonly kind: 'no_deployment' | 'overloaded' | 'unreachable'
  readonly detail: string
  readonly retryAfterMs: number | undefined
  readonly target: Target | undefined
}

const TIMES_PER_TARGET = 2
const LEAST_RETRY_AFTER_MS = 250

/** `wait`: all suitable targets are full. */
export function chooseTarget(
  targets: readonly Target[],
  memory: RoutingMemory,
  call: UpstreamCall,
  tried: Tried,
  now: number,
): Target | 'wait' | Refusal {
  const fresh = tried.isEmpty ? undefined : (target: Target): boolean => tried.timesOf(target) === 0
  const first = pickTarget(targets, memory, call, now, fresh)
  if (first !== undefined) return first
  const isUsable = (target: Target): boolean => target.isInUse && (call.accepts?.(target.deployment) ?? true)
  const usable = targets.filter(isUsable)
  if (usable.some((target) => target.isHealthy(now) && tried.timesOf(target) === 0)) return 'wait'
  const isAgain = (target: Target): boolean => tried.timesOf(target) < TIMES_PER_TARGET
  const second = pickTarget(targets, memory, call, now, isAgain)
  if (second !== undefined) return second
  if (usable.some((target) => target.isHealthy(now) && isAgain(target))) return 'wait'
  return lastResort(usable, tried, now) ?? explainRefusal(usable, now)
}

function pickTarget(
  targets: readonly Target[],
  memory: RoutingMemory,
  call: UpstreamCall,
  now: number,
  isAllowed: ((target: Target) => boolean) | undefined,
): Target | undefined {
  const { accepts } = call
  const canTake = (target: Target): boolean =>
    target.isInUse &&
    (call.onlyIdle === true ? target.hasIdlePlace() : target.hasPlace()) &&
    target.isHealthy(now) &&
    (accepts === undefined || accepts(target.deployment)) &&
    (isAllowed === undefined || isAllowed(target))
  const best = leastBusy(targets, now, canTake)
  if (best === undefined || targets.length === 1) return best
  const isClose = (target: Target): boolean => target.slots.isCloseForPrefix && canTake(target)
  const loaded = call.model.adapterOf === undefined ? undefined : leastBusy(targets, now, isClose, hasAdapter)
  if (call.prefixes.length === 0 && call.session === undefined) return loaded ?? best
  const cached = memory.find(call, isClose)
  const chosen = cached ?? loaded ?? best
  if (chosen === cached) chosen.affinityHits += 1
  else chosen.affinityMisses += 1
  return chosen
}

function hasAdapter({ slots, deployment }: Target): boolean {
  return slots.adapters?.has(deployment.upstreamModel) === true
}

function leastBusy(
  targets: readonly Target[],
  now: number,
  ...conditions: ReadonlyArray<(target: Target) => boolean>
): Target | undefined {
  let best: Target | undefined
  let least = Infinity
  for (const target of targets) {
    if (!conditions.every((holds) => holds(target))) continue
    const work = target.workAt(now)
    if (work > least || (work === least && best !== undefined && target.turn >= best.turn)) continue
    best = target
    least = work
  }
  return best
}

/** If all breakers are open, one call at a time tries the target that allows calls first. */
function lastResort(usable: readonly Target[], tried: Tried, now: number): Target | undefined {
  if (usable.some((target) => target.breaker.state(now) === 'closed')) return undefined
  let best: Target | undefined
  for (const target of usable) {
    if (!target.breaker.allowsLastResort(now) || !target.hasPlace() || tried.timesOf(target) > 0) continue
    if (best === undefined || target.breaker.waitMs(now) < best.breaker.waitMs(now)) best = target
  }
  return best
}

function explainRefusal(usable: readonly Target[], now: number): Refusal {
  const [first] = usable
  if (first === undefined) {
    return { kind: 'no_deployment', detail: 'no deployment in use', retryAfterMs: undefined, target: undefined }
  }
  const waitMs = Math.min(...usable.map((target) => Math.max(target.pausedUntil - now, target.breaker.waitMs(now))))
  const retryAfterMs = Math.max(LEAST_RETRY_AFTER_MS, Math.round(waitMs))
  const isPaused = usable.some((target) => now < target.pausedUntil)
  const target = usable.length === 1 ? first : undefined
  return isPaused
    ? { kind: 'overloaded', detail: 'the engines asked to slow down', retryAfterMs, target }
    : { kind: 'unreachable', detail: 'the circuit breaker is open', retryAfterMs, target }
}

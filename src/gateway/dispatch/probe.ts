/**
 * Probes deployments independently of calls: whether unreachable ones are back, and whether idle ones are still there.
 * Any answer below 500 is a sign of life, since servers without a health endpoint answer 404 but work. When a breaker
 * needs to know whether an engine works, the prober sends a request of its own, in a separate slot.
 */
import { checkRequestOf, isHealthyStatus } from './engine-check.ts'
import type { Probes } from './probe-request.ts'
import type { Target } from './routing-target.ts'

export interface ProbeRhythm {
  /** How often to look for targets that are due. */
  readonly tickMs: number
  readonly openMs: number
  readonly idleMs: number
  /** How often the load of an engine is read, also while calls wait for it. */
  readonly metricsMs: number
  readonly waitingMetricsMs: number
  /** How often to look for metrics where there were none. */
  readonly noMetricsMs: number
  /** An engine that has waiting calls and no output for this long is checked; it must answer within `stuckCheckMs`. */
  readonly stuckMs: number
  readonly stuckCheckMs: number
  /** Minimum time between two checks: somebody may pay for each. */
  readonly checkMs: number
}

export const defaultRhythm: ProbeRhythm = {
  tickMs: 500,
  openMs: 1_000,
  idleMs: 15_000,
  metricsMs: 3_000,
  waitingMetricsMs: 1_000,
  noMetricsMs: 60_000,
  stuckMs: 30_000,
  stuckCheckMs: 10_000,
  checkMs: 2_000,
}

/** A single lost probe proves nothing. */
const DEAD_AFTER_PROBES = 2
/** The prober's state of a target. */
interface Watch {
  healthAt: number
  checkAt: number
  isChecking: boolean
  isAskingHealth: boolean
  deadProbes: number
  /** The health page answered 404 before. */
  hasNoHealthPage: boolean
}

export class Prober {
  readonly #probes: Probes
  readonly #rhythm: ProbeRhythm
  readonly #watches = new WeakMap<Target, Watch>()

  constructor(probes: Probes, rhythm: ProbeRhythm) {
    this.#probes = probes
    this.#rhythm = rhythm
  }

  probe(target: Target, now: number): void {
    const watch = this.#watchOf(target, now)
    if (target.breaker.needsCheck(now)) this.check(target)
    const isOpen = target.breaker.state(now) !== 'closed'
    const isIdle = target.inFlight === 0 && now - target.lastUsedAt >= this.#rhythm.idleMs
    if (watch.isAskingHealth || now < watch.healthAt || !(isOpen || isIdle)) return
    watch.healthAt = now + (isOpen ? this.#rhythm.openMs : this.#rhythm.idleMs)
    this.#askHealth(target, watch)
  }

  /** Sends a request of our own, now or as soon as a slot is free. */
  check(target: Target): void {
    const now = performance.now()
    const watch = this.#watchOf(target, now)
    if (watch.isChecking || now < watch.checkAt || !target.isInUse) return
    const { deployment } = target
    target.isCheckWaiting = target.slots.inFlight >= target.limit
    if (target.isCheckWaiting) return
    watch.checkAt = now + this.#rhythm.checkMs
    watch.isChecking = true
    target.begin()
    const request = checkRequestOf(target.modelKind, deployment)
    const message = { head: target.headOf(request), body: request.body, limits: deployment }
    this.#probes.send(target, message, ({ status, isUnreachable }) => {
      watch.isChecking = false
      target.end()
      target.breaker.checked(isHealthyStatus(status), isUnreachable, performance.now())
    })
  }

  #watchOf(target: Target, now: number): Watch {
    const existingWatch = this.#watches.get(target)
    if (existingWatch !== undefined) return existingWatch
    const watch: Watch = {
      healthAt: now,
      checkAt: now,
      isChecking: false,
      isAskingHealth: false,
      deadProbes: 0,
      hasNoHealthPage: false,
    }
    this.#watches.set(target, watch)
    return watch
  }

  #askHealth(target: Target, watch: Watch): void {
    watch.isAskingHealth = true
    this.#probes.get(target, watch.hasNoHealthPage ? '/v1/models' : '/health', ({ status }) => {
      watch.isAskingHealth = false
      if (status === 404 && !watch.hasNoHealthPage) {
        watch.hasNoHealthPage = true
        return this.#askHealth(target, watch)
      }
      const isAlive = status !== undefined && status < 500
      watch.deadProbes = isAlive ? 0 : watch.deadProbes + 1
      if (isAlive) return target.breaker.revive(performance.now())
      watch.healthAt = performance.now() + this.#rhythm.openMs
      if (watch.deadProbes >= DEAD_AFTER_PROBES) target.breaker.trip(performance.now())
    })
  }
}

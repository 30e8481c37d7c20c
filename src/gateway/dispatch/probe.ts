/**
 * Probes deployments besides the calls: whether unreachable ones are back, whether idle ones are still there, and, where
 * metrics are enabled, how busy they are. Any answer below 500 is a sign of life, since servers without a health endpoint
 * answer 404 but work. When a breaker needs to know whether an engine works, the prober sends a request of our own, in a
 * slot of its own.
 */
import { checkRequestOf, isHealthyStatus } from './engine-check.ts'
import { parseLoad } from './probe-load.ts'
import type { Target } from './routing-target.ts'
import type { AnswerSink, Connection, FaultKind, Outgoing, TimeLimits } from '../upstream/connection.ts'
import type { ResponseHead } from '../upstream/response-head.ts'

export interface ProbeRhythm {
  /** How often to look for targets that are due. */
  readonly tickMs: number
  readonly openMs: number
  readonly idleMs: number
  readonly metricsMs: number
  /** Minimum time between two checks: somebody may pay for each. */
  readonly checkMs: number
}

export const defaultRhythm: ProbeRhythm = {
  tickMs: 500,
  openMs: 1_000,
  idleMs: 15_000,
  metricsMs: 3_000,
  checkMs: 2_000,
}

const limits: TimeLimits = { connectMs: 2_000, firstByteMs: 3_000, betweenBytesMs: 2_000, totalMs: 5_000 }
/** One lost probe is an accident. */
const DEAD_AFTER_PROBES = 2
const MAX_RUNNING = 64
const MAX_METRICS_BYTES = 2_097_152

/** The prober's state of a target. */
interface Watch {
  healthAt: number
  metricsAt: number
  checkAt: number
  check: Probe | undefined
  health: Probe | undefined
  metrics: Probe | undefined
  deadProbes: number
  /** Answered 404 before. */
  hasNoHealthPage: boolean
}

export class Prober {
  readonly #targets: ReadonlyMap<string, Target>
  readonly #rhythm: ProbeRhythm
  readonly #watches = new WeakMap<Target, Watch>()
  readonly #underWay = new Set<Probe>()
  readonly #timer: NodeJS.Timeout

  constructor(targets: ReadonlyMap<string, Target>, rhythm: ProbeRhythm) {
    this.#targets = targets
    this.#rhythm = rhythm
    this.#timer = setInterval(() => this.#probeAll(), rhythm.tickMs).unref()
  }

  close(): void {
    clearInterval(this.#timer)
    for (const probe of this.#underWay) probe.connection?.cancel()
    this.#underWay.clear()
  }

  #probeAll(): void {
    const now = performance.now()
    for (const target of this.#targets.values()) {
      if (target.isInUse && this.#underWay.size < MAX_RUNNING) this.#probeTarget(target, now)
    }
  }

  #probeTarget(target: Target, now: number): void {
    const watch = this.#watchOf(target, now)
    if (target.deployment.readsMetrics && watch.metrics === undefined && now >= watch.metricsAt) {
      watch.metricsAt = now + this.#rhythm.metricsMs
      watch.metrics = this.#ask(target, '/metrics', (status, body) => {
        watch.metrics = undefined
        const load = status === 200 ? parseLoad(body) : undefined
        if (load !== undefined) target.setLoad(load, performance.now())
      })
    }
    if (target.breaker.needsCheck(now)) this.check(target)
    const isOpen = target.breaker.state(now) !== 'closed'
    const isIdle = target.inFlight === 0 && now - target.lastUsedAt >= this.#rhythm.idleMs
    if (watch.health !== undefined || now < watch.healthAt || !(isOpen || isIdle)) return
    watch.healthAt = now + (isOpen ? this.#rhythm.openMs : this.#rhythm.idleMs)
    this.#askHealth(target, watch)
  }

  /** Sends a request of our own, now or as soon as there is a free slot. */
  check(target: Target): void {
    const now = performance.now()
    const watch = this.#watchOf(target, now)
    if (watch.check !== undefined || now < watch.checkAt || !target.isInUse) return
    const { deployment } = target
    target.isCheckWaiting = target.slots.inFlight >= deployment.concurrency
    if (target.isCheckWaiting) return
    watch.checkAt = now + this.#rhythm.checkMs
    target.begin()
    const request = checkRequestOf(target.modelKind, deployment)
    const probe = this.#send(
      target,
      { head: target.headOf(request), body: request.body, limits: deployment },
      (status) => {
        watch.check = undefined
        target.end()
        target.breaker.checked(isHealthyStatus(status), probe.isUnreachable, performance.now())
      },
    )
    watch.check = probe
  }

  #watchOf(target: Target, now: number): Watch {
    const known = this.#watches.get(target)
    if (known !== undefined) return known
    const watch: Watch = {
      healthAt: now,
      metricsAt: now,
      checkAt: now,
      check: undefined,
      health: undefined,
      metrics: undefined,
      deadProbes: 0,
      hasNoHealthPage: false,
    }
    this.#watches.set(target, watch)
    return watch
  }

  #askHealth(target: Target, watch: Watch): void {
    watch.health = this.#ask(target, watch.hasNoHealthPage ? '/v1/models' : '/health', (status) => {
      watch.health = undefined
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

  #ask(target: Target, path: string, done: (status: number | undefined, body: string) => void): Probe {
    return this.#send(target, { head: target.probeHeadOf(path), body: [], limits }, done)
  }

  #send(target: Target, message: Outgoing, done: (status: number | undefined, body: string) => void): Probe {
    const probe = new Probe((status, body) => {
      this.#underWay.delete(probe)
      done(status, body)
    })
    this.#underWay.add(probe)
    target.pool.send(probe, message)
    return probe
  }
}

class Probe implements AnswerSink {
  connection: Connection | undefined
  isUnreachable = false
  readonly #done: (status: number | undefined, body: string) => void
  readonly #chunks: Buffer[] = []
  #bytes = 0
  #status: number | undefined

  constructor(done: (status: number | undefined, body: string) => void) {
    this.#done = done
  }

  onHead(head: ResponseHead): void {
    this.#status = head.status
  }

  onData(bytes: Buffer): void {
    this.#bytes += bytes.length
    this.#chunks.push(Buffer.from(bytes))
    if (this.#bytes <= MAX_METRICS_BYTES) return
    this.connection?.cancel()
    this.#done(this.#status, '')
  }

  onEnd(): void {
    this.#done(this.#status, Buffer.concat(this.#chunks).toString())
  }

  onFault(kind: FaultKind): void {
    this.isUnreachable = kind === 'connect' || kind === 'connect_timeout'
    this.#done(undefined, '')
  }
}

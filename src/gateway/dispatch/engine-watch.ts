/**
 * Watches engines: reads their load from `/metrics` and the limits that they state, and adjusts the number of calls
 * that each may have. It looks once a second while calls wait for the engine, otherwise every three seconds. An engine
 * without metrics is asked again once a minute; meanwhile its limit is learned from its output. A scheduler can be
 * stuck while its health page says that all is well, so an engine that produces nothing for half a minute, although
 * calls wait in it, is checked.
 */
import { checkRequestOf, isHealthyStatus } from './engine-check.ts'
import { factsPages, readFacts } from './engine-facts.ts'
import { readEngineMetrics, type EngineMetrics, type EngineName } from './engine-metrics.ts'
import type { ProbeRhythm } from './probe.ts'
import type { Probes } from './probe-request.ts'
import type { Target } from './routing-target.ts'
import type { Slots } from './slots.ts'

/** The calls of other processes of this gateway at an engine. */
export interface OutsideCalls {
  readonly inFlight: number
  readonly output: number
  readonly refusals: number
}

export interface EngineWatchPorts {
  readonly probes: Probes
  readonly rhythm: ProbeRhythm
  /** false: another process learns the limit, and this one only reads the load. */
  readonly learns: boolean
  readonly outsideCalls: (deploymentId: string) => OutsideCalls
  /** Whether calls wait for this engine, in any process of this gateway. */
  readonly hasWaiting: (slots: Slots) => boolean
  /** Called when a limit has changed. */
  readonly learned: (slots: Slots) => void
}

interface Watch {
  dueAt: number
  /** The next time to read metrics, later if the engine has shown none. */
  metricsAt: number
  isReading: boolean
  hasAskedFacts: boolean
  /** The output at the last look, and the time since which it has not grown although there are calls. */
  output: number
  silentSince: number
  isChecking: boolean
}

export class EngineWatch {
  readonly #ports: EngineWatchPorts
  readonly #watches = new WeakMap<Slots, Watch>()

  constructor(ports: EngineWatchPorts) {
    this.#ports = ports
  }

  /** Looks at the engine of a target. One of its targets stands for all. */
  look(target: Target, now: number): void {
    const { rhythm, hasWaiting } = this.#ports
    const watch = this.#watchOf(target.slots)
    if (watch.isReading || now < watch.dueAt) return
    const isWaiting = hasWaiting(target.slots)
    watch.dueAt = now + (isWaiting ? rhythm.waitingMetricsMs : rhythm.metricsMs)
    if (target.deployment.protocol !== 'chat' || now < watch.metricsAt) return this.#learn(target, undefined)
    watch.isReading = true
    this.#ports.probes.get(target, '/metrics', ({ status, body }) => {
      watch.isReading = false
      const metrics = status === 200 ? readEngineMetrics(body) : undefined
      // An engine that had metrics before may only be busy or restarting.
      if (metrics === undefined && status !== undefined && !target.slots.isLearningFromMetrics) {
        watch.metricsAt = performance.now() + rhythm.noMetricsMs
      }
      if (metrics !== undefined || status !== undefined) this.#askFacts(target, watch, metrics?.engine)
      // After a gap, another engine may be at the address.
      if (status === undefined) watch.hasAskedFacts = false
      this.#learn(target, metrics)
      if (this.#ports.learns) this.#findStuck(target, watch, metrics)
    })
  }

  #findStuck(target: Target, watch: Watch, metrics: EngineMetrics | undefined): void {
    const { slots, deployment } = target
    const { rhythm, outsideCalls } = this.#ports
    const now = performance.now()
    const outside = outsideCalls(deployment.id)
    const output = slots.output + outside.output
    if (output !== watch.output || slots.inFlight + outside.inFlight === 0) watch.silentSince = now
    watch.output = output
    const isSuspect = now - watch.silentSince >= rhythm.stuckMs && (metrics?.load.waiting ?? 0) > 0
    if (isSuspect || slots.isStuck) this.#checkStuck(target, watch)
  }

  /** Sends a request of our own, beyond the limit: a stuck engine never frees a slot. */
  #checkStuck(target: Target, watch: Watch): void {
    if (watch.isChecking) return
    watch.isChecking = true
    const ms = this.#ports.rhythm.stuckCheckMs
    const limits = { connectMs: ms, firstByteMs: ms, betweenBytesMs: ms, totalMs: ms }
    const request = checkRequestOf(target.modelKind, target.deployment)
    this.#ports.probes.send(target, { head: target.headOf(request), body: request.body, limits }, ({ status }) => {
      watch.isChecking = false
      target.slots.isStuck = !isHealthyStatus(status)
      if (!target.slots.isStuck) watch.silentSince = performance.now()
      this.#ports.learned(target.slots)
    })
  }

  #watchOf(slots: Slots): Watch {
    const existingWatch = this.#watches.get(slots)
    if (existingWatch !== undefined) return existingWatch
    const watch: Watch = {
      dueAt: 0,
      metricsAt: 0,
      isReading: false,
      hasAskedFacts: false,
      output: 0,
      silentSince: 0,
      isChecking: false,
    }
    this.#watches.set(slots, watch)
    return watch
  }

  #learn(target: Target, metrics: EngineMetrics | undefined): void {
    const { slots } = target
    const now = performance.now()
    const outside = this.#ports.outsideCalls(target.deployment.id)
    const inFlight = slots.inFlight + outside.inFlight
    if (metrics !== undefined) {
      slots.setLoad(metrics.load, inFlight, now)
      slots.adapters = metrics.adapters
      slots.kvTokens = metrics.kvTokens
    }
    if (!this.#ports.learns) return
    const before = slots.limit
    slots.learn(
      {
        atMs: now,
        load: metrics?.load ?? null,
        inFlight,
        isWaiting: this.#ports.hasWaiting(slots),
        output: slots.output + outside.output,
        refusals: slots.refusals + outside.refusals,
        meanTokens: slots.meanTokens,
      },
      target.deployment.concurrency,
    )
    if (slots.limit !== before) this.#ports.learned(slots)
  }

  #askFacts(target: Target, watch: Watch, engine: EngineName | undefined): void {
    if (watch.hasAskedFacts || !this.#ports.learns) return
    watch.hasAskedFacts = true
    const pages = factsPages(engine)
    const ask = (n: number): void => {
      const page = pages[n]
      if (page === undefined) return
      this.#ports.probes.get(target, page.path, ({ status, body }) => {
        const stated = status === 200 ? readFacts(page, body) : undefined
        if (stated === undefined) return ask(n + 1)
        target.slots.stated = stated
      })
    }
    ask(0)
  }
}

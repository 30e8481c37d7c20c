/**
 * Sends calls to engines. It gets the complete catalog after each change: weights, drains and additions apply to the
 * next and the waiting calls; calls in flight stay where they are. The state of a deployment (breaker, connections,
 * calls in flight) is kept by its id.
 */
import { randomInt } from 'node:crypto'
import type { LookupFunction } from 'node:net'
import type { Catalog, Deployment, ServedModel } from '../catalog.ts'
import { DispatchedCall } from './dispatch-call.ts'
import { DispatchModel, ModelGroup, type ModelStats } from './dispatch-model.ts'
import type { QueueLimits } from './fair-queue.ts'
import { EngineWatch, type OutsideCalls } from './engine-watch.ts'
import { defaultRhythm, Prober, type ProbeRhythm } from './probe.ts'
import { Probes } from './probe-request.ts'
import { Target, type TargetStats } from './routing-target.ts'
import { Slots } from './slots.ts'
import type { Dispatcher, UpstreamCall, UpstreamHandle, UpstreamSink } from '../upstream/upstream-call.ts'
import type { SocketOptions } from '../upstream/connection.ts'
import { Pools } from '../upstream/pool.ts'
import { Ticker } from '../upstream/ticker.ts'

export interface DispatcherOptions {
  /** Resolves host names and rejects forbidden addresses. undefined: the system resolver. */
  readonly lookup?: LookupFunction
  /** Trusted certificates that replace the system's. */
  readonly ca?: string
  /** Reaches ports of rented machines. */
  readonly dial?: SocketOptions['dial']
  /** Called when a request waits for a model that has nothing running. */
  readonly onWaiting?: (model: string) => void
  /** Other processes that share the limits of this one. undefined: none. */
  readonly others?: () => readonly DispatcherStats[]
  /** false: another process learns the limits, and the catalog contains this process's share. */
  readonly learns?: boolean
  /** A limit has changed. */
  readonly onLimit?: () => void
  readonly queue?: Partial<QueueLimits>
  /** The maximum wait of a request for text. A request that would wait longer is refused at once. */
  readonly firstTokenMs?: number
  readonly probe?: Partial<ProbeRhythm>
  /** Returns a number from 0 up to 1. */
  readonly random?: () => number
}

export interface DispatcherStats {
  readonly deployments: readonly TargetStats[]
  readonly models: readonly ModelStats[]
}

export interface RunningDispatcher extends Dispatcher {
  setCatalog(catalog: Catalog): void
  stats(): DispatcherStats
  /** Returns how many calls for idle slots only could start now. */
  idlePlaces(model: string): number
  /** Reports that a model with nothing running is wanted. */
  wake(model: string): void
  /** The current limit of a deployment, over all processes of the gateway. */
  limitOf(deploymentId: string): number | undefined
  /** Calls in flight fail with `broken`. */
  close(): Promise<void>
}

/** Limits per model. */
const queueLimits: QueueLimits = { calls: 10_000, callsPerAccount: 2_048, waitMs: 30_000, unreadMs: 5_000 }
/** An image takes seconds to minutes, so even a short queue is a long wait; clients of images expect one. */
const IMAGE_WAIT_MS = 600_000

export function makeDispatcher(options: DispatcherOptions = {}): RunningDispatcher {
  return new Dispatching(options)
}

class Dispatching implements RunningDispatcher {
  readonly #ticker = new Ticker()
  readonly #pools: Pools
  readonly #limits: QueueLimits
  readonly #imageLimits: QueueLimits
  readonly #random: () => number
  readonly #onWaiting: DispatcherOptions['onWaiting']
  readonly #others: () => readonly DispatcherStats[]
  readonly #learns: boolean
  readonly #probes = new Probes()
  readonly #prober: Prober
  readonly #watch: EngineWatch
  readonly #probing: NodeJS.Timeout
  readonly #models = new Map<string, DispatchModel>()
  readonly #targets = new Map<string, Target>()
  readonly #unknownModel: DispatchModel

  constructor(options: DispatcherOptions) {
    this.#pools = new Pools(this.#ticker, { lookup: options.lookup, ca: options.ca, dial: options.dial })
    const { firstTokenMs = queueLimits.waitMs } = options
    this.#limits = { ...queueLimits, waitMs: firstTokenMs, ...options.queue }
    this.#imageLimits = { ...queueLimits, waitMs: IMAGE_WAIT_MS, ...options.queue }
    this.#random = options.random ?? (() => randomInt(2 ** 32) / 2 ** 32)
    this.#onWaiting = options.onWaiting
    this.#unknownModel = new DispatchModel('', this.#limits, this.#ticker)
    this.#others = options.others ?? (() => [])
    this.#learns = options.learns ?? true
    const rhythm = { ...defaultRhythm, ...options.probe }
    this.#prober = new Prober(this.#probes, rhythm)
    this.#watch = new EngineWatch({
      probes: this.#probes,
      rhythm,
      learns: this.#learns,
      outsideCalls: (id) => this.#outsideCalls(id),
      hasWaiting: (slots) => this.#hasWaiting(slots),
      learned: (slots) => {
        options.onLimit?.()
        const now = performance.now()
        for (const model of this.#models.values()) if (uses(model, slots)) model.serve(now)
      },
    })
    this.#probing = setInterval(() => this.#probeAll(), rhythm.tickMs).unref()
  }

  send(call: UpstreamCall, sink: UpstreamSink): UpstreamHandle {
    const one = new DispatchedCall(this.#models.get(call.model.name) ?? this.#unknownModel, call, sink)
    one.route(performance.now())
    // Only a call that must wait for a start is urgent, not one that waits for a busy replica.
    if (one.isWaiting && call.model.startsOnDemand !== undefined) this.#onWaiting?.(call.model.name)
    return one
  }

  setCatalog(catalog: Catalog): void {
    const now = performance.now()
    for (const [name, model] of this.#models) {
      if (catalog.has(name)) continue
      this.#models.delete(name)
      model.targets = []
      model.dismiss('the model is no longer served')
    }
    for (const served of catalog.values()) this.#setModel(served)
    this.#setGroups(catalog)
    this.#dropUnused()
    this.#pools.keepOnly(new Set([...this.#targets.values()].map(({ pool }) => pool)))
    for (const model of this.#models.values()) model.serve(now)
  }

  stats(): DispatcherStats {
    this.#dropUnused()
    const now = performance.now()
    return {
      deployments: [...this.#targets.values()].map((target) => target.statsAt(now)),
      models: [...this.#models.values()].map((model) => model.stats()),
    }
  }

  idlePlaces(model: string): number {
    return this.#models.get(model)?.idlePlaces(performance.now()) ?? 0
  }

  wake(model: string): void {
    this.#onWaiting?.(model)
  }

  limitOf(deploymentId: string): number | undefined {
    for (const target of this.#targets.values()) if (target.deployment.id === deploymentId) return target.wholeLimit
    return undefined
  }

  async close(): Promise<void> {
    clearInterval(this.#probing)
    this.#probes.close()
    for (const model of this.#models.values()) {
      model.targets = []
      model.dismiss('the gateway is shutting down')
    }
    this.#models.clear()
    await this.#pools.close()
    this.#ticker.close()
  }

  #setModel(served: ServedModel): void {
    const usual = served.kind === 'image' ? this.#imageLimits : this.#limits
    const { startsOnDemand } = served
    const limits = startsOnDemand === undefined ? usual : { ...usual, waitMs: startsOnDemand.waitMs }
    const model = this.#models.get(served.name) ?? new DispatchModel(served.name, limits, this.#ticker)
    model.setLimits(limits, startsOnDemand !== undefined)
    this.#models.set(served.name, model)
    const turns = model.targets.map(({ turn }) => turn)
    model.targets = served.deployments.map((deployment) => {
      const key = `${served.name} ${deployment.id}`
      const pool = this.#pools.of(deployment.address)
      const target =
        this.#targets.get(key) ?? new Target(served, deployment, pool, this.#random, this.#slotsOf(served, deployment))
      target.onSuspect ??= () => this.#prober.check(target)
      this.#targets.set(key, target)
      target.deployment = deployment
      target.pool = pool
      target.isInUse = !deployment.drained && deployment.weight > 0
      return target
    })
    // A new deployment starts level with the others. Otherwise it would get every call until it has caught up.
    const least = turns.length === 0 ? 0 : Math.min(...turns)
    for (const target of model.targets) target.turn = Math.max(target.turn, least)
  }

  #setGroups(catalog: Catalog): void {
    const groups = new Map<string, DispatchModel[]>()
    for (const { name, adapterOf = name } of catalog.values()) {
      const model = this.#models.get(name)
      if (model === undefined) continue
      const group = groups.get(adapterOf)
      if (group === undefined) groups.set(adapterOf, [model])
      else group.push(model)
    }
    for (const models of groups.values()) {
      const group = new ModelGroup(models)
      for (const model of models) model.group = group
    }
  }

  /** An adapter shares the slots of its base model, where the same replica serves both. */
  #slotsOf({ name, adapterOf = name }: ServedModel, { id }: Deployment): Slots {
    for (const target of this.#targets.values()) {
      if (target.base === adapterOf && target.deployment.id === id) return target.slots
    }
    return new Slots()
  }

  #probeAll(): void {
    const now = performance.now()
    const engines = new Set<Slots>()
    for (const target of this.#targets.values()) {
      if (!target.isInUse || this.#probes.isFull) continue
      this.#prober.probe(target, now)
      if (engines.has(target.slots)) continue
      engines.add(target.slots)
      // A process that does not learn needs the load only to choose between engines.
      if (this.#learns || (this.#models.get(target.model)?.targets.length ?? 0) > 1) this.#watch.look(target, now)
    }
  }

  #outsideCalls(id: string): OutsideCalls {
    const calls = { inFlight: 0, output: 0, refusals: 0 }
    for (const { deployments } of this.#others()) {
      for (const one of deployments) {
        if (one.id !== id) continue
        calls.inFlight += one.inFlight
        calls.output += one.output
        calls.refusals += one.refusals
      }
    }
    return calls
  }

  #hasWaiting(slots: Slots): boolean {
    for (const model of this.#models.values()) {
      if (!uses(model, slots)) continue
      if (model.queued > 0) return true
      const isQueued = (one: ModelStats): boolean => one.model === model.name && one.queued > 0
      if (this.#others().some(({ models }) => models.some(isQueued))) return true
    }
    return false
  }

  /** Drops deployments that are no longer in the catalog, once they have finished. */
  #dropUnused(): void {
    const targetsInUse = new Set([...this.#models.values()].flatMap(({ targets }) => targets))
    for (const [key, target] of this.#targets) {
      if (targetsInUse.has(target)) continue
      target.isInUse = false
      if (target.inFlight === 0) this.#targets.delete(key)
    }
  }
}

function uses({ targets }: DispatchModel, slots: Slots): boolean {
  return targets.some((target) => target.slots === slots)
}

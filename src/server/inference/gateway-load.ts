/**
 * Tells the other servers how busy this gateway is with each model that has replicas. Counts come from the dispatcher,
 * sampled several times a second, so that short requests count with their share of time. A row is written when it
 * changes, at most once a second, and again every few seconds while there is something to tell; a request for a model
 * with nothing running is written at once.
 */
import { isDeepStrictEqual } from 'node:util'
import { SECOND_MS, type Clock, type Instant } from '../../base/instant.ts'
import type { Catalog } from '../../gateway/catalog.ts'
import type { DispatcherStats } from '../../gateway/dispatch/dispatch.ts'
import type { Database } from '../../store/platform/database.ts'
import { SERVE_WAKE } from '../../store/serving/managed-deployment.ts'
import type { Log } from '../../store/platform/listener.ts'
import { writeLoad, type GatewayLoad } from '../../store/serving/replica.ts'

const SAMPLE_MS = 200
const WRITE_MS = SECOND_MS
/** Well below the age at which the loop `serve` ignores a row. */
const REPEAT_MS = 2 * SECOND_MS

export interface GatewayLoadOptions {
  readonly database: Database
  readonly clock: Clock
  readonly gatewayId: string
  readonly stats: () => DispatcherStats
  readonly log: Log
}

export interface GatewayLoadReporter {
  setCatalog(catalog: Catalog): void
  /** A request waits for this model. */
  waiting(model: string): void
  close(): Promise<void>
}

interface Watched {
  samples: number
  sum: number
  requests: number
  activeAt: Instant | null
  written: GatewayLoad | undefined
  writtenMs: number
}

export function reportGatewayLoad(options: GatewayLoadOptions): GatewayLoadReporter {
  return new Reporter(options)
}

class Reporter implements GatewayLoadReporter {
  readonly #options: GatewayLoadOptions
  readonly #models = new Map<string, Watched>()
  readonly #timer: NodeJS.Timeout
  #catalog: Catalog = new Map()
  #writing: Promise<void> | undefined
  #isUrgent = false
  #writtenMs = 0
  #hasFailed = false

  constructor(options: GatewayLoadOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MS).unref()
  }

  setCatalog(catalog: Catalog): void {
    this.#catalog = catalog
    for (const name of this.#models.keys()) if (!isWatched(catalog, name)) this.#models.delete(name)
    for (const name of catalog.keys()) {
      if (isWatched(catalog, name) && !this.#models.has(name)) {
        const none = { samples: 0, sum: 0, requests: 0, activeAt: null, written: undefined, writtenMs: 0 }
        this.#models.set(name, none)
      }
    }
    // Confirms a drain without delay.
    this.#write()
  }

  waiting(model: string): void {
    const watched = this.#models.get(this.#catalog.get(model)?.adapterOf ?? model)
    if (watched === undefined) return
    watched.activeAt = this.#options.clock.now()
    if (watched.written === undefined || watched.written.current === 0) this.#write()
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    this.#isUrgent = false
    await this.#writing
  }

  #sample(): void {
    if (this.#models.size === 0) return
    const stats = this.#options.stats()
    for (const [name, watched] of this.#models) {
      const { current, requests } = countOf(stats, name, this.#catalog)
      watched.samples += 1
      watched.sum += current
      if (current > 0 || requests !== watched.requests) watched.activeAt = this.#options.clock.now()
      watched.requests = requests
    }
    if (performance.now() - this.#writtenMs >= WRITE_MS) this.#write()
  }

  #write(): void {
    if (this.#writing !== undefined) return void (this.#isUrgent = true)
    this.#writtenMs = performance.now()
    const due = this.#takeDue()
    if (due.length === 0) return
    this.#writing = this.#send(due).finally(() => {
      this.#writing = undefined
      if (!this.#isUrgent) return
      this.#isUrgent = false
      this.#write()
    })
  }

  #takeDue(): GatewayLoad[] {
    const stats = this.#options.stats()
    return [...this.#models].flatMap(([model, watched]) => {
      const load = loadOf(model, watched, stats, this.#catalog)
      watched.samples = 0
      watched.sum = 0
      if (!isDue(load, watched)) return []
      watched.written = load
      watched.writtenMs = this.#writtenMs
      return [load]
    })
  }

  async #send(loads: readonly GatewayLoad[]): Promise<void> {
    const { database, clock, gatewayId, log } = this.#options
    try {
      await writeLoad(database.db, gatewayId, loads, clock.now())
      this.#hasFailed = false
      database.onCommit(new Set([SERVE_WAKE]))
    } catch (error) {
      // The next write has newer counts anyway. Logged once per outage.
      if (!this.#hasFailed) log.warn({ err: error }, 'could not report the load of this gateway')
      this.#hasFailed = true
      for (const { model } of loads) {
        const watched = this.#models.get(model)
        if (watched !== undefined) watched.written = undefined
      }
    }
  }
}

/** An adapter counts with its base model. */
function isWatched(catalog: Catalog, name: string): boolean {
  const model = catalog.get(name)
  if (model?.adapterOf !== undefined) return false
  return model?.startsOnDemand !== undefined || model?.deployments.some(isReplica) === true
}

function isReplica({ address }: { readonly address: { readonly kind: string } }): boolean {
  return address.kind === 'link'
}

function countOf(
  { deployments, models }: DispatcherStats,
  name: string,
  catalog: Catalog,
): { current: number; requests: number } {
  const isOwn = ({ model }: { readonly model: string }): boolean =>
    model === name || catalog.get(model)?.adapterOf === name
  const ownDeployments = deployments.filter(isOwn)
  const queued = models.filter(isOwn).reduce((sum, one) => sum + one.queued, 0)
  return {
    current: ownDeployments.reduce((sum, { inFlight }) => sum + inFlight, queued),
    requests: ownDeployments.reduce((sum, { requests }) => sum + requests, 0),
  }
}

function loadOf(model: string, watched: Watched, stats: DispatcherStats, catalog: Catalog): GatewayLoad {
  const { current } = countOf(stats, model, catalog)
  const replicas = (catalog.get(model)?.deployments ?? []).filter(isReplica).map(({ id, drained }) => {
    const matching = stats.deployments.filter((one) => one.id === id)
    const inFlight = matching.reduce((sum, one) => sum + one.inFlight, 0)
    const target = matching.map(({ autoTarget }) => ({ target: Math.max(1, Math.round(autoTarget)) }))[0]
    const stuck = matching.some(({ isStuck }) => isStuck) ? { isStuck: true as const } : {}
    return [id, { inFlight, isUnrouted: drained, ...target, ...stuck }] as const
  })
  const average = watched.samples === 0 ? current : watched.sum / watched.samples
  return {
    model,
    outstanding: Math.round(average * 100) / 100,
    current,
    replicas: Object.fromEntries(replicas),
    activeAt: watched.activeAt,
  }
}

/** While nothing happens, nothing is written. */
function isDue(load: GatewayLoad, { written, writtenMs }: Watched): boolean {
  if (written === undefined || !isDeepStrictEqual(load, written)) return true
  const isBusy = load.current > 0 || Object.values(load.replicas).some(({ isUnrouted }) => isUnrouted)
  return isBusy && performance.now() - writtenMs >= REPEAT_MS
}

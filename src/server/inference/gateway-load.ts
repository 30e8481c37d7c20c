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
  const { database, clock, gatewayId, log } = options
  const models = new Map<string, Watched>()
  let catalog: Catalog = new Map()
  let writing: Promise<void> | undefined
  let isUrgent = false
  let writtenMs = 0
  let hasFailed = false

  const sample = (): void => {
    if (models.size === 0) return
    const stats = options.stats()
    for (const [name, watched] of models) {
      const { current, requests } = countOf(stats, name, catalog)
      watched.samples += 1
      watched.sum += current
      if (current > 0 || requests !== watched.requests) watched.activeAt = clock.now()
      watched.requests = requests
    }
    if (performance.now() - writtenMs >= WRITE_MS) write()
  }

  const write = (): void => {
    if (writing !== undefined) return void (isUrgent = true)
    writtenMs = performance.now()
    const stats = options.stats()
    const due = [...models].flatMap(([model, watched]) => {
      const load = loadOf(model, watched, stats, catalog)
      watched.samples = 0
      watched.sum = 0
      if (!isDue(load, watched)) return []
      watched.written = load
      watched.writtenMs = writtenMs
      return [load]
    })
    if (due.length === 0) return
    writing = send(due).finally(() => {
      writing = undefined
      if (!isUrgent) return
      isUrgent = false
      write()
    })
  }

  const send = async (loads: readonly GatewayLoad[]): Promise<void> => {
    try {
      await writeLoad(database.db, gatewayId, loads, clock.now())
      hasFailed = false
      database.onCommit(new Set([SERVE_WAKE]))
    } catch (error) {
      // The next write has newer counts anyway. Logged once per outage.
      if (!hasFailed) log.warn({ err: error }, 'could not report the load of this gateway')
      hasFailed = true
      for (const { model } of loads) {
        const watched = models.get(model)
        if (watched !== undefined) watched.written = undefined
      }
    }
  }
  const timer = setInterval(sample, SAMPLE_MS).unref()

  return {
    setCatalog: (next) => {
      catalog = next
      for (const name of models.keys()) if (!isWatched(next, name)) models.delete(name)
      for (const name of next.keys()) {
        if (isWatched(next, name) && !models.has(name)) {
          models.set(name, { samples: 0, sum: 0, requests: 0, activeAt: null, written: undefined, writtenMs: 0 })
        }
      }
      // Confirms a drain without delay.
      write()
    },
    waiting: (model) => {
      const watched = models.get(catalog.get(model)?.adapterOf ?? model)
      if (watched === undefined) return
      watched.activeAt = clock.now()
      if (watched.written === undefined || watched.written.current === 0) write()
    },
    close: async () => {
      clearInterval(timer)
      isUrgent = false
      await writing
    },
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
  const own = deployments.filter(isOwn)
  const queued = models.filter(isOwn).reduce((sum, one) => sum + one.queued, 0)
  return {
    current: own.reduce((sum, { inFlight }) => sum + inFlight, queued),
    requests: own.reduce((sum, { requests }) => sum + requests, 0),
  }
}

function loadOf(model: string, watched: Watched, stats: DispatcherStats, catalog: Catalog): GatewayLoad {
  const { current } = countOf(stats, model, catalog)
  const replicas = (catalog.get(model)?.deployments ?? []).filter(isReplica).map(({ id, drained }) => {
    const inFlight = stats.deployments.reduce((sum, one) => sum + (one.id === id ? one.inFlight : 0), 0)
    return [id, { inFlight, isUnrouted: drained }] as const
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

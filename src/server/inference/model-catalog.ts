/**
 * The models that this server serves: the registry, read completely whenever it may have changed, and the state of its
 * own engines. Notifications announce changes; if some may have been missed, the registry is read again. While the
 * database is down, the last known state is served.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Vault } from '../../base/vault.ts'
import type { LocalModelState } from '../../contract/model.ts'
import type { Catalog } from '../../gateway/catalog.ts'
import type { LocalEngines, LocalModel } from '../../engines/process/local-engine.ts'
import type { Database } from '../../store/platform/database.ts'
import { MODELS_CHANNEL, readRegistry, type ModelWithDeployments } from '../../store/model/model.ts'
import type { Log } from '../../store/platform/listener.ts'
import { localStateOnWire, servedModel } from './model-catalog-entry.ts'

/** How often to check that notifications arrive. */
const TICK_MS = 250
/** How often the registry is read while they do not, or after a failed read. */
const UNSURE_MS = 1_000
/** How often it is read regardless. */
const RELOAD_MS = 30_000
/** How often it is read for unknown names at most, whoever asks for how many: clients choose names. */
const REFRESH_MS = 500

export interface ModelCatalogOptions {
  readonly database: Database
  readonly vault: Vault
  /** undefined: this server runs no engines. */
  readonly engines: LocalEngines | undefined
  readonly log: Log
  /** Called with the complete catalog after every change. */
  readonly onChange: (catalog: Catalog) => void
}

export interface ModelCatalog {
  /** Resolves after the first read. */
  readonly loaded: Promise<void>
  /** undefined: this server does not run the model. */
  localState(model: string): LocalModelState | undefined
  /** Starts a model that waits for its first request. */
  wake(model: string): void
  /** Resolves after a read that began after this call, whether it succeeded or not. Callers share reads. */
  readonly refresh: () => Promise<void>
  close(): Promise<void>
}

export function makeModelCatalog(options: ModelCatalogOptions): ModelCatalog {
  const { database, vault, engines, log, onChange } = options
  let registry: readonly ModelWithDeployments[] = []
  let locals: readonly LocalModel[] = []
  let catalog: Catalog | undefined
  let closed = false
  let whenLoaded = (): void => {}
  const loaded = new Promise<void>((resolve) => (whenLoaded = resolve))
  const ports = { open: (sealed: string) => vault.open(sealed), unopened: warnOnce(log) }
  const publish = (): void => {
    const served = registry.filter(({ enabled }) => enabled)
    const next = new Map(served.map((model) => [model.name, servedModel(model, engines?.stateOf(model.name), ports)]))
    if (isDeepStrictEqual(next, catalog)) return
    catalog = next
    onChange(next)
  }
  const runLocals = (): void => {
    const desired = localModels(registry)
    if (isDeepStrictEqual(desired, locals)) return
    locals = desired
    engines?.setModels(desired)
  }
  const reader = makeReader(async () => {
    const read = await readRegistry(database.db)
    if (closed) return
    const gone = registry.filter(({ name }) => !read.some((model) => model.name === name))
    registry = read
    runLocals()
    for (const { name } of gone) {
      engines
        ?.forget(name)
        .catch((error: unknown) => log.warn({ err: error, model: name }, 'could not delete model files'))
    }
    publish()
    whenLoaded()
  }, log)
  engines?.onChange(() => {
    // Before the first read, no model is known.
    if (!closed && catalog !== undefined) publish()
  })

  const watch = readOnChanges(database, reader)
  const refresh = shareReads(async () => {
    if (!closed) await reader.readNow()
  })

  return {
    loaded,
    refresh,
    wake: (model) => engines?.wake(model),
    localState: (model) => {
      const state = engines?.stateOf(model)
      return state === undefined ? undefined : localStateOnWire(state)
    },
    close: async () => {
      closed = true
      watch.stop()
      await reader.settled()
    },
  }
}

/** Reads now, on every notification, and by the clock, more often while notifications may be missed. */
function readOnChanges(database: Database, reader: ReturnType<typeof makeReader>): { stop: () => void } {
  const listener = database.notifications.listen({
    channel: MODELS_CHANNEL,
    onNotification: reader.read,
    onGap: () => {},
  })
  let wasTrusted = false
  const timer = setInterval(() => {
    const isTrusted = listener.isTrusted()
    const isRegained = isTrusted && !wasTrusted
    wasTrusted = isTrusted
    if (isRegained || reader.idleMs() >= (isTrusted && !reader.hasFailed() ? RELOAD_MS : UNSURE_MS)) reader.read()
  }, TICK_MS).unref()
  reader.read()
  return {
    stop: () => {
      clearInterval(timer)
      listener.close()
    },
  }
}

/** Logged once, not at every read. */
function warnOnce(log: Log): (deployment: string) => void {
  const warned = new Set<string>()
  return (deployment) => {
    if (!warned.has(deployment)) log.warn({ deployment }, 'could not decrypt the key of a deployment; it is not used')
    warned.add(deployment)
  }
}

/** Callers share a read that begins after their call, with a pause between two of them. */
function shareReads(read: () => Promise<void>): () => Promise<void> {
  let next: Promise<void> | undefined
  let startedMs = -Infinity
  const readNext = async (): Promise<void> => {
    const waitMs = startedMs + REFRESH_MS - performance.now()
    // Also without a pause this takes a turn of the event loop, in which `next` is set.
    await new Promise<void>((resolve) => setTimeout(resolve, Math.max(0, waitMs)).unref())
    // Who asks from now on needs a later read.
    next = undefined
    startedMs = performance.now()
    await read()
  }
  return () => (next ??= readNext())
}

function localModels(registry: readonly ModelWithDeployments[]): LocalModel[] {
  return registry.flatMap(({ name, enabled, engine, files, context_tokens: contextTokens }) =>
    enabled && engine !== null ? [{ name, engine, files, contextTokens }] : [],
  )
}

/** One read at a time. Requests during a read cause one more, since the current one may be too old. */
function makeReader(work: () => Promise<void>, log: Log) {
  let underWay: Promise<void> | undefined
  let again = false
  let failed = false
  let endedAt = performance.now()
  const waiting: Array<() => void> = []
  const run = async (): Promise<void> => {
    do {
      again = false
      const served = waiting.splice(0)
      try {
        await work()
        failed = false
      } catch (error) {
        // Logged once per outage.
        if (!failed) log.warn({ err: error }, 'could not read the models; serving the last known ones')
        failed = true
      }
      for (const resolve of served) resolve()
    } while (again)
    endedAt = performance.now()
    underWay = undefined
  }
  const read = (): void => {
    if (underWay === undefined) underWay = run()
    else again = true
  }
  return {
    read,
    /** Resolves after a read that begins now or later. */
    readNow: async (): Promise<void> => {
      const done = new Promise<void>((resolve) => waiting.push(resolve))
      read()
      await done
    },
    hasFailed: (): boolean => failed,
    /** Time since the last read. */
    idleMs: (): number => (underWay === undefined ? performance.now() - endedAt : 0),
    settled: async (): Promise<void> => underWay,
  }
}

/**
 * Wires the gateway: money from the treasury, engines from the registry and from this machine, counters shared with the
 * other servers. Closing runs in reverse: accept nothing new, settle the money, then stop the engines.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { App, ModelStatus } from '../../app/app.ts'
import { makeTreasury } from '../../app/money/treasury.ts'
import { makeLineLimit } from '../../base/net/line-limit.ts'
import type { Metrics } from '../../base/metrics.ts'
import { engineName, type EngineName } from '../../contract/model.ts'
import type { Treasury } from '../../domain/purse.ts'
import type { Catalog } from '../../gateway/catalog.ts'
import { makeDispatcher, type RunningDispatcher } from '../../gateway/dispatch/dispatch.ts'
import { watchRequests } from '../../gateway/gateway-metrics.ts'
import { Gateway } from '../../gateway/gateway.ts'
import { Journal } from '../../gateway/journal/journal.ts'
import { makeMeter, type Meter } from '../../gateway/money/meter.ts'
import { GatewayPlaces } from '../../gateway/dispatch/places.ts'
import { makeEngineHost } from '../../engines/process/engine-host.ts'
import type { LocalEngines } from '../../engines/process/local-engine.ts'
import { makeModelStore } from '../../artifacts/model/model-store.ts'
import { npmRegistry } from '../../artifacts/model/npm-registry.ts'
import { watchGateway } from '../inference/gateway-gauges.ts'
import { reportGatewayLoad } from '../inference/gateway-load.ts'
import { makeSocketFolder, readOrCreateSecret } from '../data/data-folder.ts'
import { makeModelCatalog } from '../inference/model-catalog.ts'
import { makeModelStatus } from '../inference/model-status.ts'
import { openRecalls } from '../inference/money-recall.ts'
import { guardedLookup } from '../../base/net/outbound.ts'
import type { RateLimiter } from '../http/rate-limit.ts'
import { catalogOfServer } from '../workers/worker-catalog.ts'
import { recoverWorkers, type Workers } from '../workers/workers.ts'
import type { Settings } from '../settings.ts'

const COUNT_GATEWAYS_MS = 5_000
/** Log lines for failures of one account at one deployment. */
const MAX_LINES_PER_MINUTE = 10
const GB = 1e9

export interface Inference {
  readonly gateway: Gateway
  readonly meter: Meter
  readonly journal: Journal
  readonly places: GatewayPlaces
  readonly settle: Treasury['settle']
  /** The complete catalog. */
  readonly catalog: () => Catalog
  readonly modelStatus: ModelStatus
  readonly recallMoney: NonNullable<App['recallMoney']>
  /** undefined: this server runs no models. */
  readonly engines: LocalEngines | undefined
}

export interface InferenceOptions {
  readonly app: App
  readonly settings: Settings
  readonly dataDir: string
  readonly log: Logger
  readonly metrics: Metrics
  readonly rates: RateLimiter
  readonly closing: Array<() => Promise<unknown>>
  /** Reaches ports of rented machines. undefined: the host is not connected. */
  readonly dial: NonNullable<App['dialWorkload']>
  /** Once they have started. */
  readonly workers: () => Workers | undefined
}

export async function openInference(options: InferenceOptions): Promise<Inference> {
  const { app, settings, dataDir, log, metrics, closing } = options
  const gatewayId = readOrCreateSecret(dataDir, 'gateway.id', () => `gw-${randomBytes(8).toString('hex')}`)
  const treasury = makeTreasury({ database: app.database, clock: app.clock, gatewayId })
  const journal = new Journal({ dir: path.join(dataDir, 'journal'), log })
  closing.push(() => journal.close())
  const settle: Inference['settle'] = (settlement) => treasury.settle(settlement)
  const meter = makeMeter({
    treasury,
    journal,
    clock: app.clock,
    log,
    seal: (text) => app.vault.seal(text),
    recover: () => recoverWorkers(dataDir, { settle, log }),
  })
  await meter.start()
  closing.push(() => meter.close())
  const recalls = openRecalls({ app, gatewayId, meter, log })
  closing.push(async () => recalls.close())

  const dispatcher: RunningDispatcher = makeDispatcher({
    lookup: guardedLookup(true),
    dial: (address) => {
      const stream = options.dial(address)
      if (stream === undefined) throw new Error('the host is not connected')
      return stream
    },
    onWaiting: (model) => load.waiting(model),
  })
  const load = reportGatewayLoad({
    database: app.database,
    clock: app.clock,
    gatewayId,
    stats: () => dispatcher.stats(),
    log,
  })
  closing.push(() => load.close())
  const engines = openEngines(options)
  closing.push(async () => engines?.close())
  closing.push(() => dispatcher.close())
  // A caller whose requests fail must not fill the log.
  const lines = makeLineLimit({ perMinute: MAX_LINES_PER_MINUTE })
  let live = 1
  const counting = setInterval(() => {
    treasury.liveGateways().then(
      (count) => (live = count),
      // While the database is down, the last count stays.
      (error: unknown) => log.debug({ err: error }, 'could not count the gateways'),
    )
  }, COUNT_GATEWAYS_MS).unref()
  closing.push(async () => clearInterval(counting))

  let whole: Catalog = new Map()
  const places = new GatewayPlaces(() => live)
  const gateway = new Gateway({
    dispatcher,
    meter,
    rates: options.rates,
    clock: app.clock,
    places,
    refreshCatalog: () => catalog.refresh(),
    ended: watchRequests(metrics),
    warn: (failure) => {
      const line = lines.take(`${failure.accountId} ${failure.deployment ?? failure.model}`)
      if (line !== undefined) log.warn({ ...failure, ...line }, 'engine failed')
    },
  })
  const catalog = makeModelCatalog({
    database: app.database,
    vault: app.vault,
    engines,
    log,
    onChange: (models) => {
      whole = models
      const own = settings.workers > 1 ? catalogOfServer(models, settings.workers) : models
      dispatcher.setCatalog(own)
      load.setCatalog(own)
      gateway.setCatalog(own)
      options.workers()?.setCatalog(models)
    },
  })
  closing.push(() => catalog.close())
  await catalog.loaded
  watchGateway(metrics, meter, dispatcher)
  metrics.include(async () => (await options.workers()?.metrics()) ?? [])
  const modelStatus = makeModelStatus(catalog, () => [dispatcher.stats(), ...(options.workers()?.stats() ?? [])])
  return {
    gateway,
    meter,
    journal,
    places,
    settle,
    catalog: () => whole,
    modelStatus,
    recallMoney: recalls.recall,
    engines,
  }
}

function openEngines({ app, settings, dataDir, log, metrics }: InferenceOptions): LocalEngines | undefined {
  if (!settings.localEngines) return undefined
  const store = makeModelStore({
    dir: path.join(dataDir, 'models'),
    limitBytes: settings.modelStoreGb * GB,
    allowPrivate: app.allowPrivateAddresses,
    npmRegistry: npmRegistry({ address: settings.npmRegistry, env: settings.engineEnvironment }),
    hub: settings.modelHub,
    log,
    clock: app.clock,
  })
  const crashes = metrics.counter('berth_engine_crashes_total', 'Crashes of engines on this server')
  const host = makeEngineHost({
    store,
    socketDir: makeSocketFolder(dataDir, 'x'.repeat(18), undefined),
    ...enginePrograms(),
    env: settings.engineEnvironment,
    log,
    onCrash: (model, why) => {
      crashes.add({ model })
      log.error({ model, why }, 'engine exited unexpectedly; restarting it')
    },
  })
  return {
    ...host,
    close: async () => {
      await host.close()
      await store.close()
    },
  }
}

/** Beside the bundle in dist/, or the sources in development. */
function enginePrograms(): { entries: Record<EngineName, string>; execArgv: readonly string[] } {
  const here = path.dirname(fileURLToPath(import.meta.url))
  const entries = (place: (name: string) => string): Record<EngineName, string> => {
    // The stored name of the image engine is older than its folder.
    const all = engineName.options.map((engine) => [engine, place(engine === 'picture' ? 'image' : engine)] as const)
    return Object.fromEntries(all) as Record<EngineName, string>
  }
  const built = entries((name) => path.join(here, `${name}-engine.mjs`))
  if (existsSync(built.llama)) return { entries: built, execArgv: [] }
  return {
    entries: entries((name) => path.join(here, '..', '..', 'engines', name, 'main.ts')),
    execArgv: ['--import', import.meta.resolve('tsx')],
  }
}

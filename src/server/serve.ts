/** Wires a server: database, engines, loops, HTTP. The only place where parts are connected. */
import path from 'node:path'
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import type { App } from '../app/app.ts'
import { makeMetricRecorder, type MetricRecorder } from '../app/rental/metric-recorder.ts'
import { BodyBudget } from '../domain/body-budget.ts'
import { systemClock, type Clock } from '../base/instant.ts'
import { Metrics } from '../base/metrics.ts'
import { ADDRESS_FILE, formatAddress } from '../base/net/server-address.ts'
import { allReconcilers } from '../reconcile/all.ts'
import { inventoryOf } from '../reconcile/inventory.ts'
import { deliverWebhooks } from '../reconcile/deliver-webhooks.ts'
import { startLoops, type Reconciler } from '../reconcile/loop.ts'
import { KEY_WAKE } from '../store/account/api-key.ts'
import { CAPACITY_WAKE } from '../store/machine/machine.ts'
import { PORT_WAKE } from '../store/rental/port.ts'
import { OrderBatches } from '../app/order/order-batch.ts'
import { shareRentalOptions } from '../app/order/rental-option.ts'
import { readDue } from '../store/platform/due-work.ts'
import { openDatabase } from '../store/platform/database.ts'
import { migrate } from '../store/platform/migrate.ts'
import { takeRateSlice } from '../store/request/rate-window.ts'
import { makeAgentBundles } from './install/agent-bundle.ts'
import { addAgentFiles } from './install/agent-files.ts'
import { makeAuthenticator } from './http/authenticate.ts'
import { openBus } from './events/bus.ts'
import { makeDrain, openFastPath } from './http/connections.ts'
import { isDemoTaken, type WelcomeOptions } from './console/console-welcome.ts'
import { writePrivateFile } from './data/data-folder.ts'
import { makeDemoLink } from './console/demo-link.ts'
import { makeEventStreams } from './events/event-stream.ts'
import { ensureDemo, ensureModels, ensureOperator, ensurePrices, renewOperatorKey } from './data/first-run.ts'
import { makeHandlers } from './handlers/handlers.ts'
import { makeHttpServer } from './http/http.ts'
import { countStarts, reportFaults, watchGauges } from './metrics/gauges.ts'
import { openHostSockets } from './hosts/host-sockets.ts'
import { engineLinks } from './hosts/engine-links.ts'
import { makeHostLinks } from './hosts/host-links.ts'
import { openInference } from './parts/gateway.ts'
import { openLog } from './log.ts'
import { openMachineEngines } from './parts/machine-drivers.ts'
import { openMail } from './parts/mail.ts'
import { openVault } from './data/open-vault.ts'
import { importInventory } from './hosts/metal-inventory.ts'
import { openMetrics } from './metrics/metrics-port.ts'
import { openData, type OpenData } from './data/open-data.ts'
import { portUrl, readPortHost } from './ports/port-domain.ts'
import { installPortProxy, openPortProxy } from './ports/port-proxy.ts'
import { openPeers } from './hosts/peers.ts'
import { makePortShares } from './ports/port-share.ts'
import { makeRateLimiter } from './http/rate-limit.ts'
import { DRAINING, readiness } from './parts/readiness.ts'
import { runRecorder } from './metrics/record-metrics.ts'
import { watchResources } from './metrics/resource-gauges.ts'
import { openLogs } from './hosts/session-sockets.ts'
import type { Settings } from './settings.ts'
import { shownFolder } from './welcome.ts'
import { recentCosts, startWorkers, type Workers } from './workers/workers.ts'

export interface RunningServer {
  readonly url: string
  readonly app: App
  /** Accounts created by this start. */
  readonly made: { readonly operator: boolean; readonly demo: boolean }
  /** Opens the demo account in a browser, once. undefined: used before, or not a trial server. */
  readonly demoLinkToken: string | undefined
  /** Resolves when an essential part exits unexpectedly. */
  readonly broken: Promise<string>
  /**
   * From now on `/readyz` answers 503, so that load balancers send new requests elsewhere, and each answer closes its
   * connection; all else works as before.
   */
  startDraining(): void
  close(): Promise<void>
}

export interface ServeOptions {
  /** Opened by the caller; closed by the server. */
  readonly data?: OpenData
  readonly clock?: Clock
  readonly log?: Logger
  readonly checkResponses?: boolean
  readonly newOperatorKey?: boolean
  readonly newSecretKey?: boolean
  /** false: the server changes nothing on its own; tests run the reconcilers by hand. */
  readonly runLoops?: boolean
  /** Default: beside the program. */
  readonly consoleDir?: string
  /** Whether to create a demo link; default: only with the embedded database. */
  readonly isTrial?: boolean
}

export async function serve(settings: Settings, options: ServeOptions = {}): Promise<RunningServer> {
  const clock = options.clock ?? systemClock
  const log = options.log ?? openLog(settings.logLevel)
  const closing: Array<() => Promise<unknown>> = []
  const close = async (): Promise<void> => {
    for (const step of closing.splice(0).toReversed()) await step()
  }
  try {
    const data = options.data ?? (await openData(settings, (line) => log.info(line)))
    closing.push(() => data.close())
    const database = openDatabase({ url: data.databaseUrl, clock, poolSize: settings.databaseConnections, log })
    closing.push(() => database.close())
    await migrate(database.pool, schemaFolder())
    const newSecretKey = options.newSecretKey ?? false
    const vault = await openVault({ database, clock, settings, dataDir: data.dir, newSecretKey, log })
    const recorder = makeMetricRecorder({ database, clock })
    closing.push(runRecorder(recorder, log))
    const bare = { database, clock, installationId: vault.installationId, vault: vault.vault, recorder }
    const engines = await openMachineEngines({ app: bare, settings, log, closing })
    const mail = await openMail(settings, closing)
    const app: App = {
      ...bare,
      ...mail.part,
      drivers: engines.drivers,
      providers: engines.providers,
      stoppedDiskPerGbMonth: settings.stoppedDiskPerGbMonth,
      cpuPerHour: settings.cpuPerHour,
      freeStartMinutes: settings.freeStartMinutes,
      allowPrivateAddresses: settings.allowPrivateAddresses,
      warn: (error, what) => log.warn({ err: error }, what),
    }
    const made = await firstRun(app, settings, data.dir, options.newOperatorKey ?? false)
    const drain: Wiring['drain'] = { started: false, onStart: () => {} }
    const welcome = welcomeOptions(settings, options, data.dir)
    const wiring = { log, options, closing, dataDir: data.dir, engineLoops: engines.loops, drain, welcome, recorder }
    const url = await openHttp(app, settings, wiring)
    mail.listening(url)
    writePrivateFile(data.dir, ADDRESS_FILE, formatAddress(url))
    closing.push(() => rm(path.join(data.dir, ADDRESS_FILE), { force: true }))
    const startDraining = (): void => {
      drain.started = true
      drain.onStart()
    }
    return { url, app, made, demoLinkToken: welcome.demoLink?.token, broken: data.broken, startDraining, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Returns the names of the migrations that were missing. */
export async function migrateAt(databaseUrl: string): Promise<string[]> {
  const database = openDatabase({ url: databaseUrl, clock: systemClock, poolSize: 1 })
  try {
    return await migrate(database.pool, schemaFolder())
  } finally {
    await database.close()
  }
}

async function firstRun(
  app: App,
  settings: Settings,
  dataDir: string,
  newOperatorKey: boolean,
): Promise<RunningServer['made']> {
  const operator = await ensureOperator(app.database, dataDir)
  if (newOperatorKey) await renewOperatorKey(app.database, dataDir)
  if ([...app.drivers.values()].some(({ traits }) => traits.simulated)) await ensurePrices(app.database)
  const isAlone = settings.databaseUrl === undefined
  if (isAlone) await ensureModels(app.database, settings.defaultModels)
  const demo = isAlone && (await ensureDemo(app.database, dataDir))
  if (settings.inventoryFile !== undefined) await importInventory(app, settings.inventoryFile)
  // The first listing should not be empty, so take an inventory before the first answer.
  for (const driver of app.drivers.values()) {
    // An engine that is away takes only itself off sale.
    await inventoryOf(app, driver, AbortSignal.timeout(driver.callTimeoutMs)).catch((error: unknown) =>
      app.warn?.(error, `could not list the machines of ${driver.id}`),
    )
  }
  return { operator: operator || newOperatorKey, demo }
}

interface Wiring {
  readonly log: Logger
  readonly options: ServeOptions
  readonly closing: Array<() => Promise<unknown>>
  readonly dataDir: string
  readonly engineLoops: readonly Reconciler[]
  readonly drain: { started: boolean; onStart: () => void }
  readonly welcome: WelcomeOptions
  readonly recorder: MetricRecorder
}

async function openHttp(bare: App, settings: Settings, wiring: Wiring): Promise<string> {
  const { log, options, closing, dataDir } = wiring
  const metrics = new Metrics()
  let workers: Workers | undefined
  const rates = makeRateLimiter({
    takeSlice: (request) => takeRateSlice(bare.database.db, request),
    clock: bare.clock,
    recall: async (subject, minute, except) => (await workers?.recallRate(subject, minute, except)) ?? 0,
  })
  const links = makeHostLinks(engineLinks(bare.drivers.values()))
  const dial: NonNullable<App['dialWorkload']> = ({ hostId, workloadId, port }) =>
    links.open(hostId, { kind: 'port', workloadId, port })
  const inference = await openInference({
    app: bare,
    settings,
    dataDir,
    log,
    metrics,
    rates,
    closing,
    dial,
    workers: () => workers,
  })
  const rentalOptions = shareRentalOptions(bare)
  const { trustedProxy, portDomain } = settings
  let ownPort = settings.port
  const app: App = {
    ...bare,
    rentalOptions,
    orderBatches: new OrderBatches(bare),
    driverFault: reportFaults(metrics, log),
    replicaStart: countStarts(metrics),
    modelStatus: inference.modelStatus,
    recallMoney: inference.recallMoney,
    recentCosts: (ids) => recentCosts(ids, inference.meter, workers),
    dialWorkload: dial,
    portUrl: (rentalName, port) => portDomain && portUrl(portDomain, { rentalName, port }, ownPort),
  }
  const authenticator = makeAuthenticator({
    database: app.database,
    clock: app.clock,
    log,
    onForget: (changed) => workers?.forgetKeys(changed),
  })
  closing.push(() => authenticator.close())
  const streams = makeEventStreams(app)
  const shares = makePortShares()
  const ports = openPortProxy({
    app,
    links,
    domain: portDomain,
    authenticator,
    rates,
    shares,
    trustedProxy,
    log,
    metrics,
  })
  const webhooks = deliverWebhooks(app)
  closing.push(() => webhooks.close())
  const loops =
    options.runLoops === false || settings.role === 'gateway'
      ? undefined
      : startLoops(
          [
            ...allReconcilers(
              app,
              webhooks,
              {
                massLoss: (driver, missing) =>
                  log.error({ driver, missing }, 'many machines disappeared at once; waiting for confirmation'),
                reaped: (driver, externalId, why) =>
                  log.warn({ driver, externalId, why }, 'terminated an unknown machine at the engine'),
                ledgerFindings: (findings) => log.error({ findings }, 'ledger check failed; run berth ledger verify'),
                dropped: (partition) => log.info({ partition }, 'dropped a partition of old requests'),
              },
              settings.retention,
            ),
            ...wiring.engineLoops,
          ],
          {
            metrics,
            clock: app.clock,
            readDue: (loops, at) => readDue(app.database.steady, { at, drivers: [...app.drivers.keys()] }, loops),
            onError: (loop, error) => log.error({ loop, err: error }, 'reconciler failed; it will run again'),
          },
        )
  closing.push(async () => loops?.stop())
  const bus = openBus({
    database: app.database,
    log,
    onWake: (name) => {
      if (name.startsWith('events:')) streams.wake(name.slice('events:'.length))
      else if (name === CAPACITY_WAKE) rentalOptions.changed()
      else if (name.startsWith(KEY_WAKE)) authenticator.forget(name.slice(KEY_WAKE.length))
      else if (name.startsWith(PORT_WAKE)) ports.forget(Number(name.slice(PORT_WAKE.length)))
      else loops?.wake(name)
    },
    onGap: () => loops?.noteChange(),
  })
  closing.push(async () => bus.close())
  app.database.onCommit = (wake) => {
    loops?.noteChange()
    bus.publish(wake)
  }
  watchGauges(app, metrics)
  const resources = watchResources(app, metrics, { dataDir, volumeDir: settings.storage?.dir })
  closing.push(async () => resources.stop())

  const bodies = new BodyBudget(settings.bodyMemory)
  const bodyBytes = metrics.gauge('berth_request_body_bytes', 'Memory used by request bodies in flight')
  metrics.collect(() => bodyBytes.set(bodies.usedBytes))
  const server = makeHttpServer({
    app,
    bodies,
    handlers: makeHandlers(inference.gateway),
    authenticator,
    rates,
    gateway: inference.gateway,
    streams,
    openLogs: (rental, wanted) => openLogs(app, links, rental, wanted),
    checkResponses: options.checkResponses ?? false,
    log,
    metrics,
    trustedProxy,
    consoleDir: options.consoleDir,
    welcome: wiring.welcome,
    bundles: makeAgentBundles({ dataDir, onError: (message) => log.error(message) }),
    ready: async () => (wiring.drain.started ? DRAINING : readiness(app, inference.journal, workers)),
  })
  addAgentFiles(server, { app, settings, dataDir, engines: inference.engines, log })
  installPortProxy(server.server, ports)
  const peers = settings.peers && (await openPeers({ app, links, log, listen: settings.peers }))
  const closeSockets = openHostSockets({
    app,
    links,
    ports,
    shares,
    settings,
    log,
    metrics,
    rates,
    authenticator,
    server: server.server,
    recorder: wiring.recorder,
    serverId: peers?.serverId ?? null,
  })
  const isDraining = (): boolean => wiring.drain.started
  const fastPath = openFastPath(server.server, {
    gateway: inference.gateway,
    bodies,
    authenticator,
    clock: app.clock,
    isOther: (host) => readPortHost(portDomain, host) !== undefined,
    isDraining,
    spread: settings.workers > 1 ? (socket, bytes) => workers?.pass(socket, bytes) === true : undefined,
  })
  if (settings.workers > 1) {
    const { meter, settle, places } = inference
    const { takeBack } = fastPath
    const parts = { settings, dataDir, log, meter, settle, rates, places, authenticator, takeBack }
    workers = await startWorkers({ ...parts, catalog: inference.catalog() })
    wiring.drain.onStart = () => workers?.startDraining()
  }
  const drain = makeDrain(server.server, {
    fastPath,
    isDraining,
    finishMs: settings.finishMs,
    close: () => server.close(),
  })
  await server.listen({ host: settings.host, port: settings.port })
  closing.push(() => Promise.all([drain.finish(), workers?.close()]))
  closing.push(async () => peers?.close())
  closing.push(closeSockets)
  closing.push(async () => ports.close())
  if (settings.metricsPort !== undefined) closing.push(await openMetrics(metrics, settings.metricsPort))
  // First of all: what is in progress still needs hosts and peers, but streams of events have no end.
  closing.push(() => drain.settle())
  closing.push(() => streams.close())
  const address = server.server.address()
  if (typeof address === 'object' && address !== null) ownPort = address.port
  return `http://${settings.host.includes(':') ? `[${settings.host}]` : settings.host}:${ownPort}`
}

function welcomeOptions(settings: Settings, options: ServeOptions, dataDir: string): WelcomeOptions {
  const isTrial = options.isTrial ?? settings.databaseUrl === undefined
  return {
    dataDir,
    shownDir: shownFolder(settings.dataDir),
    isTrial,
    demoLink: isTrial && !isDemoTaken(dataDir) ? makeDemoLink(options.clock ?? systemClock) : undefined,
    host: settings.host,
    trustProxy: settings.trustedProxy !== undefined,
  }
}

/** Beside the bundle in dist/, or beside src/ in development. */
function schemaFolder(): string {
  let dir = path.dirname(fileURLToPath(import.meta.url))
  while (!existsSync(path.join(dir, 'schema', '0001_identity.sql'))) {
    const parent = path.dirname(dir)
    if (parent === dir) throw new Error('the schema/ folder is missing')
    dir = parent
  }
  return path.join(dir, 'schema')
}

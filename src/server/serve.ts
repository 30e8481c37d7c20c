/** A server as a list of its parts, in the order in which they open. The only place where they are connected. */
import type { Logger } from 'pino'
import type { App } from '../app/app.ts'
import { OrderBatches } from '../app/order/order-batch.ts'
import { shareRentalOptions } from '../app/order/rental-option.ts'
import { systemClock, type Clock } from '../base/instant.ts'
import { Metrics } from '../base/metrics.ts'
import { KEY_WAKE } from '../store/account/api-key.ts'
import { CAPACITY_WAKE } from '../store/machine/machine.ts'
import { isDemoTaken, type WelcomeOptions } from './console/console-welcome.ts'
import { makeDemoLink } from './console/demo-link.ts'
import { openData, type OpenData } from './data/open-data.ts'
import { driverLinks } from './hosts/driver-links.ts'
import { makeHostLinks } from './hosts/host-links.ts'
import { makeHttpServer } from './http/http.ts'
import { openLog } from './log.ts'
import { countStarts, reportFaults } from './metrics/gauges.ts'
import { openBatches } from './parts/batches.ts'
import { openCallers } from './parts/callers.ts'
import { openFront } from './parts/front.ts'
import { openGateway } from './parts/gateway.ts'
import { openHostConnections } from './parts/host-connections.ts'
import { openListening } from './parts/listening.ts'
import { openLocalEngines } from './parts/local-engines.ts'
import { openLoops } from './parts/loops.ts'
import { openMachineDrivers } from './parts/machine-drivers.ts'
import { openMail } from './parts/mail.ts'
import { openMeter } from './parts/meter.ts'
import { openModelCatalog } from './parts/model-catalog.ts'
import { openPeople } from './parts/people.ts'
import { openOperations } from './parts/operations.ts'
import { openParts, type Context } from './parts/part.ts'
import { openPayments } from './parts/payments.ts'
import { openRoutes } from './parts/routes.ts'
import { setUp, type NewAccounts } from './parts/set-up.ts'
import { openStore } from './parts/store.ts'
import { portUrl } from './ports/port-domain.ts'
import type { Settings } from './settings.ts'
import { shownFolder } from './welcome.ts'
import { makeWorkers } from './workers/workers.ts'

export interface RunningServer {
  readonly url: string
  readonly app: App
  /** Accounts created by this start. */
  readonly newAccounts: NewAccounts
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

export function serve(settings: Settings, options: ServeOptions = {}): Promise<RunningServer> {
  const clock = options.clock ?? systemClock
  const log = options.log ?? openLog(settings.logLevel)
  const { newOperatorKey = false, newSecretKey = false, checkResponses = false } = options
  const draining = new AbortController()
  return openParts(async (parts) => {
    const data = await parts.add(options.data ?? openData(settings, (line) => log.info(line)))
    const metrics = new Metrics()
    const context: Context = { settings, dataDir: data.dir, clock, log, metrics, draining: draining.signal }
    const http = makeHttpServer({ settings, clock, log, metrics, consoleDir: options.consoleDir })
    const workers = makeWorkers(context)

    const store = await parts.add(openStore(context, { databaseUrl: data.databaseUrl, newSecretKey }))
    const drivers = await parts.add(openMachineDrivers(context, store.app))
    const mail = await parts.add(openMail(context, http.url))
    const people = await parts.add(openPeople(context, store.app))
    const payments = await parts.add(openPayments(context))
    const catalog = await parts.add(openModelCatalog(context))
    const opened = { ...store.app, ...drivers.app, ...mail.app, ...people.app, ...payments.app, ...catalog.app }
    const core = { ...opened, ...appSettings(context) }
    const newAccounts = await setUp(context, core, { newOperatorKey })
    const welcome = welcomeOptions(context, options.isTrial)

    const links = makeHostLinks(driverLinks(core.drivers.values()))
    const dial: NonNullable<App['dialWorkload']> = ({ hostId, workloadId, port }) =>
      links.open(hostId, { kind: 'port', workloadId, port })
    const callers = await parts.add(openCallers(context, core, workers))
    const money = await parts.add(openMeter(context, core, workers))
    const { engines } = await parts.add(openLocalEngines(context))
    const { rates } = callers
    const gateway = await parts.add(openGateway(context, { app: core, money, rates, engines, dial, workers }))

    const isRunning = options.runLoops !== false
    await parts.add(openBatches({ app: core, callers, money, gateway, isRunning }))
    const rentalOptions = shareRentalOptions(core)
    const app = {
      ...core,
      ...money.app,
      ...gateway.app,
      rentalOptions,
      orderBatches: new OrderBatches(core),
      driverFault: reportFaults(metrics, log),
      replicaStart: countStarts(metrics),
      dialWorkload: dial,
      portUrl: (rentalName: string, port: number) =>
        settings.portDomain && portUrl(settings.portDomain, { rentalName, port }, http.port()),
    }
    const isIdle = !isRunning || settings.role === 'gateway'
    const { bus } = await parts.add(openLoops(context, app, isIdle ? undefined : parts.loops))
    const routeNeeds = { app, callers, gateway: gateway.gateway, engines, links, welcome, checkResponses }
    const { streams, bodies } = await parts.add(openRoutes(context, http, routeNeeds))
    bus.on('events:', (accountId) => streams.wake(accountId))
    bus.on(CAPACITY_WAKE, () => rentalOptions.changed())
    bus.on(KEY_WAKE, (change) => callers.authenticator.forget(change))

    const front = await parts.add(openFront(context, http, { callers, money, gateway, bodies, workers }))
    await parts.add(openHostConnections(context, http, { app, links, callers, front, bus }))
    await parts.add(openOperations(context, http, { app, callers, checks: parts.checks }))
    await parts.add(openListening(context, http, { front, streams }))
    return {
      url: http.url(),
      app,
      newAccounts,
      demoLinkToken: welcome.demoLink?.token,
      broken: data.broken,
      startDraining: () => draining.abort(),
    }
  })
}

function appSettings({ settings, log }: Context) {
  return {
    stoppedDiskPerGbMonth: settings.stoppedDiskPerGbMonth,
    cpuPerHour: settings.cpuPerHour,
    freeStartMinutes: settings.freeStartMinutes,
    payouts: settings.payouts,
    allowPrivateAddresses: settings.allowPrivateAddresses,
    ...bucketOf(settings),
    warn: (error: unknown, what: string) => log.warn({ err: error }, what),
  }
}

function bucketOf({ objectStore }: Settings): Pick<App, 'bucket'> {
  const { bucket } = objectStore ?? {}
  return objectStore === undefined || bucket === undefined ? {} : { bucket: { ...objectStore, bucket } }
}

function welcomeOptions({ settings, dataDir, clock }: Context, isAskedFor: boolean | undefined): WelcomeOptions {
  const isTrial = isAskedFor ?? settings.databaseUrl === undefined
  return {
    dataDir,
    shownDir: shownFolder(settings.dataDir),
    isTrial,
    demoLink: isTrial && !isDemoTaken(dataDir) ? makeDemoLink(clock) : undefined,
    host: settings.host,
    trustProxy: settings.trustedProxy !== undefined,
  }
}

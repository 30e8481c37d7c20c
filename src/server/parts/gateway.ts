/** Opens the gateway: requests go to the deployments of the registry and to the engines of this machine. */
import type { Logger } from 'pino'
import type { App } from '../../app/app.ts'
import type { GatewayTreasury } from '../../app/money/treasury.ts'
import { guardedLookup } from '../../base/net/outbound.ts'
import type { LocalEngines } from '../../engines/process/local-engine.ts'
import { makeDispatcher, type RunningDispatcher } from '../../gateway/dispatch/dispatch.ts'
import { GatewayPlaces } from '../../gateway/dispatch/places.ts'
import { watchRequests } from '../../gateway/gateway-metrics.ts'
import type { Catalog } from '../../gateway/catalog.ts'
import { Gateway } from '../../gateway/gateway.ts'
import { BatchGateway } from '../batch/batch-gateway.ts'
import type { RateLimiter } from '../http/rate-limit.ts'
import { logFailures } from '../inference/failure-log.ts'
import { watchGateway } from '../inference/gateway-gauges.ts'
import { reportGatewayLoad } from '../inference/gateway-load.ts'
import { makeModelCatalog } from '../inference/model-catalog.ts'
import { makeModelStatus } from '../inference/model-status.ts'
import { catalogOfServer, movedLimits, type Limits } from '../workers/worker-catalog.ts'
import type { Workers } from '../workers/workers.ts'
import type { MeterPart } from './meter.ts'
import { openParts, type Context, type Part } from './part.ts'

const COUNT_GATEWAYS_MS = 5_000

export interface GatewayPart extends Part {
  readonly gateway: Gateway
  readonly places: GatewayPlaces
  /** The gateway of lines of batches. */
  readonly batches: BatchGateway
  readonly app: Required<Pick<App, 'modelStatus'>>
}

export interface GatewayNeeds {
  readonly app: Pick<App, 'database' | 'vault'>
  readonly money: MeterPart
  readonly rates: RateLimiter
  /** undefined: this server runs no models. */
  readonly engines: LocalEngines | undefined
  /** Reaches ports of rented machines. */
  readonly dial: NonNullable<App['dialWorkload']>
  readonly workers: Workers
}

export function openGateway(context: Context, needs: GatewayNeeds): Promise<GatewayPart> {
  const { settings, clock, log, metrics } = context
  const { app, rates, engines, dial, workers } = needs
  const { meter, treasury, gatewayId } = needs.money
  return openParts(async (parts) => {
    const dispatcher: RunningDispatcher = makeDispatcher({
      lookup: guardedLookup(true),
      dial: (address) => {
        const stream = dial(address)
        if (stream === undefined) throw new Error('the host is not connected')
        return stream
      },
      firstTokenMs: settings.firstTokenMs,
      onWaiting: (model) => load.waiting(model),
      others: () => workers.stats(),
      onLimit: () => divide(),
    })
    const stats = (): ReturnType<RunningDispatcher['stats']> => dispatcher.stats()
    const load = await parts.add(reportGatewayLoad({ database: app.database, clock, gatewayId, stats, log }))
    await parts.add(dispatcher)
    const gateways = await parts.add(countGateways(treasury, log))
    const places = new GatewayPlaces(gateways.live)
    const ports = {
      dispatcher,
      meter,
      rates,
      clock,
      refreshCatalog: () => catalog.refresh(),
      wakeModel: (name: string) => catalog.wake(name),
      ended: watchRequests(metrics),
      warn: logFailures(log),
    }
    const gateway = new Gateway({ ...ports, places })
    const batches = new BatchGateway(ports)
    let models: Catalog = new Map()
    let limits: Limits = new Map()
    const serveModels = (): void => {
      const catalog = settings.workers > 1 ? catalogOfServer(models, limits, settings.workers) : models
      dispatcher.setCatalog(catalog)
      load.setCatalog(catalog)
      gateway.setCatalog(catalog)
      batches.setCatalog(catalog)
      workers.setCatalog(models, limits)
    }
    const divide = (): void => {
      const moved = settings.workers > 1 ? movedLimits(models, limits, (id) => dispatcher.limitOf(id)) : undefined
      if (moved === undefined) return
      limits = moved
      serveModels()
    }
    const catalog = makeModelCatalog({
      database: app.database,
      vault: app.vault,
      engines,
      log,
      onChange: (changed) => {
        models = changed
        serveModels()
        divide()
      },
    })
    await parts.add(catalog)
    await catalog.loaded
    watchGateway(metrics, meter, dispatcher)
    metrics.include(() => workers.metrics())
    const modelStatus = makeModelStatus(catalog, () => [dispatcher.stats(), ...workers.stats()])
    return { gateway, batches, places, app: { modelStatus } }
  })
}

/** The number of gateways over this database, this one included. */
function countGateways(treasury: GatewayTreasury, log: Logger): { live: () => number; close: () => void } {
  let live = 1
  const timer = setInterval(() => {
    treasury.liveGateways().then(
      (count) => (live = count),
      // While the database is down, the last count stays.
      (error: unknown) => log.debug({ err: error }, 'could not count the gateways'),
    )
  }, COUNT_GATEWAYS_MS).unref()
  return { live: () => live, close: () => clearInterval(timer) }
}

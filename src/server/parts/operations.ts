/** Opens what an operator watches: readiness, metrics, and their own port. */
import type { App } from '../../app/app.ts'
import type { HttpServer } from '../http/http.ts'
import { addOperationRoutes } from '../http/operation-routes.ts'
import { watchGauges } from '../metrics/gauges.ts'
import { openMetrics } from '../metrics/metrics-port.ts'
import { watchResources } from '../metrics/resource-gauges.ts'
import type { Callers } from './callers.ts'
import { openParts, type Checks, type Context, type Part } from './part.ts'
import { DRAINING, readiness } from './readiness.ts'

export interface OperationNeeds {
  readonly app: App
  readonly callers: Callers
  readonly checks: Checks
}

export function openOperations(
  { settings, dataDir, metrics, draining }: Context,
  { routes }: HttpServer,
  { app, callers, checks }: OperationNeeds,
): Promise<Part> {
  return openParts(async (parts) => {
    const { authenticator, rates } = callers
    const ready = async () => (draining.aborted ? DRAINING : readiness(checks))
    addOperationRoutes(routes, { app, authenticator, rates, metrics, ready })
    watchGauges(app, metrics)
    const resources = watchResources(app, metrics, { dataDir, volumeDir: settings.storage?.dir })
    await parts.add({ close: () => resources.stop() })
    if (settings.metricsPort !== undefined) await parts.add({ close: await openMetrics(metrics, settings.metricsPort) })
    return {}
  })
}

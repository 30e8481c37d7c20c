/** Adds the routes: one per operation of the contract, and those of the console, of e-mails and of hosts. */
import type { App } from '../../app/app.ts'
import { BodyBudget } from '../../domain/body-budget.ts'
import type { LocalEngines } from '../../engines/process/local-engine.ts'
import { makeResponseDialect } from '../../gateway/dialect/response.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { addConsoleRoutes } from '../console/console.ts'
import type { WelcomeOptions } from '../console/console-welcome.ts'
import { makeEventStreams, type EventStreams } from '../events/event-stream.ts'
import { makeHandlers } from '../handlers/handlers.ts'
import type { HostLinks } from '../hosts/host-links.ts'
import { openCommand, openLogs } from '../hosts/session-sockets.ts'
import { bind } from '../http/bind.ts'
import type { HttpServer } from '../http/http.ts'
import { addReferenceRoutes } from '../http/operation-routes.ts'
import { makeAgentBundles } from '../install/agent-bundle.ts'
import { addAgentFiles } from '../install/agent-files.ts'
import { makeInferenceWorks } from '../inference/answer-inference.ts'
import { makeResponseStorage } from '../inference/response-storage.ts'
import { addInstallRoutes } from '../install/install-routes.ts'
import { addMailRoutes } from '../mail/mail-link.ts'
import { logsOf } from '../handlers/rental-logs.ts'
import { addMcpRoutes } from '../mcp/mcp-routes.ts'
import { addStripeRoutes } from '../payment/stripe-webhook.ts'
import type { Callers } from './callers.ts'
import type { Context, Part } from './part.ts'

export interface Routes extends Part {
  readonly streams: EventStreams
  /** Memory for request bodies, of all routes and of the fast path. */
  readonly bodies: BodyBudget
}

export interface RouteNeeds {
  readonly app: App
  readonly callers: Callers
  readonly gateway: Gateway
  /** undefined: this server runs no models. */
  readonly engines: LocalEngines | undefined
  readonly links: HostLinks
  readonly welcome: WelcomeOptions
  readonly checkResponses: boolean
}

export function openRoutes(context: Context, { routes }: HttpServer, needs: RouteNeeds): Routes {
  const { settings, dataDir, clock, log, metrics } = context
  const { app, gateway, engines, links, welcome, checkResponses } = needs
  const { authenticator, rates } = needs.callers
  const bodies = new BodyBudget(settings.bodyMemory)
  const bodyBytes = metrics.gauge('berth_request_body_bytes', 'Memory used by request bodies in flight')
  metrics.collect(() => bodyBytes.set(bodies.usedBytes))
  const streams = makeEventStreams(app)
  const responses = makeResponseStorage(app, settings.retention.responseDays)
  const handlers = makeHandlers(gateway, responses)
  bind(routes, {
    app,
    authenticator,
    rates,
    gateway,
    bodies,
    handlers,
    works: makeInferenceWorks({ createResponse: makeResponseDialect(responses) }),
    streams,
    openLogs: (rental, options) => openLogs(app, links, rental, options),
    checkResponses,
  })
  const mcp = addMcpRoutes(routes, {
    app,
    authenticator,
    rates,
    gateway,
    bodies,
    handlers,
    machines: {
      openLogs: (rental, request) => logsOf(app, rental, (one, options) => openLogs(app, links, one, options), request),
      openCommand: (rental, command) => openCommand(app, links, rental, command),
    },
    log,
    publicUrl: settings.publicUrl,
  })
  addReferenceRoutes(routes)
  addConsoleRoutes(routes, { app, authenticator, rates, welcome })
  addMailRoutes(routes, { app, rates })
  addStripeRoutes(routes, { app, rates })
  const bundles = makeAgentBundles({ dataDir, onError: (message) => log.error(message) })
  addInstallRoutes(routes, { bundles, rates, clock })
  addAgentFiles(routes, { app, settings, dataDir, links, engines, log })
  return { streams, bodies, close: () => Promise.all([mcp.close(), streams.close()]) }
}

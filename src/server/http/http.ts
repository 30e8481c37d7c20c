/** The HTTP server: the rules for every request, and the console for paths without a route. */
import Fastify, {
  LogController,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import type { Logger } from 'pino'
import { randomId } from '../../base/id.ts'
import type { Clock } from '../../base/instant.ts'
import { makeLineLimit, type LineLimit } from '../../base/net/line-limit.ts'
import { limits } from '../../base/limits.ts'
import type { Metrics } from '../../base/metrics.ts'
import { isInference, type Endpoint } from '../../contract/endpoint.ts'
import type { ErrorPage } from '../../contract/error-form.ts'
import { newRequestId } from '../../gateway/call.ts'
import { isOutage } from '../../store/platform/outage.ts'
import { DatabaseSilent } from '../../store/platform/silence-watch.ts'
import { makeConsolePages } from '../console/console-pages.ts'
import { send } from './answer.ts'
import { failurePage, requestFailurePage, requestIdOf, writePage } from './error-page.ts'
import { fail, type Failure } from '../../contract/result.ts'
import type { Settings } from '../settings.ts'
import { BodyTooLarge, NoRoomForBody, readJsonBodies } from './request-body.ts'

/** Log lines for failed requests with the same address, operation and status. */
const MAX_LINES_PER_MINUTE = 10

export interface HttpOptions {
  readonly settings: Pick<Settings, 'host' | 'port' | 'trustedProxy'>
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Metrics
  /** The folder of the built console. undefined: the default folder of a build. */
  readonly consoleDir: string | undefined
}

/** A server without routes, which does not listen yet. */
export interface HttpServer {
  readonly routes: FastifyInstance
  /** The configured port until the server listens; a configured 0 is then replaced by the actual port. */
  readonly port: () => number
  readonly url: () => string
}

export function makeHttpServer(options: HttpOptions): HttpServer {
  const { log, settings } = options
  const routes = Fastify({
    loggerInstance: log,
    // Our own hook writes one line per request, with the operation.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: limits.bodyBytes,
    trustProxy: settings.trustedProxy ?? false,
    // This limit is for uploads. Other bodies have their own (request-body.ts).
    requestTimeout: limits.uploadMs,
    genReqId: () => randomId('req'),
    routerOptions: { maxParamLength: 200 },
    // Inputs and answers are checked by the contract, so Fastify need not load its own schema compilers.
    schemaController: { compilersFactory: { buildValidator: hasNoSchemas, buildSerializer: hasNoSchemas } },
    // During shutdown, requests that have already arrived are answered normally.
    return503OnClosing: false,
    // Keep-alive connections close with the drain; see parts/front.ts.
    forceCloseConnections: 'idle',
    // A malformed URL matches no route, so no hook and no error handler sees it.
    frameworkErrors: (error, request, reply) => {
      const page = pageOf(request, failureOf(error))
      reply.header('X-Request-Id', request.id).type('application/json; charset=utf-8')
      void (reply as unknown as FastifyReply).code(page.status).send(writePage(page, request.id))
    },
  }) as unknown as FastifyInstance
  routes.server.headersTimeout = limits.requestTimeoutMs
  readJsonBodies(routes)
  addHeaders(routes, options)
  // A client that fails in a loop must not fill the log.
  const lines = makeLineLimit({ perMinute: MAX_LINES_PER_MINUTE })
  recordRequests(routes, options, lines)
  answerFailures(routes, lines)
  answerUnknownPaths(routes, options)
  const port = (): number => {
    const address = routes.server.address()
    return typeof address === 'object' && address !== null ? address.port : settings.port
  }
  const host = settings.host.includes(':') ? `[${settings.host}]` : settings.host
  return { routes, port, url: () => `http://${host}:${port()}` }
}

function addHeaders(routes: FastifyInstance, { clock }: HttpOptions): void {
  routes.addHook('onRequest', async (request, reply) => {
    reply.header('X-Request-Id', request.id)
    const { endpoint } = request.routeOptions.config as { endpoint?: Endpoint }
    if (endpoint !== undefined && isInference(endpoint))
      reply.header('X-Inference-Request-Id', newRequestId(clock.now()))
    const { requestIdHeader } = endpoint?.errorForm ?? {}
    if (requestIdHeader !== undefined) reply.header(requestIdHeader, requestIdOf(reply))
    reply.header('X-Content-Type-Options', 'nosniff')
    reply.header('Cache-Control', 'no-store')
  })
}

function recordRequests(routes: FastifyInstance, { metrics }: HttpOptions, lines: LineLimit): void {
  const requests = metrics.counter('berth_http_requests_total', 'Requests by operation and status')
  const seconds = metrics.histogram(
    'berth_http_request_seconds',
    'Time to answer requests',
    [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10],
  )
  routes.addHook('onResponse', async (request, reply) => {
    const operation = operationOf(request)
    requests.add({ operation, status: String(reply.statusCode) })
    seconds.observe(reply.elapsedTime / 1_000, { operation })
    const facts = {
      operation,
      method: request.method,
      path: request.url.split('?')[0],
      status: reply.statusCode,
      ms: Math.round(reply.elapsedTime * 10) / 10,
    }
    if (reply.statusCode < 400) return request.log.info(facts, 'request')
    const line = lines.take(`${request.ip} ${operation} ${reply.statusCode}`)
    if (line !== undefined) request.log.info({ ...facts, ...line }, 'request')
  })
}

function answerFailures(routes: FastifyInstance, lines: LineLimit): void {
  routes.setErrorHandler(async (error: FastifyError, request, reply) => {
    const page = pageOf(request, failureOf(error))
    if (page.status >= 500 && !(error instanceof NoRoomForBody)) {
      const line = lines.take(`${request.ip} ${operationOf(request)} ${error.code ?? error.name}`)
      if (line !== undefined) request.log.error({ err: error, ...line }, 'request failed')
    }
    if (page.status === 503) reply.header('Retry-After', '1')
    return send(reply, page)
  })
}

/** Unknown paths may be pages of the console. */
function answerUnknownPaths(routes: FastifyInstance, { consoleDir }: HttpOptions): void {
  const pages = makeConsolePages(consoleDir)
  routes.setNotFoundHandler(async (request, reply) => {
    if (await pages.answer(request, reply)) return reply
    const route = `${request.method} ${request.url.split('?')[0]}`
    const page = pageOf(request, fail('unknown_path', { route }))
    return send(reply, page)
  })
}

function operationOf(request: FastifyRequest): string {
  const { operation = 'none' } = request.routeOptions.config as { operation?: string }
  return operation
}

/** Renders the failure in the form of the operation, or of the family that the path belongs to. */
function pageOf(request: FastifyRequest, failure: Failure): ErrorPage {
  const { endpoint } = request.routeOptions.config as { endpoint?: Endpoint }
  if (endpoint !== undefined) return failurePage(endpoint, failure)
  return requestFailurePage(/^\/(v2|console)/.test(request.url) ? 'v2' : 'v1', failure)
}

/** Errors before a handler (invalid JSON, body too large …) and unexpected ones. The cause is not shown. */
function failureOf(error: FastifyError): Failure {
  if (error instanceof NoRoomForBody) return error.failure
  if (error instanceof BodyTooLarge) return fail('body_too_large')
  if (error.code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') return fail('not_json')
  if (isBadJson(error)) return fail('bad_json')
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) return fail('bad_request')
  if (error instanceof DatabaseSilent && error.isOutcomeUnknown) return fail('outcome_unknown')
  return fail(isOutage(error) ? 'database_unavailable' : 'internal_error')
}

function hasNoSchemas(): never {
  throw new Error('routes have no schemas of Fastify')
}

function isBadJson(error: FastifyError): boolean {
  return (
    error instanceof SyntaxError ||
    error.code === 'FST_ERR_CTP_INVALID_JSON_BODY' ||
    error.code === 'FST_ERR_CTP_EMPTY_JSON_BODY'
  )
}

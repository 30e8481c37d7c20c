/** The HTTP server: the contract, the few paths beside it, and the console for everything else. */
import Fastify, {
  LogController,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import type { Logger } from 'pino'
import { randomId } from '../../base/id.ts'
import { makeLineLimit } from '../../base/net/line-limit.ts'
import { limits } from '../../base/limits.ts'
import type { Metrics } from '../../base/metrics.ts'
import { isInference, type Endpoint, type Family } from '../../contract/endpoint.ts'
import { api } from '../../contract/api.ts'
import { describeApi } from '../../contract/openapi/openapi.ts'
import { holdsScope } from '../../domain/api-key.ts'
import { newRequestId } from '../../gateway/call.ts'
import { countFailedKey } from './access.ts'
import { send } from './answer.ts'
import { bind, type Binding } from './bind.ts'
import { DatabaseSilent } from '../../store/platform/silence-watch.ts'
import { addConsoleRoutes } from '../console/console.ts'
import { makeConsolePages } from '../console/console-pages.ts'
import type { WelcomeOptions } from '../console/console-welcome.ts'
import type { AgentBundles } from '../install/agent-bundle.ts'
import { credentialsOf } from './credentials.ts'
import { failurePage, requestFailurePage } from './error-page.ts'
import { fail, type Failure } from '../../contract/result.ts'
import { addInstallRoutes } from '../install/install-routes.ts'
import { renderOnce, sendJson } from './json-answer.ts'
import { renderReference } from '../console/reference.ts'
import { BodyTooLarge, NoRoomForBody, readJsonBodies } from './request-body.ts'
import type { TrustedProxy } from './trusted-proxy.ts'
import { addMailRoutes } from '../mail/mail-link.ts'

/** Log lines for failed requests with the same address, operation and status. */
const MAX_LINES_PER_MINUTE = 10

export interface HttpOptions extends Binding {
  readonly log: Logger
  readonly metrics: Metrics
  readonly trustedProxy: TrustedProxy | undefined
  /** The folder of the built console; undefined: where a build puts it. */
  readonly consoleDir: string | undefined
  readonly welcome: WelcomeOptions
  readonly bundles: AgentBundles
  readonly ready: () => Promise<Readiness>
}

/** The answer of `/readyz`; `reason` is `draining` or the first check that failed. */
export interface Readiness {
  readonly ok: boolean
  readonly reason?: string
  readonly checks: Readonly<Record<string, string>>
}

export function makeHttpServer(options: HttpOptions): FastifyInstance {
  const { log, metrics } = options
  const server = Fastify({
    loggerInstance: log,
    // Our own hook writes one line per request, with the operation.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: limits.bodyBytes,
    trustProxy: options.trustedProxy ?? false,
    requestTimeout: limits.requestTimeoutMs,
    genReqId: () => randomId('req'),
    routerOptions: { maxParamLength: 200 },
    // Inputs and answers are checked by the contract; Fastify need not load its own compilers of schemas.
    schemaController: { compilersFactory: { buildValidator: hasNoSchemas, buildSerializer: hasNoSchemas } },
    // During shutdown, requests that have already arrived are answered normally.
    return503OnClosing: false,
    // Keep-alive connections close with the drain; see serve.ts.
    forceCloseConnections: 'idle',
    // A malformed URL matches no route, so no hook and no error handler sees it.
    frameworkErrors: (error, request, reply) => {
      const page = requestFailurePage(familyOf(request), failureOf(error))
      reply.header('X-Request-Id', request.id).type('application/json; charset=utf-8')
      void (reply as unknown as FastifyReply).code(page.status).send(JSON.stringify(page.body))
    },
  }) as unknown as FastifyInstance
  readJsonBodies(server)
  const requests = metrics.counter('berth_http_requests_total', 'Requests by operation and status')
  const seconds = metrics.histogram(
    'berth_http_request_seconds',
    'Time to answer requests',
    [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10],
  )
  server.addHook('onRequest', async (request, reply) => {
    reply.header('X-Request-Id', request.id)
    const { endpoint } = request.routeOptions.config as { endpoint?: Endpoint }
    if (endpoint !== undefined && isInference(endpoint))
      reply.header('X-Inference-Request-Id', newRequestId(options.app.clock.now()))
    reply.header('X-Content-Type-Options', 'nosniff')
    reply.header('Cache-Control', 'no-store')
  })
  // A client that fails in a loop must not fill the log.
  const lines = makeLineLimit({ perMinute: MAX_LINES_PER_MINUTE })
  server.addHook('onResponse', async (request, reply) => {
    const { operation = 'none' } = request.routeOptions.config as { operation?: string }
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
  server.setErrorHandler(async (error: FastifyError, request, reply) => {
    const page = requestFailurePage(familyOf(request), failureOf(error))
    if (page.status >= 500 && !(error instanceof NoRoomForBody)) {
      const { operation = 'none' } = request.routeOptions.config as { operation?: string }
      const line = lines.take(`${request.ip} ${operation} ${error.code ?? error.name}`)
      if (line !== undefined) request.log.error({ err: error, ...line }, 'request failed')
    }
    if (page.status === 503) reply.header('Retry-After', '1')
    return reply.code(page.status).type('application/json; charset=utf-8').send(JSON.stringify(page.body))
  })
  const pages = makeConsolePages(options.consoleDir)
  server.setNotFoundHandler(async (request, reply) => {
    if (await pages.answer(request, reply)) return reply
    const route = `${request.method} ${request.url.split('?')[0]}`
    const page = requestFailurePage(familyOf(request), fail('unknown_path', { route }))
    return reply.code(404).type('application/json; charset=utf-8').send(JSON.stringify(page.body))
  })
  bind(server, options)
  addPlainRoutes(server, options)
  addConsoleRoutes(server, options)
  addMailRoutes(server, options)
  addInstallRoutes(server, { ...options, clock: options.app.clock })
  return server
}

function familyOf(request: FastifyRequest): Family {
  return /^\/(v2|console)/.test(request.url) ? 'v2' : 'v1'
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

const outages = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOENT',
  'ETIMEDOUT',
  'EPIPE',
  '57P01',
  '57P02',
  '57P03',
  '08006',
  '53300',
])

function isOutage(error: FastifyError): boolean {
  if (error instanceof DatabaseSilent) return true
  return outages.has(error.code) || /timeout exceeded when trying to connect|Connection terminated/.test(error.message)
}

function addPlainRoutes(server: FastifyInstance, options: HttpOptions): void {
  // Rendered at the first request: a start should not wait for pages that few open.
  let all: object | undefined
  let reference: string | undefined
  server.get('/healthz', async () => ({ status: 'ok' }))
  server.get('/readyz', async (_request, reply) => {
    const { ok, ...why } = await options.ready()
    return reply.code(ok ? 200 : 503).send({ status: ok ? 'ready' : 'not ready', ...why })
  })
  server.get('/openapi.json', async (request, reply) =>
    sendJson(request, reply, { value: (all ??= renderOnce(describeApi('all'))), mayCompress: true }),
  )
  server.get('/docs', async (_request, reply) =>
    reply
      .header('Content-Security-Policy', "default-src 'none'; style-src 'unsafe-inline'; img-src data:")
      .type('text/html; charset=utf-8')
      .send((reference ??= renderReference())),
  )
  server.get('/metrics', async (request, reply) => {
    const caller = await options.authenticator.authenticate(credentialsOf(request))
    if (!caller.ok) {
      const failure = countFailedKey(options, caller, request, reply)
      return send(reply, failurePage(api.getMe, failure), failure)
    }
    if (!holdsScope(caller.value.scopes, 'operator')) {
      const page = requestFailurePage('v2', fail('missing_scope', { scope: 'operator' }))
      return reply.code(page.status).send(page.body)
    }
    return reply.type('text/plain; version=0.0.4').send(await options.metrics.text())
  })
}

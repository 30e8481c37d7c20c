/** Routes outside of the contract: liveness and readiness of the server, its metrics, and the reference of the API. */
import type { FastifyInstance } from 'fastify'
import type { App } from '../../app/app.ts'
import type { Metrics } from '../../base/metrics.ts'
import { api } from '../../contract/api.ts'
import { describeApi } from '../../contract/openapi/openapi.ts'
import { fail } from '../../contract/result.ts'
import { holdsScope } from '../../domain/api-key.ts'
import { renderReference } from '../console/reference.ts'
import { countFailedKey } from './access.ts'
import { send } from './answer.ts'
import type { Authenticator } from './authenticate.ts'
import { credentialsOf } from './credentials.ts'
import { failurePage, requestFailurePage } from './error-page.ts'
import { renderOnce, sendJson } from './json-answer.ts'
import type { RateLimiter } from './rate-limit.ts'

/** The answer of `/readyz`; `reason` is `draining` or the first check that failed. */
export interface Readiness {
  readonly ok: boolean
  readonly reason?: string
  readonly checks: Readonly<Record<string, string>>
}

export interface OperationOptions {
  readonly app: App
  readonly authenticator: Authenticator
  readonly rates: RateLimiter
  readonly metrics: Metrics
  readonly ready: () => Promise<Readiness>
}

export function addOperationRoutes(routes: FastifyInstance, options: OperationOptions): void {
  routes.get('/healthz', async () => ({ status: 'ok' }))
  routes.get('/readyz', async (_request, reply) => {
    const { ok, ...details } = await options.ready()
    return reply.code(ok ? 200 : 503).send({ status: ok ? 'ready' : 'not ready', ...details })
  })
  routes.get('/metrics', async (request, reply) => {
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

export function addReferenceRoutes(routes: FastifyInstance): void {
  // Rendered at the first request, since a start should not wait for pages that few people open.
  let pages: object | undefined
  let reference: string | undefined
  routes.get('/openapi.json', async (request, reply) =>
    sendJson(request, reply, { value: (pages ??= renderOnce(describeApi('all'))), mayCompress: true }),
  )
  routes.get('/docs', async (_request, reply) =>
    reply
      .header('Content-Security-Policy', "default-src 'none'; style-src 'unsafe-inline'; img-src data:")
      .type('text/html; charset=utf-8')
      .send((reference ??= renderReference())),
  )
}

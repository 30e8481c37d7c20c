/**
 * The contract as HTTP: one route for each operation. Access is decided from the head of the request (access.ts); then
 * the body is read, the input validated, and the operation answered in its kind (answer.ts). Each step answers errors
 * in the operation's form.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { limits } from '../../base/limits.ts'
import { fail, type Result } from '../../contract/result.ts'
import { api, type OperationId } from '../../contract/api.ts'
import { isInference, type Endpoint } from '../../contract/endpoint.ts'
import { errorFormOf, type ErrorPage } from '../../contract/error-form.ts'
import { admitHead, type Admitted } from './access.ts'
import { answerPreflights } from './cross-origin.ts'
import { answers, send, type AnswerOptions, type Call } from './answer.ts'
import { failurePage } from './error-page.ts'
import { makeLogStreams, type OpenLogs } from '../handlers/rental-logs.ts'
import { validate } from './validation.ts'

export interface Binding extends Omit<AnswerOptions, 'logs'> {
  /** Absent: this server is connected to no hosts. */
  readonly openLogs?: OpenLogs
}

export function bind(server: FastifyInstance, binding: Binding): void {
  answerPreflights(server, routeOf)
  const options: AnswerOptions = { ...binding, logs: makeLogStreams(binding.app, binding.openLogs) }
  const admitted = new WeakMap<FastifyRequest, Admitted>()
  for (const [operation, endpoint] of Object.entries(api) as Array<[OperationId, Endpoint]>) {
    server.route({
      method: endpoint.method,
      url: routeOf(endpoint),
      config: { operation, endpoint },
      // A stream without its body would have no end.
      exposeHeadRoute: !['events', 'text', 'file'].includes(endpoint.answers),
      bodyLimit: endpoint.maxBytes ?? (isInference(endpoint) ? limits.inferenceBodyBytes : limits.bodyBytes),
      onRequest: async (request, reply) => {
        const caller = await admitHead(options, endpoint, request, reply)
        if (!caller.ok) return send(reply, failurePage(endpoint, caller), caller)
        admitted.set(request, caller.value)
        return undefined
      },
      handler: (request, reply) => {
        const caller = admitted.get(request)
        if (caller === undefined) throw new Error('a request bypassed the access check')
        const read = readInput(endpoint, request)
        if (!read.ok) return send(reply, read.page)
        const key = readIdempotencyKey(endpoint, request)
        if (!key.ok) return send(reply, failurePage(endpoint, key))
        const { input } = read
        const call = { operation, endpoint, caller, input, idempotencyKey: key.value, request, reply }
        return answers[endpoint.answers](options, call)
      },
    })
  }
}

function routeOf({ path, restOfPath }: Endpoint): string {
  const routePath = restOfPath === true ? path.replace(/\{\w+\}$/, '*') : path
  return routePath.replaceAll(/\{(\w+)\}/g, ':$1')
}

/** Renames the wildcard parameter, since the router has no name for the end of a path. */
function paramsOf({ path, restOfPath }: Endpoint, params: unknown): unknown {
  if (restOfPath !== true) return params
  const { '*': wildcard, ...others } = params as Record<string, string>
  return { ...others, [/\{(\w+)\}$/.exec(path)?.[1] ?? '']: wildcard }
}

function readInput(
  endpoint: Endpoint,
  request: FastifyRequest,
): { ok: true; input: Call['input'] } | { ok: false; page: ErrorPage } {
  const params = validate(endpoint.params, paramsOf(endpoint, request.params))
  if (!params.ok) return { ok: false, page: errorFormOf(endpoint).writeInvalid('path', params.issues) }
  const query = validate(endpoint.query, request.query)
  if (!query.ok) return { ok: false, page: errorFormOf(endpoint).writeInvalid('query', query.issues) }
  if (endpoint.takes === 'multipart')
    return { ok: true, input: { params: params.value, query: query.value, body: undefined } }
  const body = validate(endpoint.body, request.body)
  if (!body.ok) return { ok: false, page: errorFormOf(endpoint).writeInvalid('body', body.issues) }
  return { ok: true, input: { params: params.value, query: query.value, body: body.value } }
}

function readIdempotencyKey(endpoint: Endpoint, request: FastifyRequest): Result<string | undefined> {
  const key = request.headers['idempotency-key']
  if (!endpoint.idempotent || key === undefined) return { ok: true, value: undefined }
  if (
    typeof key === 'string' &&
    key.length >= 1 &&
    key.length <= limits.idempotencyKeyChars &&
    /^[\x20-\x7e]+$/.test(key)
  ) {
    return { ok: true, value: key }
  }
  return fail('bad_idempotency_key', { maxChars: limits.idempotencyKeyChars })
}

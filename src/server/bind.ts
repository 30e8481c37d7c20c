/**
 * The contract as HTTP. Every operation goes the same way: the key is checked and counted, then its scope, all from the
 * head of the request; then the body is read, the input checked, and the handler runs. Each step answers in the form of
 * the operation's family.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Actor, App } from '../app/app.ts'
import type { BodyBudget } from '../base/body-budget.ts'
import type { Instant } from '../base/instant.ts'
import { limits, defaultRates } from '../base/limits.ts'
import { fail, ok, type Failure, type Result } from '../base/result.ts'
import { api, type OperationId } from '../contract/api.ts'
import type { Access, Endpoint } from '../contract/endpoint.ts'
import { holdsScope } from '../domain/api-key.ts'
import type { Caller } from '../gateway/call.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { Authenticated, Authenticator } from './authenticate.ts'
import { credentialsOf, type Credentials } from './credentials.ts'
import { failurePage, validationPage, type ErrorPage } from './error-page.ts'
import { resumeAfter, type EventStreams } from './event-stream.ts'
import type { HandlerRequest, Handlers } from './handler.ts'
import { isPackable, sendJson } from './json-answer.ts'
import { answerChat, answerMedia, findServedModel, listServedModels, streamMediaAnswer } from './inference-door.ts'
import type { RateAnswer, RateLimiter } from './rate-limit.ts'
import { isLargeBody, openBodyRoom } from './request-body.ts'
import { makeLogStreams, type LogStreams, type OpenLogs } from './rental-logs.ts'
import { validate } from './validation.ts'

export interface Binding {
  readonly app: App
  readonly handlers: Handlers
  readonly authenticator: Authenticator
  readonly rates: RateLimiter
  readonly streams: EventStreams
  readonly gateway: Gateway
  /** Absent: this server is connected to no hosts. */
  readonly openLogs?: OpenLogs
  readonly bodies: BodyBudget
  /** Parses every answer by its schema: for tests and development. */
  readonly checkResponses: boolean
}

const nobody: Actor = { accountId: '', personId: '', keyId: '', role: 'viewer', scopes: [] }

type Bound = Binding & { readonly logs: LogStreams }

type Admitted = Actor | Authenticated

export function bind(server: FastifyInstance, options: Binding): void {
  const binding: Bound = { ...options, logs: makeLogStreams(options.app, options.openLogs) }
  const admitted = new WeakMap<FastifyRequest, Admitted>()
  for (const [operation, endpoint] of Object.entries(api) as Array<[OperationId, Endpoint]>) {
    server.route({
      method: endpoint.method,
      url: routeOf(endpoint),
      config: { operation, endpoint },
      // A stream without its body would have no end.
      exposeHeadRoute: endpoint.media === undefined || endpoint.media === 'text/html',
      bodyLimit: endpoint.inference ? limits.inferenceBodyBytes : limits.bodyBytes,
      onRequest: async (request, reply) => {
        const caller = await admitHead(binding, endpoint, request, reply)
        if (!caller.ok) return send(reply, failurePage(endpoint, caller), caller)
        admitted.set(request, caller.value)
        return undefined
      },
      handler: (request, reply) => {
        const caller = admitted.get(request)
        if (caller === undefined) throw new Error('a request came past the check of its sender')
        return answer(binding, operation, endpoint, caller, request, reply)
      },
    })
  }
}

function routeOf({ path, restOfPath }: Endpoint): string {
  const rest = restOfPath === true ? path.replace(/\{\w+\}$/, '*') : path
  return rest.replaceAll(/\{(\w+)\}/g, ':$1')
}

/** The rest of a path comes under no name. */
function paramsOf({ path, restOfPath }: Endpoint, params: unknown): unknown {
  if (restOfPath !== true) return params
  const { '*': rest, ...others } = params as Record<string, string>
  return { ...others, [/\{(\w+)\}$/.exec(path)?.[1] ?? '']: rest }
}

async function answer(
  binding: Bound,
  operation: OperationId,
  endpoint: Endpoint,
  caller: Admitted,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  const inferenceId = String(reply.getHeader('X-Inference-Request-Id'))
  const read = readInput(endpoint, request)
  if (!read.ok) return send(reply, read.page)
  const idempotencyKey = readIdempotencyKey(endpoint, request)
  if (!idempotencyKey.ok) return send(reply, failurePage(endpoint, idempotencyKey))

  if (operation === 'followEvents' || operation === 'followAllEvents') {
    return follow(binding, endpoint, caller, request, reply)
  }
  if (operation === 'getRentalLogs') return showLogs(binding, endpoint, caller, read.input, request, reply)
  if (operation === 'createChatCompletion' || operation === 'createCompletion') {
    const kind = operation === 'createCompletion' ? 'completion' : 'chat'
    await answerChat(binding.gateway, inferring(binding, caller), kind, request, reply, inferenceId)
    return reply
  }
  if (wantsEvents(endpoint, read.input.body)) {
    const by = inferring(binding, caller)
    const asked = { caller: by, operation, parsed: read.input.body, request, reply, requestId: inferenceId }
    await streamMediaAnswer(binding.gateway, asked)
    return reply
  }
  const result = await handle(binding, operation, endpoint, {
    caller,
    read,
    request,
    reply,
    inferenceId,
    idempotencyKey: idempotencyKey.value,
  })
  if (!result.ok) {
    const refused = countRefusal(binding, endpoint, result, request, reply)
    return send(reply, failurePage(endpoint, refused), refused)
  }
  if (endpoint.media === 'audio/mpeg') return reply.type(endpoint.media).send(result.value)
  if (binding.checkResponses) endpoint.response.parse(result.value)
  if (endpoint.media === 'text/html') {
    return reply
      .header('Content-Security-Policy', "default-src 'none'; style-src 'unsafe-inline'; img-src data:")
      .type('text/html; charset=utf-8')
      .send(result.value)
  }
  return sendJson(request, reply, { value: result.value, mayPack: isPackable(operation, endpoint) })
}

interface Asked {
  readonly caller: Admitted
  readonly read: { readonly input: Input }
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly inferenceId: string
  readonly idempotencyKey: string | undefined
}

/** By the gateway, where models run; else by the operation's handler. */
async function handle(
  binding: Binding,
  operation: OperationId,
  endpoint: Endpoint,
  asked: Asked,
): Promise<Result<unknown>> {
  const { caller, read, request, reply } = asked
  if (operation === 'listModels') {
    return ok(listServedModels(binding.gateway, inferring(binding, caller)))
  }
  if (operation === 'getModel') {
    const { id } = read.input.params as { id: string }
    return findServedModel(binding.gateway, inferring(binding, caller), id)
  }
  if (endpoint.inference) {
    const by = inferring(binding, caller)
    const parsed = read.input.body
    return answerMedia(binding.gateway, { caller: by, operation, parsed, request, reply, requestId: asked.inferenceId })
  }
  const handler = binding.handlers[operation as keyof Handlers] as (
    app: App,
    request: HandlerRequest<OperationId>,
  ) => Promise<Result<unknown>>
  return handler(binding.app, {
    ...read.input,
    operation,
    actor: caller,
    requestId: request.id,
    baseUrl: baseUrlOf(request),
    idempotencyKey: asked.idempotencyKey,
  } as HandlerRequest<OperationId>)
}

function wantsEvents(endpoint: Endpoint, body: unknown): boolean {
  return endpoint.chunk !== undefined && (body as { stream?: unknown }).stream === true
}

function inferring(binding: Binding, caller: Admitted): Caller {
  if (!('key' in caller)) throw new Error('models are called with a key')
  return binding.authenticator.callerOf(caller)
}

/** Decides from the head whether the sender may call this and has room for what it announces. */
async function admitHead(
  binding: Binding,
  endpoint: Endpoint,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Result<Admitted>> {
  const caller = await admit(binding, endpoint, request, reply)
  if (!caller.ok || caller.value === nobody) return caller
  if (endpoint.inference && isLargeBody(request)) {
    const refused = await binding.gateway.refusalBeforeBody(inferring(binding, caller.value))
    if (refused !== undefined) return refused
  }
  return openBodyRoom(binding.bodies, caller.value.accountId, request, reply) ?? caller
}

/** Counts the caller, checks the key and its scope. */
async function admit(
  binding: Binding,
  endpoint: Endpoint,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Result<Admitted>> {
  const { rates, authenticator } = binding
  if (endpoint.access === 'public') {
    const rate = rates.takeLocal(`address:${request.ip}`, defaultRates.perAddress)
    return rate.allowed ? { ok: true, value: nobody } : tooMany(reply, rate, binding.app.clock.now())
  }
  const caller = await authenticator.authenticate(credentialsOf(request))
  if (!caller.ok) return countFailedKey(binding, caller, request, reply)
  const rate = await rates.take(`key:${caller.value.keyId}`, caller.value.requestsPerMinute ?? defaultRates.perKey)
  setRateHeaders(reply, rate, binding.app.clock.now())
  if (!rate.allowed) return tooMany(reply, rate, binding.app.clock.now())
  return mayCall(endpoint.access, caller.value) ? caller : missingScope(endpoint.access)
}

/** Only those who fail are counted by address: a thousand customers may share one. */
export function countFailedKey(
  { rates, app }: Pick<Binding, 'rates' | 'app'>,
  failure: Failure,
  request: FastifyRequest,
  reply: FastifyReply,
): Failure {
  const rate = rates.takeLocal(`failed:${request.ip}`, defaultRates.perAddressUnauthenticated)
  return rate.allowed ? failure : tooMany(reply, rate, app.clock.now())
}

/** A secret in the body of a public operation that was refused counts like a wrong key. */
function countRefusal(
  binding: Binding,
  endpoint: Endpoint,
  failure: Failure,
  request: FastifyRequest,
  reply: FastifyReply,
): Failure {
  if (endpoint.access !== 'public' || failure.kind !== 'forbidden') return failure
  return countFailedKey(binding, failure, request, reply)
}

/** Only what can stand in a command line is taken over. */
function baseUrlOf(request: FastifyRequest): string | undefined {
  return /^[\w.:[\]-]{1,260}$/.test(request.host) ? `${request.protocol}://${request.host}` : undefined
}

function mayCall(access: Access, caller: Authenticated): boolean {
  if (access === 'public' || access === 'any-key') return true
  return access.some((scope) => holdsScope(caller.scopes, scope))
}

function missingScope(access: Access): Failure {
  const needed = access === 'public' || access === 'any-key' ? '' : access.join(' or ')
  return fail('forbidden', `This key lacks the scope ${needed}`, { reason: 'missing_scope' })
}

function setRateHeaders(reply: FastifyReply, rate: RateAnswer, now: Instant): void {
  reply.header('X-RateLimit-Limit', rate.limit)
  reply.header('X-RateLimit-Remaining', Math.max(0, rate.remaining))
  reply.header('X-RateLimit-Reset', Math.max(0, Math.ceil((rate.resetAt - now) / 1_000)))
}

export function tooMany(reply: FastifyReply, rate: RateAnswer, now: Instant): Failure {
  setRateHeaders(reply, rate, now)
  return fail('rate_limited', `More than ${rate.limit} requests a minute`, {
    reason: 'rate_limited',
    retryAfterMs: Math.max(1_000, rate.resetAt - now),
  })
}

type Input = { readonly params: unknown; readonly query: unknown; readonly body: unknown }

function readInput(
  endpoint: Endpoint,
  request: FastifyRequest,
): { ok: true; input: Input } | { ok: false; page: ErrorPage } {
  const params = validate(endpoint.params, paramsOf(endpoint, request.params))
  if (!params.ok) return { ok: false, page: validationPage(endpoint.family, 'path', params.issues) }
  const query = validate(endpoint.query, request.query)
  if (!query.ok) return { ok: false, page: validationPage(endpoint.family, 'query', query.issues) }
  const body = validate(endpoint.body, request.body)
  if (!body.ok) return { ok: false, page: validationPage(endpoint.family, 'body', body.issues) }
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
  return fail('invalid', `Idempotency-Key has 1 to ${limits.idempotencyKeyChars} printable characters`, {
    reason: 'bad_idempotency_key',
  })
}

/** The answer is a stream, which owns the socket from here on. */
async function follow(
  binding: Binding,
  endpoint: Endpoint,
  actor: Actor,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  const lastId = request.headers['last-event-id']
  const { after } = request.query as { after?: string }
  const credentials = credentialsOf(request)
  const stillValid = (): Promise<boolean> => mayStillCall(binding, endpoint, credentials)
  handHeadersOver(reply)
  const opened = await binding.streams.open(
    actor,
    {
      of: endpoint === api.followAllEvents ? 'everyone' : 'account',
      after: resumeAfter(typeof lastId === 'string' ? lastId : undefined, after),
      stillValid,
    },
    reply.raw,
  )
  if (!opened.ok) return send(reply, failurePage(endpoint, opened), opened)
  return reply.hijack()
}

/**
 * For what goes on for long. Also the scope is asked for again: a member who was made a viewer keeps the key, and may do
 * less with it. That nothing can be looked up at the moment says nothing of this caller.
 */
async function mayStillCall(binding: Binding, endpoint: Endpoint, credentials: Credentials): Promise<boolean> {
  const caller = await binding.authenticator.authenticate(credentials)
  return caller.ok ? mayCall(endpoint.access, caller.value) : caller.kind === 'unavailable'
}

async function showLogs(
  binding: Bound,
  endpoint: Endpoint,
  actor: Actor,
  input: Input,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  const { id } = input.params as { id: string }
  const { follow = false, tail } = input.query as { follow?: boolean; tail: number }
  const credentials = credentialsOf(request)
  const stillValid = (): Promise<boolean> => mayStillCall(binding, endpoint, credentials)
  handHeadersOver(reply)
  const opened = await binding.logs.open(actor, { id, follow, tail, stillValid }, reply.raw)
  if (!opened.ok) return send(reply, failurePage(endpoint, opened), opened)
  return reply.hijack()
}

/** For an answer that is written past the reply. */
function handHeadersOver(reply: FastifyReply): void {
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value)
  }
}

export function send(reply: FastifyReply, page: ErrorPage, failure?: Failure): FastifyReply {
  if (failure?.retryAfterMs !== undefined) reply.header('Retry-After', Math.ceil(failure.retryAfterMs / 1_000))
  return reply.code(page.status).type('application/json; charset=utf-8').send(JSON.stringify(page.body))
}

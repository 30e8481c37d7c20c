/**
 * Checks a request by its head alone: the key, its request rate, its scope, and room for the body it announces. Nothing
 * of the body is read before all of them pass.
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Actor, App } from '../../app/app.ts'
import { refuseOldSignIn } from '../../app/person/recent-sign-in.ts'
import { refuseWithoutTerms } from '../../app/person/terms.ts'
import type { BodyBudget } from '../../domain/body-budget.ts'
import type { Instant } from '../../base/instant.ts'
import { defaultRates } from '../../base/limits.ts'
import { fail, type Failure, type Result } from '../../contract/result.ts'
import { isInference, type Access, type Endpoint } from '../../contract/endpoint.ts'
import { holdsScope } from '../../domain/api-key.ts'
import type { Caller } from '../../gateway/call.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import type { Authenticated, Authenticator } from './authenticate.ts'
import { credentialsOf, type Credentials } from './credentials.ts'
import { checkOrigin } from './cross-origin.ts'
import type { RateAnswer, RateLimiter } from './rate-limit.ts'
import { isLargeBody, openBodyRoom } from './request-body.ts'

export interface AccessOptions {
  readonly app: App
  readonly authenticator: Authenticator
  readonly rates: RateLimiter
  readonly gateway: Gateway
  readonly bodies: BodyBudget
}

/** Public operations have an actor without account and scopes. */
export type Admitted = Actor | Authenticated

const anonymous: Actor = { accountId: '', personId: '', keyId: '', role: 'viewer', scopes: [] }

export async function admitHead(
  options: AccessOptions,
  endpoint: Endpoint,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Result<Admitted>> {
  const caller = await admit(options, endpoint, request, reply)
  if (!caller.ok || caller.value === anonymous) return caller
  if (isInference(endpoint) && isLargeBody(request)) {
    const refused = await options.gateway.refusalBeforeBody(inferenceCaller(options, caller.value))
    if (refused !== undefined) return refused
  }
  return openBodyRoom(options.bodies, caller.value.accountId, request, reply) ?? caller
}

async function admit(
  options: AccessOptions,
  endpoint: Endpoint,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Result<Admitted>> {
  const { rates, authenticator, app } = options
  if (endpoint.access === 'public') {
    const rate = rates.takeByAddress('address', request.ip, defaultRates.perAddress)
    return rate.allowed ? { ok: true, value: anonymous } : tooMany(reply, rate, app.clock.now())
  }
  const credentials = credentialsOf(request)
  if (endpoint.access === 'person') return admitPerson(options, endpoint, credentials, request, reply)
  const caller = await authenticator.authenticate(credentials)
  const foreign = checkOrigin(request, reply, credentials, caller)
  if (!caller.ok) return countFailedKey(options, caller, request, reply)
  const rate = await rates.take(`key:${caller.value.keyId}`, caller.value.requestsPerMinute ?? defaultRates.perKey)
  setRateHeaders(reply, rate, app.clock.now())
  if (!rate.allowed) return tooMany(reply, rate, app.clock.now())
  if (foreign !== undefined) return foreign
  if (!mayCall(endpoint.access, caller.value)) return missingScope(endpoint.access)
  return refuseDangerous(app, endpoint, caller.value) ?? refuseWithoutTerms(endpoint, caller.value.key) ?? caller
}

async function admitPerson(
  options: AccessOptions,
  endpoint: Endpoint,
  credentials: Credentials,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Result<Admitted>> {
  const { rates, authenticator, app } = options
  const caller = await authenticator.authenticatePerson(credentials)
  if (!caller.ok) return countFailedKey(options, caller, request, reply)
  const rate = await rates.take(`person:${caller.value.personId}`, defaultRates.perKey)
  setRateHeaders(reply, rate, app.clock.now())
  if (!rate.allowed) return tooMany(reply, rate, app.clock.now())
  return refuseDangerous(app, endpoint, caller.value) ?? caller
}

function refuseDangerous({ clock }: App, endpoint: Endpoint, actor: Actor): Failure | undefined {
  return endpoint.needsRecentSignIn === true ? refuseOldSignIn(clock, actor) : undefined
}

export function inferenceCaller({ authenticator }: Pick<AccessOptions, 'authenticator'>, caller: Admitted): Caller {
  if (!('key' in caller)) throw new Error('inference requests need a key')
  return authenticator.callerOf(caller)
}

/** Only failures are counted by address, since a thousand customers may share one. */
export function countFailedKey(
  { rates, app }: Pick<AccessOptions, 'rates' | 'app'>,
  failure: Failure,
  request: FastifyRequest,
  reply: FastifyReply,
): Failure {
  const rate = rates.takeByAddress('failed', request.ip, defaultRates.perAddressUnauthenticated)
  return rate.allowed ? failure : tooMany(reply, rate, app.clock.now())
}

/** Counts a wrong secret in the body of a public operation like a wrong key. */
export function countRefusal(
  options: Pick<AccessOptions, 'rates' | 'app'>,
  endpoint: Endpoint,
  failure: Failure,
  request: FastifyRequest,
  reply: FastifyReply,
): Failure {
  if (endpoint.access !== 'public' || failure.kind !== 'forbidden') return failure
  return countFailedKey(options, failure, request, reply)
}

/**
 * Checks open streams. The scope is checked again too: a member demoted to viewer keeps the key. A failed lookup does
 * not end the stream.
 */
export async function mayStillCall(
  { authenticator }: Pick<AccessOptions, 'authenticator'>,
  endpoint: Endpoint,
  credentials: Credentials,
): Promise<boolean> {
  const caller = await authenticator.authenticate(credentials)
  return caller.ok ? mayCall(endpoint.access, caller.value) : caller.kind === 'unavailable'
}

export function mayCall(access: Access, caller: Authenticated): boolean {
  if (access === 'public' || access === 'any-key') return true
  if (access === 'person') return caller.session !== undefined
  return access.some((scope) => holdsScope(caller.scopes, scope))
}

export function missingScope(access: Access): Failure {
  const needed = typeof access === 'string' ? '' : access.join(' or ')
  return fail('missing_scope', { scope: needed })
}

function setRateHeaders(reply: FastifyReply, rate: RateAnswer, now: Instant): void {
  reply.header('X-RateLimit-Limit', rate.limit)
  reply.header('X-RateLimit-Remaining', Math.max(0, rate.remaining))
  reply.header('X-RateLimit-Reset', Math.max(0, Math.ceil((rate.resetAt - now) / 1_000)))
}

export function tooMany(reply: FastifyReply, rate: RateAnswer, now: Instant): Failure {
  setRateHeaders(reply, rate, now)
  return fail('rate_limited', { limit: rate.limit, retryAfterMs: Math.max(1_000, rate.resetAt - now) })
}

/** Shared by the paths of the console: limits, the body, the caller, the session that a browser gets, and refusals. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { Actor, App } from '../../app/app.ts'
import type { Browser } from '../../app/person/session.ts'
import { defaultRates, limits } from '../../base/limits.ts'
import { api } from '../../contract/api.ts'
import { v2Form } from '../../contract/error-form.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { countFailedKey, tooMany } from '../http/access.ts'
import { send } from '../http/answer.ts'
import type { Authenticator } from '../http/authenticate.ts'
import { credentialsOf, isCrossSite, sessionCookie, sessionTokenOf } from '../http/credentials.ts'
import { failurePage } from '../http/error-page.ts'
import type { RateLimiter } from '../http/rate-limit.ts'
import { validate } from '../http/validation.ts'
import type { WelcomeOptions } from './console-welcome.ts'

export interface ConsoleOptions {
  readonly app: App
  readonly authenticator: Authenticator
  readonly rates: RateLimiter
  readonly welcome: WelcomeOptions
}

/** A request that was admitted, with a valid body. */
export interface Admitted<Body> {
  readonly body: Body
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

/** Adds a path that anybody may post to. */
export function addPath<Schema extends z.ZodType>(
  server: FastifyInstance,
  options: ConsoleOptions,
  path: string,
  schema: Schema,
  answer: (admitted: Admitted<z.output<Schema>>) => Promise<Result<object>>,
): void {
  addAdmittedPath(server, options, path, schema, async () => ok(undefined), answer)
}

/** Adds a path that only a person who is signed in may post to. */
export function addPersonPath<Schema extends z.ZodType>(
  server: FastifyInstance,
  options: ConsoleOptions,
  path: string,
  schema: Schema,
  answer: (admitted: Admitted<z.output<Schema>> & { readonly caller: Actor }) => Promise<Result<object>>,
): void {
  const admit = async (request: FastifyRequest, reply: FastifyReply): Promise<Result<Actor>> => {
    const caller = await options.authenticator.authenticatePerson(credentialsOf(request))
    return caller.ok ? caller : countFailedKey(options, caller, request, reply)
  }
  addAdmittedPath(server, options, path, schema, admit, answer)
}

function addAdmittedPath<Schema extends z.ZodType, Caller>(
  server: FastifyInstance,
  options: ConsoleOptions,
  path: string,
  schema: Schema,
  admit: (request: FastifyRequest, reply: FastifyReply) => Promise<Result<Caller>>,
  answer: (admitted: Admitted<z.output<Schema>> & { readonly caller: Caller }) => Promise<Result<object>>,
): void {
  server.post(path, async (request, reply) => {
    const refused = refuseRequest(options, request, reply, 'sign-in')
    if (refused !== undefined) return refuse(reply, refused)
    const caller = await admit(request, reply)
    if (!caller.ok) return refuse(reply, caller)
    const body = validate(schema, request.body)
    if (!body.ok) return send(reply, v2Form.writeInvalid('body', body.issues))
    const admitted = { body: body.value as z.output<Schema>, caller: caller.value, request, reply }
    const answered = await answer(admitted)
    return answered.ok ? reply.send(answered.value) : refuse(reply, answered)
  })
}

/** Applies the limits of a public operation; other sites may neither sign somebody in nor out. */
export function refuseRequest(
  options: ConsoleOptions,
  request: FastifyRequest,
  reply: FastifyReply,
  counted: Counted = 'address',
): Failure | undefined {
  return countRequest(options, request, reply, counted) ?? (isCrossSite(request) ? fail('cross_site') : undefined)
}

/** `sign-in`: it may write a row for somebody unknown, so the limit is lower. */
type Counted = 'address' | 'sign-in'

export function countRequest(
  { rates, app }: ConsoleOptions,
  request: FastifyRequest,
  reply: FastifyReply,
  counted: Counted,
): Failure | undefined {
  const limit = counted === 'address' ? defaultRates.perAddress : defaultRates.perAddressUnauthenticated
  const rate = rates.takeByAddress(counted, request.ip, limit)
  return rate.allowed ? undefined : tooMany(reply, rate, app.clock.now())
}

export function browserOf(request: FastifyRequest): Browser {
  return {
    address: request.ip,
    name: request.headers['user-agent'],
    isHttps: isSecure(request),
    replaces: sessionTokenOf(request.headers)?.token,
  }
}

/** Gives the browser its session. */
export function openSession(request: FastifyRequest, reply: FastifyReply, token: string): FastifyReply {
  const maxAgeS = limits.consoleSessionMs / 1_000
  return reply.header('Set-Cookie', sessionCookie(token, { maxAgeS, isSecure: isSecure(request) }))
}

export function isSecure(request: FastifyRequest): boolean {
  return request.protocol === 'https'
}

export function refuse(reply: FastifyReply, failure: Failure): FastifyReply {
  return send(reply, failurePage(api.getMe, failure), failure)
}

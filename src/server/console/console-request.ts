/** Shared by the paths of the console: the caller, the session that a browser gets, and refusals. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../../app/app.ts'
import type { Browser } from '../../app/person/session.ts'
import { defaultRates, limits } from '../../base/limits.ts'
import { api } from '../../contract/api.ts'
import { fail, type Failure } from '../../contract/result.ts'
import { tooMany } from '../http/access.ts'
import { send } from '../http/answer.ts'
import type { Authenticator } from '../http/authenticate.ts'
import { isCrossSite, sessionCookie, sessionTokenOf } from '../http/credentials.ts'
import { failurePage } from '../http/error-page.ts'
import type { RateLimiter } from '../http/rate-limit.ts'
import type { WelcomeOptions } from './console-welcome.ts'

export interface ConsoleOptions {
  readonly app: App
  readonly authenticator: Authenticator
  readonly rates: RateLimiter
  readonly welcome: WelcomeOptions
}

/** Applies the limits of a public operation; other sites may neither sign somebody in nor out. */
export function admitAddress(
  options: ConsoleOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Failure | undefined {
  const rate = options.rates.takeByAddress('address', request.ip, defaultRates.perAddress)
  if (!rate.allowed) return tooMany(reply, rate, options.app.clock.now())
  if (!isCrossSite(request)) return undefined
  return fail('cross_site')
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

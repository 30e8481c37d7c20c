/**
 * The server side of the web console: sign-in, sign-out and the sign-in page's hints. Everything else goes through the
 * contract's operations, with the session cookie in place of a key.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { App } from '../../app/app.ts'
import { endConsoleSession, startConsoleSession } from '../../app/account/console-session.ts'
import { defaultRates, limits } from '../../base/limits.ts'
import { fail, type Failure, type Result } from '../../contract/result.ts'
import { api } from '../../contract/api.ts'
import { SESSION_PATH, WELCOME_PATH } from '../../contract/session.ts'
import { openWelcome, signIn } from '../../contract/session-body.ts'
import { transact } from '../../store/platform/database.ts'
import type { Authenticated, Authenticator } from '../http/authenticate.ts'
import { countFailedKey, tooMany } from '../http/access.ts'
import { send } from '../http/answer.ts'
import { noteDemoTaken, openDemoLink, welcomeFor, type WelcomeOptions } from './console-welcome.ts'
import { isCrossSite, sessionCookie, sessionTokenOf } from '../http/credentials.ts'
import { v2Form } from '../../contract/error-form.ts'
import { failurePage } from '../http/error-page.ts'
import type { RateLimiter } from '../http/rate-limit.ts'
import { validate } from '../http/validation.ts'

export interface ConsoleOptions {
  readonly app: App
  readonly authenticator: Authenticator
  readonly rates: RateLimiter
  readonly welcome: WelcomeOptions
}

export function addConsoleRoutes(server: FastifyInstance, options: ConsoleOptions): void {
  const { app, welcome } = options
  server.post(SESSION_PATH, async (request, reply) => {
    const counted = admitAddress(options, request, reply)
    if (counted !== undefined) return refuse(reply, counted)
    const body = validate(signIn, request.body)
    if (!body.ok) return send(reply, v2Form.writeInvalid('body', body.issues))
    const { key } = body.value as z.output<typeof signIn>
    const caller = await checkKey(options, key, request, reply)
    if (!caller.ok) return refuse(reply, caller)
    const { keyId, accountId } = caller.value
    const replaces = sessionTokenOf(request.headers)
    const token = await transact(app.database, (tx) => startConsoleSession(tx, keyId, replaces))
    noteDemoTaken(welcome, accountId)
    const maxAgeS = limits.consoleSessionMs / 1_000
    return reply.header('Set-Cookie', sessionCookie(token, { maxAgeS, isSecure: isSecure(request) })).send({})
  })

  server.delete(SESSION_PATH, async (request, reply) => {
    const counted = admitAddress(options, request, reply)
    if (counted !== undefined) return refuse(reply, counted)
    const token = sessionTokenOf(request.headers)
    if (token !== undefined) await transact(app.database, (tx) => endConsoleSession(tx, token))
    return reply.header('Set-Cookie', sessionCookie('', { maxAgeS: 0, isSecure: isSecure(request) })).send({})
  })

  server.get(WELCOME_PATH, async (request, reply) => {
    const counted = admitAddress(options, request, reply)
    return counted === undefined ? welcomeFor(welcome, request) : refuse(reply, counted)
  })

  server.post(WELCOME_PATH, async (request, reply) => {
    const counted = admitAddress(options, request, reply)
    if (counted !== undefined) return refuse(reply, counted)
    const body = validate(openWelcome, request.body)
    if (!body.ok) return send(reply, v2Form.writeInvalid('body', body.issues))
    const opened = openDemoLink(welcome, (body.value as z.output<typeof openWelcome>).token)
    if (opened !== undefined) return opened
    const failure = fail('link_used')
    return refuse(reply, countFailedKey(options, failure, request, reply))
  })
}

/** Applies the limits of a public operation; other sites may neither sign somebody in nor out. */
function admitAddress(options: ConsoleOptions, request: FastifyRequest, reply: FastifyReply): Failure | undefined {
  const rate = options.rates.takeByAddress('address', request.ip, defaultRates.perAddress)
  if (!rate.allowed) return tooMany(reply, rate, options.app.clock.now())
  if (!isCrossSite(request)) return undefined
  return fail('cross_site')
}

/** Failures are counted by address, together with failed keys. */
async function checkKey(
  options: ConsoleOptions,
  text: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Result<Authenticated>> {
  const caller = await options.authenticator.authenticate({ kind: 'key', text })
  return caller.ok ? caller : countFailedKey(options, caller, request, reply)
}

function isSecure(request: FastifyRequest): boolean {
  return request.protocol === 'https'
}

function refuse(reply: FastifyReply, failure: Failure): FastifyReply {
  return send(reply, failurePage(api.getMe, failure), failure)
}

/**
 * The server side of the web console: sign-in, sign-out and the sign-in page's hints. Everything else goes through the
 * contract's operations, with the session cookie in place of a key.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { endSession, startKeySession } from '../../app/person/session.ts'
import { v2Form } from '../../contract/error-form.ts'
import { fail, type Result } from '../../contract/result.ts'
import { openWelcome, signIn } from '../../contract/session-body.ts'
import { SESSION_PATH, SIGN_IN_PATH, WELCOME_PATH } from '../../contract/session.ts'
import { transact } from '../../store/platform/database.ts'
import { countFailedKey } from '../http/access.ts'
import { send } from '../http/answer.ts'
import type { Authenticated } from '../http/authenticate.ts'
import { sessionCookie, sessionTokenOf } from '../http/credentials.ts'
import { validate } from '../http/validation.ts'
import { admitAddress, browserOf, isSecure, openSession, refuse, type ConsoleOptions } from './console-request.ts'
import { noteDemoTaken, openDemoLink, welcomeFor } from './console-welcome.ts'
import { addEmailCodeRoutes } from './email-code-routes.ts'
import { addPasskeyRoutes } from './passkey-routes.ts'
import { signInWays } from './sign-in-ways.ts'
import { addSsoRoutes } from './sso-routes.ts'

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
    const token = await transact(app.database, (tx) => startKeySession(tx, keyId, browserOf(request)))
    noteDemoTaken(welcome, accountId)
    return openSession(request, reply, token).send({})
  })

  server.get(SIGN_IN_PATH, async (request, reply) => {
    const counted = admitAddress(options, request, reply)
    return counted === undefined ? signInWays(app) : refuse(reply, counted)
  })
  addSsoRoutes(server, options)
  addEmailCodeRoutes(server, options)
  addPasskeyRoutes(server, options)

  server.delete(SESSION_PATH, async (request, reply) => {
    const counted = admitAddress(options, request, reply)
    if (counted !== undefined) return refuse(reply, counted)
    const session = sessionTokenOf(request.headers)
    if (session !== undefined) await transact(app.database, (tx) => endSession(tx, session.token))
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

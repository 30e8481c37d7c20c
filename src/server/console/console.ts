/**
 * The server side of the web console: sign-in, sign-out and the sign-in page's hints. Everything else goes through the
 * contract's operations, with the session cookie in place of a key.
 */
import type { FastifyInstance } from 'fastify'
import { endSession, startKeySession } from '../../app/person/session.ts'
import { fail, ok } from '../../contract/result.ts'
import { openWelcome, signIn } from '../../contract/session-body.ts'
import { SESSION_PATH, SIGN_IN_PATH, WELCOME_PATH } from '../../contract/session.ts'
import { transact } from '../../store/platform/database.ts'
import { countFailedKey } from '../http/access.ts'
import { sessionCookie, sessionTokenOf } from '../http/credentials.ts'
import {
  addPath,
  browserOf,
  isSecure,
  openSession,
  refuse,
  refuseRequest,
  type ConsoleOptions,
} from './console-request.ts'
import { noteDemoTaken, openDemoLink, welcomeFor } from './console-welcome.ts'
import { addEmailCodeRoutes } from './email-code-routes.ts'
import { addPasskeyRoutes } from './passkey-routes.ts'
import { signInWays } from './sign-in-ways.ts'
import { addSsoRoutes } from './sso-routes.ts'

export function addConsoleRoutes(server: FastifyInstance, options: ConsoleOptions): void {
  const { app, welcome } = options
  addPath(server, options, SESSION_PATH, signIn, async ({ body, request, reply }) => {
    const caller = await options.authenticator.authenticate({ kind: 'key', text: body.key })
    // Failures are counted by address, together with failed keys.
    if (!caller.ok) return countFailedKey(options, caller, request, reply)
    const { keyId, accountId } = caller.value
    const token = await transact(app.database, (tx) => startKeySession(tx, keyId, browserOf(request)))
    noteDemoTaken(welcome, accountId)
    openSession(request, reply, token)
    return ok({})
  })

  server.get(SIGN_IN_PATH, async (request, reply) => {
    const refused = refuseRequest(options, request, reply)
    return refused === undefined ? signInWays(app) : refuse(reply, refused)
  })
  addSsoRoutes(server, options)
  addEmailCodeRoutes(server, options)
  addPasskeyRoutes(server, options)

  server.delete(SESSION_PATH, async (request, reply) => {
    const refused = refuseRequest(options, request, reply)
    if (refused !== undefined) return refuse(reply, refused)
    const session = sessionTokenOf(request.headers)
    if (session !== undefined) await transact(app.database, (tx) => endSession(tx, session.token))
    return reply.header('Set-Cookie', sessionCookie('', { maxAgeS: 0, isSecure: isSecure(request) })).send({})
  })

  server.get(WELCOME_PATH, async (request, reply) => {
    const refused = refuseRequest(options, request, reply)
    return refused === undefined ? welcomeFor(welcome, request) : refuse(reply, refused)
  })

  addPath(server, options, WELCOME_PATH, openWelcome, async ({ body, request, reply }) => {
    const opened = openDemoLink(welcome, body.token)
    return opened === undefined ? countFailedKey(options, fail('link_used'), request, reply) : ok(opened)
  })
}

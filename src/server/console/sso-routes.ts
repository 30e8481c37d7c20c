/**
 * Sign-in at a provider: one path begins it, and the provider sends the browser back to the other. Both answer with a
 * redirect. The page gets what went wrong as `?error=REASON&provider=ID`, never as text, which anybody could write.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import {
  beginProviderSignIn,
  finishProviderSignIn,
  providerPurposes,
  type FinishedSignIn,
  type ProviderPurpose,
} from '../../app/person/sso-sign-in.ts'
import { refuseConfined } from '../../app/person/person.ts'
import { refuseOldSignIn } from '../../app/person/recent-sign-in.ts'
import { findSession } from '../../app/person/session.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { providerPath } from '../../contract/session.ts'
import { holdsScope } from '../../domain/api-key.ts'
import { localPath } from '../../domain/local-path.ts'
import type { ConsoleSession } from '../../store/account/console-session.ts'
import { findProvider } from '../../store/account/identity-provider.ts'
import { credentialsOf, isCrossSite, sessionTokenOf } from '../http/credentials.ts'
import { browserName } from './browser-name.ts'
import { browserOf, countRequest, openSession, refuse, type ConsoleOptions } from './console-request.ts'
import { beginFlow, flowOf } from './flow.ts'

const SIGN_IN_PAGE = '/sign-in'

type Query = Readonly<Record<string, unknown>>

export function addSsoRoutes(server: FastifyInstance, options: ConsoleOptions): void {
  server.get(providerPath(':provider'), async (request, reply) => {
    const limited = countRequest(options, request, reply, 'sign-in')
    if (limited !== undefined) return refuse(reply, limited)
    const providerId = (request.params as { provider: string }).provider
    const query = request.query as Query
    const returnTo = localPath(textOf(query.return))
    const purpose = providerPurposes.find((one) => one === (query.purpose ?? 'sign-in'))
    if (purpose === undefined) return redirect(reply, failurePath({ reason: 'bad_request', providerId, returnTo }))
    // Another site may lead somebody to the page, where they decide.
    if (isCrossSite(request)) return redirect(reply, pathWith(SIGN_IN_PAGE, { provider: providerId, next: returnTo }))
    const session = await sessionFor(options, purpose, providerId, request)
    const url = session.ok
      ? await beginProviderSignIn(options.app, {
          providerId,
          purpose,
          flow: beginFlow(request, reply),
          session: session.value,
          returnTo,
        })
      : session
    if (url.ok) return redirect(reply, url.value.href)
    return redirect(reply, failurePath({ reason: url.reason, providerId, returnTo, purpose }))
  })

  // The browser comes from another site, without its session: the row of the sign-in and the cookie of the flow count.
  server.get(`${providerPath(':provider')}/callback`, async (request, reply) => {
    const limited = countRequest(options, request, reply, 'sign-in')
    if (limited !== undefined) return refuse(reply, limited)
    const providerId = (request.params as { provider: string }).provider
    const finished = await finishProviderSignIn(options.app, {
      providerId,
      flow: flowOf(request),
      search: new URL(request.url, 'http://localhost').searchParams,
      browser: browserOf(request),
      browserName: browserName(request),
    })
    if (!finished.ok) return redirect(reply, failurePath({ reason: finished.reason, providerId, returnTo: '/' }))
    const { value } = finished
    if (value.kind === 'session') openSession(request, reply, value.token)
    return redirect(reply, pathAfter(value, providerId))
  })
}

/** The session that the sign-in replaces, renews or adds to. */
async function sessionFor(
  options: ConsoleOptions,
  purpose: ProviderPurpose,
  providerId: string,
  request: FastifyRequest,
): Promise<Result<ConsoleSession | undefined>> {
  const { app, authenticator } = options
  const { database, clock } = app
  if (purpose === 'sign-in') {
    const token = sessionTokenOf(request.headers)
    return ok(token === undefined ? undefined : await findSession(database, clock, token))
  }
  const provider = await findProvider(database.db, providerId)
  if (provider === undefined) return fail('sso_provider_not_found')
  const { account_id: accountId } = provider
  if (purpose === 'test') {
    const caller = await authenticator.authenticate(credentialsOf(request))
    if (!caller.ok) return caller
    const { session, role, scopes } = caller.value
    const isOwn = accountId === caller.value.accountId && role === 'owner'
    return isOwn || holdsScope(scopes, 'operator') ? ok(session) : fail('missing_scope', { scope: 'operator' })
  }
  const caller = await authenticator.authenticatePerson(credentialsOf(request))
  if (!caller.ok) return caller
  const { session } = caller.value
  if (session === undefined) return fail('person_session_required')
  if (purpose === 'step-up') return ok(session)
  if (accountId !== null && accountId !== caller.value.accountId) return fail('sso_provider_not_found')
  return refuseConfined(session) ?? refuseOldSignIn(clock, caller.value) ?? ok(session)
}

interface FailedSignIn {
  readonly reason: string
  readonly providerId: string
  readonly returnTo: string
  readonly purpose?: ProviderPurpose
}

function failurePath({ reason, providerId, returnTo, purpose = 'sign-in' }: FailedSignIn): string {
  const details = { error: reason, provider: providerId }
  return purpose === 'sign-in' ? pathWith(SIGN_IN_PAGE, { ...details, next: returnTo }) : pathWith(returnTo, details)
}

function pathAfter(finished: FinishedSignIn, providerId: string): string {
  const { kind, purpose, returnTo } = finished
  if (kind === 'refused') return failurePath({ reason: finished.failure.reason, providerId, returnTo, purpose })
  if (kind === 'code') return pathWith(SIGN_IN_PAGE, { step: 'code', provider: providerId, next: returnTo })
  if (kind === 'session') return returnTo
  return pathWith(returnTo, { [purpose === 'test' ? 'tested' : 'connected']: providerId })
}

/** `path` is local. */
function pathWith(path: string, values: Readonly<Record<string, string>>): string {
  const url = new URL(path, 'http://localhost')
  for (const [name, value] of Object.entries(values))
    if (name !== 'next' || value !== '/') url.searchParams.set(name, value)
  return `${url.pathname}${url.search}${url.hash}`
}

function redirect(reply: FastifyReply, to: string): FastifyReply {
  return reply.header('Cache-Control', 'no-store').header('Referrer-Policy', 'no-referrer').redirect(to, 303)
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

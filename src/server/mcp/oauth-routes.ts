/**
 * The authorization server for agents: its metadata, and the exchange of a code for an API key. The page on which a person
 * decides is in the console. Every client may call these from anywhere: nothing here depends on a cookie.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { exchangeOauthCode } from '../../app/person/oauth-grant.ts'
import { defaultRates } from '../../base/limits.ts'
import { agentScopes } from '../../contract/oauth.ts'
import type { App } from '../../app/app.ts'
import type { RateLimiter } from '../http/rate-limit.ts'

const TOKEN_PATH = '/oauth/token'
const BODY_BYTES = 10_000

export interface OauthRouteOptions {
  readonly app: App
  readonly rates: RateLimiter
  /** The resource that the keys are for. */
  readonly resourcePath: string
}

const exchange = z.object({
  grant_type: z.literal('authorization_code'),
  code: z.string().min(1).max(200),
  client_id: z.string().min(1).max(500),
  redirect_uri: z.string().min(1).max(2_000),
  code_verifier: z.string().regex(/^[\w.~-]{43,128}$/),
  resource: z.string().optional(),
})

/** Only where people can sign in. */
export function addOauthRoutes(routes: FastifyInstance, options: OauthRouteOptions): void {
  const { people } = options.app
  if (people === undefined) return
  routes.get('/.well-known/oauth-authorization-server', async (_request, reply) =>
    anywhere(reply).send(metadataOf(people.publicUrl)),
  )
  void routes.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    const form = { parseAs: 'string', bodyLimit: BODY_BYTES } as const
    scope.addContentTypeParser('application/x-www-form-urlencoded', form, (_request, body: string, done) =>
      done(null, Object.fromEntries(new URLSearchParams(body))),
    )
    scope.post(TOKEN_PATH, { bodyLimit: BODY_BYTES }, async (request, reply) =>
      answerExchange({ ...options, publicUrl: people.publicUrl }, request, anywhere(reply)),
    )
    scope.options(TOKEN_PATH, async (_request, reply) =>
      anywhere(reply)
        .header('Access-Control-Allow-Methods', 'POST')
        .header('Access-Control-Allow-Headers', 'content-type, mcp-protocol-version')
        .code(204)
        .send(),
    )
  })
}

async function answerExchange(
  { app, rates, publicUrl, resourcePath }: OauthRouteOptions & { readonly publicUrl: string },
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  void reply.header('Cache-Control', 'no-store')
  const refuse = (error: string, description: string): FastifyReply => {
    const rate = rates.takeByAddress('failed', request.ip, defaultRates.perAddressUnauthenticated)
    return reply.code(rate.allowed ? 400 : 429).send({ error, error_description: description })
  }
  const form = z.record(z.string(), z.string()).safeParse(request.body)
  if (form.success && form.data['grant_type'] !== undefined && form.data['grant_type'] !== 'authorization_code')
    return refuse('unsupported_grant_type', 'Only authorization_code is supported.')
  const sent = exchange.safeParse(request.body)
  if (!sent.success) return refuse('invalid_request', `Check ${sent.error.issues[0]?.path.join('.') || 'the body'}.`)
  const { code, client_id: clientId, redirect_uri: redirectUri, code_verifier: verifier, resource } = sent.data
  if (resource !== undefined && ![publicUrl, `${publicUrl}/`, `${publicUrl}${resourcePath}`].includes(resource))
    return refuse('invalid_target', 'This server issues keys for itself only.')
  const key = await exchangeOauthCode(app, { code, clientId, redirectUri, verifier })
  if (!key.ok) {
    if (key.reason !== 'oauth_code_invalid') return reply.code(503).send({ error: 'temporarily_unavailable' })
    return refuse('invalid_grant', key.message)
  }
  const { text, scopes, expiresAt } = key.value
  return reply.send({
    access_token: text,
    token_type: 'Bearer',
    expires_in: Math.floor((expiresAt - app.clock.now()) / 1_000),
    scope: scopes.join(' '),
  })
}

/** RFC 8414. */
function metadataOf(issuer: string) {
  return {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}${TOKEN_PATH}`,
    response_types_supported: ['code'],
    grant_types_supported: ['authorization_code'],
    code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: ['none'],
    scopes_supported: agentScopes,
    client_id_metadata_document_supported: true,
    authorization_response_iss_parameter_supported: true,
  }
}

function anywhere(reply: FastifyReply): FastifyReply {
  return reply.header('Access-Control-Allow-Origin', '*')
}

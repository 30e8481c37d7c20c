/**
 * `/mcp`, for agents. A request passes the same checks as an operation: its key, the key's rate, its origin, and room for
 * its body; consoles' cookies do not count. It must also name a host that is ours: a page that has rebound its own name
 * to this server's address could otherwise call it like a page of ours.
 */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import net from 'node:net'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { api } from '../../contract/api.ts'
import { endpoint, type Endpoint } from '../../contract/endpoint.ts'
import { agentScopes } from '../../contract/oauth.ts'
import { limits } from '../../base/limits.ts'
import { fail, type Failure } from '../../contract/result.ts'
import { admitHead, countFailedKey, type AccessOptions } from '../http/access.ts'
import { baseUrlOf, send } from '../http/answer.ts'
import type { Authenticated } from '../http/authenticate.ts'
import { credentialsOf } from '../http/credentials.ts'
import { addVary } from '../http/cross-origin.ts'
import { failurePage } from '../http/error-page.ts'
import type { McpAnswerer, McpOptions } from './mcp-handler.ts'
import { addOauthRoutes } from './oauth-routes.ts'

const PATH = '/mcp'
const METADATA_PATH = `/.well-known/oauth-protected-resource${PATH}`
/** Headers of a client's own request that the protocol reads. */
const READ_HEADERS = ['accept', 'content-type', 'mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-session-id']
const PREFLIGHT_AGE_S = 7_200

export interface McpRouteOptions extends AccessOptions, McpOptions {
  readonly publicUrl: string | undefined
}

/** No operation of the contract: its protocol has its own schemas. It is admitted like one. */
const entrance: Endpoint = endpoint({
  method: 'POST',
  path: PATH,
  family: 'v2',
  tag: 'Description',
  access: 'any-key',
  summary: 'Model Context Protocol',
  errors: api.getMe.errors,
  response: z.unknown(),
})

export function addMcpRoutes(routes: FastifyInstance, options: McpRouteOptions): { close(): Promise<void> } {
  let answerer: Promise<McpAnswerer> | undefined
  // Loaded with the first request: it takes longer than all of the rest of a start, and many servers never need it.
  const open = (): Promise<McpAnswerer> =>
    (answerer ??= import('./mcp-handler.ts').then(({ makeMcpAnswerer }) => makeMcpAnswerer(options)))
  const callers = new WeakMap<FastifyRequest, Authenticated>()
  const config = { operation: 'mcp', endpoint: entrance }
  routes.route({
    method: 'POST',
    url: PATH,
    config,
    bodyLimit: limits.bodyBytes,
    onRequest: async (request, reply) => {
      const caller = await admit(options, request, reply)
      if ('ok' in caller) return refuse(options, request, reply, caller)
      callers.set(request, caller)
      return undefined
    },
    handler: async (request, reply) => {
      const caller = callers.get(request)
      if (caller === undefined) throw new Error('a request bypassed the access check')
      return answer(await open(), caller, request, reply)
    },
  })
  // Neither sessions nor streams that a client opens.
  routes.route({
    method: ['GET', 'DELETE'],
    url: PATH,
    config,
    handler: (_request, reply) => reply.header('Allow', 'POST').code(405).send(),
  })
  routes.route({ method: 'OPTIONS', url: PATH, config: { operation: 'preflight' }, handler: answerPreflight })
  routes.get(METADATA_PATH, async (request, reply) => {
    if (!isOwnHost(options, request)) return refuse(options, request, reply, fail('foreign_host'))
    return reply.header('Access-Control-Allow-Origin', '*').send(metadataOf(options, request))
  })
  addOauthRoutes(routes, { ...options, resourcePath: PATH })
  return { close: async () => (await answerer)?.close() }
}

async function admit(
  options: McpRouteOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Authenticated | Failure> {
  if (!isOwnHost(options, request)) return fail('foreign_host')
  const { kind } = credentialsOf(request)
  if (kind === 'session' || kind === 'cross-site') return countFailedKey(options, fail('missing_key'), request, reply)
  const admitted = await admitHead(options, entrance, request, reply)
  if (!admitted.ok) return admitted
  if (!('key' in admitted.value)) throw new Error('agents need a key')
  return admitted.value
}

/** 401 tells a client where it learns how to sign in. */
function refuse(
  options: McpRouteOptions,
  request: FastifyRequest,
  reply: FastifyReply,
  failure: Failure,
): FastifyReply {
  if (failure.kind === 'unauthenticated') {
    const metadata = `${ownUrl(options, request)}${METADATA_PATH}`
    const error = failure.reason === 'missing_key' ? '' : 'error="invalid_token", '
    reply.header('WWW-Authenticate', `Bearer ${error}resource_metadata="${metadata}"`)
  }
  return send(reply, failurePage(entrance, failure), failure)
}

/** Without people who sign in, keys are made in the console or with `berth keys`. */
function metadataOf(options: McpRouteOptions, request: FastifyRequest) {
  return {
    resource: `${ownUrl(options, request)}${PATH}`,
    resource_name: 'Berth',
    ...(options.app.people === undefined ? {} : { authorization_servers: [options.app.people.publicUrl] }),
    bearer_methods_supported: ['header'],
    scopes_supported: agentScopes,
    resource_documentation: `${ownUrl(options, request)}/docs`,
  }
}

function ownUrl({ publicUrl }: McpRouteOptions, request: FastifyRequest): string {
  return publicUrl ?? baseUrlOf(request) ?? ''
}

/** An address or `localhost` cannot be rebound. Names are known from the public URL only. */
function isOwnHost({ publicUrl }: McpRouteOptions, request: FastifyRequest): boolean {
  const name = hostNameOf(`http://${request.host}`)
  if (name === undefined) return false
  if (name === 'localhost' || net.isIP(name.replaceAll(/[[\]]/g, '')) !== 0) return true
  return publicUrl !== undefined && name === hostNameOf(publicUrl)
}

function hostNameOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).hostname : undefined
}

async function answer(
  answerer: McpAnswerer,
  caller: Authenticated,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const gone = new AbortController()
  reply.raw.once('close', () => gone.abort())
  if (reply.raw.destroyed) gone.abort()
  const headers = new Headers()
  for (const name of READ_HEADERS) {
    const value = request.headers[name]
    if (typeof value === 'string') headers.set(name, value)
  }
  const call = {
    caller,
    requestId: request.id,
    clientGone: gone.signal,
    userAgent: request.headers['user-agent'] ?? '',
  }
  const web = new Request(`http://${request.host}${PATH}`, {
    method: 'POST',
    headers,
    body: JSON.stringify(request.body ?? null),
    signal: gone.signal,
  })
  const response = await answerer.answer(web, request.body, call).catch((error: unknown) => {
    // The package rejects a call whose client has left.
    if (gone.signal.aborted) return undefined
    throw error
  })
  if (response === undefined) return reply.hijack()
  return write(response, reply)
}

async function write(response: Response, reply: FastifyReply): Promise<FastifyReply> {
  reply.code(response.status)
  const type = response.headers.get('content-type')
  if (type !== null) reply.header('Content-Type', type)
  if (response.body === null) return reply.send()
  if (type?.startsWith('text/event-stream') !== true) return reply.send(Buffer.from(await response.arrayBuffer()))
  reply.hijack()
  for (const [name, value] of Object.entries(reply.getHeaders()))
    if (value !== undefined) reply.raw.setHeader(name, value)
  reply.raw.writeHead(response.status, { 'X-Accel-Buffering': 'no' })
  // Either side may leave at any time; pipeline then closes the other.
  await pipeline(Readable.fromWeb(response.body), reply.raw).catch(() => {})
  return reply
}

/** The key of the request itself decides, as for operations (http/cross-origin.ts). */
function answerPreflight(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { origin } = request.headers
  if (origin === undefined) return reply.code(404).send()
  addVary(reply, 'Origin')
  return reply
    .header('Access-Control-Allow-Origin', origin)
    .header('Access-Control-Allow-Methods', 'POST')
    .header('Access-Control-Allow-Headers', 'authorization, content-type, mcp-protocol-version, mcp-method, mcp-name')
    .header('Access-Control-Max-Age', PREFLIGHT_AGE_S)
    .code(204)
    .send()
}

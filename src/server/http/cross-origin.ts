/**
 * Requests of pages of other origins (CORS). A browser asks first, with a preflight that has no key, so it is answered
 * alike for everybody: it says how the API is called, not by whom. The key of the request itself decides: the answer is
 * readable to pages of the origins that the key allows, and requests of other pages are refused before they cost or
 * change anything.
 *
 * Refusals are readable to every page. Before a key is known they are fixed texts about the request, and after it they
 * say what the holder of the key may know. No answer ever allows credentials, so browsers send no cookie along and show
 * nothing that a console session could see.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { api } from '../../contract/api.ts'
import type { Endpoint, Method } from '../../contract/endpoint.ts'
import { fail, type Failure, type Result } from '../../contract/result.ts'
import { CONSOLE_HEADER } from '../../contract/session.ts'
import { allowsOrigin, isWebOrigin } from '../../domain/allowed-origin.ts'
import type { Authenticated } from './authenticate.ts'
import { isOwnOrigin, type Credentials } from './credentials.ts'

/** The longest that Chromium keeps the answer to a preflight. */
const PREFLIGHT_AGE_S = 7_200
/** Clients send up to twenty headers of their own. */
const MAX_REQUESTED_CHARS = 4_096
/** The length of an origin in an error. */
const MAX_SHOWN_CHARS = 200
const consoleHeader = CONSOLE_HEADER.toLowerCase()

/** Adds the routes of preflights: one for each path with an operation that needs a key. */
export function answerPreflights(server: FastifyInstance, routeOf: (endpoint: Endpoint) => string): void {
  const methods = new Map<string, { readonly url: string; readonly methods: Set<Method> }>()
  for (const endpoint of Object.values(api) as Endpoint[]) {
    if (endpoint.access === 'public') continue
    const url = routeOf(endpoint)
    // Operations name the parameter of one path differently.
    const shape = url.replaceAll(/:\w+/g, ':')
    const path = methods.get(shape) ?? { url, methods: new Set() }
    path.methods.add(endpoint.method)
    methods.set(shape, path)
  }
  for (const { url, methods: allowed } of methods.values()) {
    server.route({
      method: 'OPTIONS',
      url,
      config: { operation: 'preflight' },
      handler: (request, reply) => answerPreflight(request, reply, [...allowed].join(', ')),
    })
  }
}

function answerPreflight(request: FastifyRequest, reply: FastifyReply, methods: string): FastifyReply {
  const { origin, 'access-control-request-method': method } = request.headers
  if (origin === undefined || method === undefined) {
    reply.callNotFound()
    return reply
  }
  allowOrigin(reply, origin)
  const headers = allowedHeaders(request.headers['access-control-request-headers'])
  if (headers !== '') reply.header('Access-Control-Allow-Headers', headers)
  return reply
    .header('Access-Control-Allow-Methods', methods)
    .header('Access-Control-Max-Age', PREFLIGHT_AGE_S)
    .code(204)
    .send()
}

/**
 * Each client library sends headers of its own (`x-stainless-…`, `anthropic-…`), and none of them gives a page more
 * than its key does. The console's header does: it is one of the proofs that the console has sent a request.
 */
function allowedHeaders(requested = ''): string {
  if (requested.length > MAX_REQUESTED_CHARS) return ''
  return requested
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => /^[\w!#$%&'*+.^`|~-]+$/.test(name) && name !== consoleHeader)
    .join(', ')
}

/**
 * Makes the answer readable if the key allows the page, or refuses the request. Call it once the key was looked up, and
 * before anything is answered.
 */
export function checkOrigin(
  request: FastifyRequest,
  reply: FastifyReply,
  credentials: Credentials,
  caller: Result<Authenticated>,
): Failure | undefined {
  // A session has its own rule: it counts for the console's pages only.
  if (credentials.kind === 'session' || credentials.kind === 'cross-site') return undefined
  const origin = foreignOriginOf(request)
  if (origin === undefined) return undefined
  if (!caller.ok || allowsOrigin(caller.value.key.allowed_origins, origin)) {
    allowOrigin(reply, origin)
    return undefined
  }
  addVary(reply, 'Origin')
  if (!isWebOrigin(origin)) return undefined
  allowOrigin(reply, origin)
  return fail('origin_not_allowed', { origin: origin.slice(0, MAX_SHOWN_CHARS) })
}

/**
 * Returns the origin of a page that a browser lets read the answer only with our consent. `Sec-Fetch-Site`, which no
 * page can change, tells of pages that reach us through a proxy of their own site, under another host name.
 */
function foreignOriginOf({ headers, host }: FastifyRequest): string | undefined {
  const { origin, 'sec-fetch-site': site } = headers
  if (origin === undefined || site === 'same-origin' || site === 'none') return undefined
  return isOwnOrigin({ headers, host }) ? undefined : origin
}

function allowOrigin(reply: FastifyReply, origin: string): void {
  reply.header('Access-Control-Allow-Origin', origin).header('Access-Control-Expose-Headers', '*')
  addVary(reply, 'Origin')
}

/** Adds a request header on which the answer depends. */
export function addVary(reply: FastifyReply, name: string): void {
  const names = String(reply.getHeader('Vary') ?? '')
  if (!names.split(', ').includes(name)) reply.header('Vary', names === '' ? name : `${names}, ${name}`)
}

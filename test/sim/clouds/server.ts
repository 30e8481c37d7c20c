/**
 * The shared part of the cloud simulators: an HTTP server with routes, faults, rate limits, and a description of the vendor's
 * API by which every request and every answer is checked. A violation fails its request, and is collected: tests expect none.
 */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { z } from 'zod'
import { addMs, instantOf, type Clock, type Instant } from '../../../src/base/instant.ts'

export interface SimRequest {
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly body: unknown
  readonly headers: http.IncomingHttpHeaders
  /** Method and path with query as received, and the body as text: for signatures. */
  readonly raw: { readonly method: string; readonly url: string; readonly body: string }
}

export interface SimAnswer {
  readonly status: number
  /** Sent as JSON, or as it is if the headers say that it is text. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export interface SimRoute {
  /** Name of the operation in the description. */
  readonly operation: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** `/instances/:id`. */
  readonly path: string
  readonly handle: (request: SimRequest) => SimAnswer
}

/** Makes routes below a path. */
export function routesBelow(prefix: string) {
  return (operation: string, method: SimRoute['method'], path: string, handle: SimRoute['handle']): SimRoute => ({
    operation,
    method,
    path: `${prefix}${path}`,
    handle,
  })
}

export function json(body: unknown, status = 200): SimAnswer {
  return { status, body }
}

/** By operation: the shape of the request body (absent: none), of the query, and of the answers by status. */
export type SimDescription = Readonly<
  Record<
    string,
    { readonly body?: z.ZodType; readonly query?: z.ZodType; readonly answers: Readonly<Record<number, z.ZodType>> }
  >
>

/**
 * `lost`: the connection breaks before anything is done. `late`: it is done, and the connection breaks before the answer.
 * `hang`: it is done, and no answer comes. `answer`: the vendor answers this instead; a strange
 * answer is not as described.
 */
export type SimFault =
  | { readonly kind: 'lost' | 'late' | 'hang' }
  | { readonly kind: 'answer'; readonly answer: SimAnswer; readonly isStrange?: true }

export interface SimServerOptions {
  readonly clock: Clock
  readonly routes: readonly SimRoute[]
  readonly description: SimDescription
  /** The answer to a request that is not allowed. undefined: it is. */
  readonly authorize: (request: SimRequest) => SimAnswer | undefined
  readonly notFound: SimAnswer
  /** The shortest time between two requests, of all operations and of single ones. Enforced while `limitsRate`. */
  readonly rate?: { readonly everyMs: number; readonly operations?: Readonly<Record<string, number>> }
}

interface Armed {
  readonly operation: string
  readonly fault: SimFault
  left: number
}

const MAX_BODY_BYTES = 4 * 1024 * 1024
const MAX_LOG = 10_000

export class SimServer {
  /** Differences between the description and what was sent. */
  readonly violations: string[] = []
  /** Names of the operations, in the order of the requests. */
  readonly requests: string[] = []
  latencyMs = 0
  /** Cuts every connection. */
  down = false
  /** Requests that come too soon are answered with 429. Only where the driver waits on the clock of the simulator. */
  limitsRate = false
  /** A fault for a request that none is armed for, for example at random. */
  chaos: ((operation: string) => SimFault | undefined) | undefined
  readonly #options: SimServerOptions
  readonly #armed: Armed[] = []
  readonly #lastAt = new Map<string, Instant>()
  readonly #server: http.Server

  constructor(options: SimServerOptions) {
    this.#options = options
    this.#server = http.createServer((request, response) => void this.#serve(request, response))
  }

  /** On a loopback port. */
  async listen(port = 0): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(port, '127.0.0.1', resolve)
    })
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  /** The next `times` requests of the operation have the fault. */
  arm(operation: string, fault: SimFault, times = 1): void {
    this.#armed.push({ operation, fault, left: times })
  }

  async #serve(incoming: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    try {
      if (this.latencyMs > 0) await new Promise((resolve) => setTimeout(resolve, this.latencyMs))
      if (this.down) return void incoming.socket.destroy()
      const text = await readText(incoming)
      await this.#answer(incoming, text, response)
    } catch (error) {
      this.violations.push(`the simulator failed: ${String(error)}`)
      incoming.socket.destroy()
    }
  }

  async #answer(incoming: http.IncomingMessage, text: string, response: http.ServerResponse): Promise<void> {
    const url = new URL(incoming.url ?? '/', 'http://simulator')
    const found = findRoute(this.#options.routes, incoming.method ?? '', url.pathname)
    if (found === undefined) {
      this.violations.push(`${incoming.method} ${url.pathname} is not described`)
      return send(response, this.#options.notFound)
    }
    const { operation } = found.route
    if (this.requests.length < MAX_LOG) this.requests.push(operation)
    const raw = { method: incoming.method ?? '', url: incoming.url ?? '', body: text }
    const body: unknown = text === '' ? undefined : JSON.parse(text)
    const request = { params: found.params, query: url.searchParams, body, headers: incoming.headers, raw }
    if (this.limitsRate && this.#isTooSoon(operation))
      return send(response, { status: 429, body: { error: 'Too soon.' } })
    const mistake = this.#checkRequest(operation, request)
    const fault = this.#takeFault(operation) ?? this.chaos?.(operation)
    if (fault?.kind === 'lost') return void incoming.socket.destroy()
    const answer =
      fault?.kind === 'answer'
        ? fault.answer
        : (this.#options.authorize(request) ?? invalidOf(mistake) ?? found.route.handle(request))
    const isStrange = fault?.kind === 'answer' && fault.isStrange === true
    const isDescribed = mistake !== undefined || isStrange || this.#checkAnswer(operation, answer)
    if (fault?.kind === 'late') return void incoming.socket.destroy()
    if (fault?.kind !== 'hang') send(response, isDescribed ? answer : { status: 500, body: 'the simulator is wrong' })
  }

  /** Also remembers the request. */
  #isTooSoon(operation: string): boolean {
    const { clock, rate } = this.#options
    const now = clock.now()
    const limits = Object.entries({ '': rate?.everyMs, [operation]: rate?.operations?.[operation] })
    const isTooSoon = limits.some(([name, ms = 0]) => now < addMs(this.#lastAt.get(name) ?? instantOf(-Infinity), ms))
    if (!isTooSoon) for (const [name] of limits) this.#lastAt.set(name, now)
    return isTooSoon
  }

  #takeFault(operation: string): SimFault | undefined {
    const armed = this.#armed.find((one) => one.operation === operation && one.left > 0)
    if (armed === undefined) return undefined
    armed.left -= 1
    return armed.fault
  }

  /** What is wrong with it. undefined: nothing. */
  #checkRequest(operation: string, { body, query }: SimRequest): string | undefined {
    const described = this.#options.description[operation]
    if (described === undefined) return this.#violate(`${operation} is not described`)
    return (
      this.#check(`request of ${operation}`, described.body ?? z.undefined(), body) ??
      this.#check(`query of ${operation}`, described.query ?? z.strictObject({}), Object.fromEntries(query))
    )
  }

  #checkAnswer(operation: string, { status, body }: SimAnswer): boolean {
    // Answers of a broken server have no shape.
    if (status >= 500 || status === 429) return true
    const shape = this.#options.description[operation]?.answers[status]
    const mistake =
      shape === undefined
        ? this.#violate(`${operation} answered ${status}, which is not described`)
        : this.#check(`answer ${status} of ${operation}`, shape, body)
    return mistake === undefined
  }

  #check(what: string, shape: z.ZodType, value: unknown): string | undefined {
    const parsed = shape.safeParse(value)
    return parsed.success ? undefined : this.#violate(`${what}: ${z.prettifyError(parsed.error)}`)
  }

  #violate(mistake: string): string {
    this.violations.push(mistake)
    return mistake
  }
}

/** The answer to a request that is not as described. */
function invalidOf(mistake: string | undefined): SimAnswer | undefined {
  return mistake === undefined ? undefined : { status: 422, body: { error: mistake } }
}

function findRoute(
  routes: readonly SimRoute[],
  method: string,
  path: string,
): { route: SimRoute; params: Record<string, string> } | undefined {
  for (const route of routes) {
    if (route.method !== method) continue
    const params = matchPath(route.path.split('/'), path.split('/'))
    if (params !== undefined) return { route, params }
  }
  return undefined
}

function matchPath(pattern: readonly string[], path: readonly string[]): Record<string, string> | undefined {
  if (pattern.length !== path.length) return undefined
  const params: Record<string, string> = {}
  for (const [n, part] of pattern.entries()) {
    const given = path[n] ?? ''
    if (part.startsWith(':')) params[part.slice(1)] = decodeURIComponent(given)
    else if (part !== given) return undefined
  }
  return params
}

async function readText(incoming: http.IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MAX_BODY_BYTES) throw new Error('the body is too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function send(response: http.ServerResponse, { status, body, headers = {} }: SimAnswer): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  const isText = typeof body === 'string' && headers['content-type']?.startsWith('text/') === true
  response.end(body === undefined ? '' : isText ? body : JSON.stringify(body))
}

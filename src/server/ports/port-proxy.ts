/**
 * Forwards HTTP requests to the HTTP ports of rentals: `https://<rental>-<port>.<domain>`. The Host header selects the
 * port (port-domain.ts), access is checked (port-access.ts), and the request goes through the connection of the host's
 * agent (port-exchange.ts). A name that does not exist and a private port without access have the same answer.
 *
 * Requests below `/.berth/` are ours: `/.berth/open?code=…&path=…` exchanges a one-time code for a cookie and redirects
 * to the path, always on the same host.
 */
import { isReachable } from '../../domain/rental.ts'
import type http from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Logger } from 'pino'
import type { App } from '../../app/app.ts'
import { redeemPortCode } from '../../app/rental/port.ts'
import { contained } from '../../base/net/contained.ts'
import { HOUR_MS } from '../../base/instant.ts'
import { defaultRates } from '../../base/limits.ts'
import type { Metrics } from '../../base/metrics.ts'
import { PORT_OPEN_PATH } from '../../contract/port.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import type { PortRoute } from '../../store/rental/port.ts'
import type { Authenticator } from '../http/authenticate.ts'
import type { HostLink, HostLinks } from '../hosts/host-links.ts'
import { makePortAccess, type PortAccess, type Visitor } from './port-access.ts'
import { readPortHost, type PortDomain, type PortName } from './port-domain.ts'
import { Exchange, readRest, responseOn, type Incoming } from './port-exchange.ts'
import { sendPortContinuation, sendPortFailure } from './port-page.ts'
import { makePortRoutes, type PortRoutes } from './port-routes.ts'
import type { PortShares } from './port-share.ts'
import type { RateLimiter } from '../http/rate-limit.ts'
import { addressOf, hostOf, protocolOf, type TrustedProxy } from '../http/trusted-proxy.ts'
import type { UpgradeHandler } from '../http/upgrade.ts'

const OWN_PATHS = '/.berth/'
/** Applications that load a model may be silent for minutes, and streams for long. Neither has a total limit. */
const FIRST_BYTE_MS = 300_000
const IDLE_MS = HOUR_MS
/** How often the access of open connections is checked again. */
const CHECK_MS = 15_000
const SWEEP_MS = 1_000

export interface PortProxyOptions {
  readonly app: App
  readonly links: HostLinks
  readonly domain: PortDomain | undefined
  readonly authenticator: Pick<Authenticator, 'authenticate'>
  readonly rates: Pick<RateLimiter, 'takeByAddress'>
  readonly shares: PortShares
  readonly trustedProxy: TrustedProxy | undefined
  readonly log: Logger
  readonly metrics?: Metrics
  readonly firstByteMs?: number
  readonly idleMs?: number
  readonly checkMs?: number
}

export interface PortProxy {
  /** Returns whether the request is for a port. If so, it also answers. */
  answer(request: IncomingMessage, response: ServerResponse): boolean
  readonly take: UpgradeHandler
  /** Whether a request on this connection is being forwarded. */
  isForwarding(socket: Duplex): boolean
  /** The ports or tokens of a rental have changed. */
  forget(rentalId: number): void
  close(): void
}

interface Visit extends Incoming {
  /** undefined: the host name is below the domain but names no port. */
  readonly name: PortName | undefined
}

interface Admitted {
  readonly route: PortRoute
  readonly visitor: Visitor
  readonly link: HostLink
  readonly hostId: string
  readonly workloadId: string
}

export function openPortProxy(options: PortProxyOptions): PortProxy {
  const proxy = new Ports(options)
  return {
    answer: (request, response) => proxy.take(request, () => response, undefined),
    take: (request, socket, head) => {
      // A socket has one response. If an answer cannot be written, ours follows on the same socket.
      let response: ServerResponse | undefined
      return proxy.take(request, () => (response ??= responseOn(request, socket)), { socket, head })
    },
    isForwarding: (socket) => proxy.isForwarding(socket),
    forget: (rentalId) => proxy.forget(rentalId),
    close: () => proxy.close(),
  }
}

class Ports {
  readonly #options: PortProxyOptions
  readonly #routes: PortRoutes
  readonly #access: PortAccess
  readonly #exchanges = new Map<Exchange, Admitted>()
  readonly #sweeping: NodeJS.Timeout
  readonly #count: (status: number) => void

  constructor(options: PortProxyOptions) {
    const { app, authenticator, metrics } = options
    this.#options = options
    this.#routes = makePortRoutes(app.database)
    this.#access = makePortAccess({ authenticator, vault: app.vault, clock: app.clock })
    this.#sweeping = setInterval(() => this.#sweep(), SWEEP_MS).unref()
    const requests = metrics?.counter('berth_port_requests_total', 'Requests to HTTP ports by status')
    this.#count = (status) => requests?.add({ status: String(status) })
    const open = metrics?.gauge('berth_port_connections', 'Open connections to HTTP ports')
    metrics?.collect(() => open?.set(this.#exchanges.size))
  }

  take(request: IncomingMessage, response: Incoming['response'], upgraded: Incoming['upgraded']): boolean {
    const { domain, trustedProxy, log } = this.#options
    const host = hostOf(request, trustedProxy)
    const target = readPortHost(domain, host)
    if (target === undefined) return false
    // Nothing else listens while the port is looked up.
    upgraded?.socket.on('error', () => {})
    const name = target === 'unknown' ? undefined : target
    const client = { host, address: addressOf(request, trustedProxy), protocol: protocolOf(request, trustedProxy) }
    const visit: Visit = { request, name, client, response, upgraded }
    this.#serve(visit).catch((error: unknown) => {
      log.error({ err: error, ...name }, 'request to a port failed')
      this.#refuse(visit, fail('internal_error'))
    })
    return true
  }

  isForwarding(socket: Duplex): boolean {
    for (const { incoming } of this.#exchanges.keys()) if (incoming.request.socket === socket) return true
    return false
  }

  forget(rentalId: number): void {
    this.#routes.forget(rentalId)
  }

  close(): void {
    clearInterval(this.#sweeping)
    for (const exchange of this.#exchanges.keys()) exchange.cut(fail('too_many_connections'))
  }

  async #serve(visit: Visit): Promise<void> {
    const { request, name } = visit
    const path = request.url ?? ''
    // An absolute URL may name another host than the one that was checked.
    if (!path.startsWith('/') && path !== '*') return this.#refuse(visit, fail('bad_request'))
    const route = name === undefined ? undefined : await this.#routes.find(name)
    if (route === undefined) return this.#refuse(visit, fail('app_not_found'))
    if (path.startsWith(OWN_PATHS)) return this.#open(visit, route)
    const { method = 'GET', headers } = request
    if (visit.upgraded === undefined && this.#access.isUnproven({ ...visit.client, method, headers }, route)) {
      return this.#count(sendPortContinuation(visit.response()))
    }
    const admitted = await this.#admit(visit, route)
    if (!admitted.ok) return this.#refuse(visit, admitted)
    if (!request.socket.destroyed) this.#forward(visit, admitted.value)
  }

  /** Exchanges a code for a cookie. A browser that already has the cookie needs no code. */
  async #open(visit: Visit, route: PortRoute): Promise<void> {
    const { app } = this.#options
    const { request, client } = visit
    const [path, query = ''] = (request.url ?? '').split('?', 2)
    if (path !== PORT_OPEN_PATH || request.method !== 'GET' || visit.upgraded !== undefined) {
      return this.#refuse(visit, fail('app_not_found'))
    }
    const params = new URLSearchParams(query)
    const target = { rentalId: route.rentalId, port: route.port.port }
    const keyId = await redeemPortCode(app.database.db, target, params.get('code') ?? '', app.clock.now())
    if (keyId === undefined) {
      const visitor = await this.#access.admit({ ...client, method: 'GET', headers: request.headers }, route)
      if (!visitor.ok) return this.#refuse(visit, visitor)
    }
    const to = params.get('path') ?? '/'
    this.#count(303)
    visit
      .response()
      .writeHead(303, {
        // The host is ours, whatever the path begins with.
        Location: `${client.protocol}://${client.host}${/^\/[\x21-\x7e]*$/.test(to) ? to : '/'}`,
        ...(keyId === undefined ? {} : { 'Set-Cookie': this.#access.cookieFor(route, keyId, client.protocol) }),
        'Cache-Control': 'no-store',
        'Referrer-Policy': 'no-referrer',
        'Content-Length': 0,
      })
      .end()
  }

  async #admit({ request, client }: Visit, route: PortRoute): Promise<Result<Admitted>> {
    const { app, links } = this.#options
    const { method = 'GET', headers } = request
    const visitor = await this.#access.admit({ ...client, method, headers }, route)
    if (!visitor.ok) return visitor
    const traits = app.drivers.get(route.driver)?.traits
    if (traits?.simulated === true) return fail('simulated_machine', { lacks: 'ports' })
    if (traits?.ports !== 'relayed') return fail('port_not_forwarded')
    const { workloadId, hostId, status } = route
    if (!isReachable(status) || workloadId === null || hostId === null) {
      return fail('app_not_running', { name: route.rentalName, status })
    }
    const link = links.get(hostId)
    if (link === undefined) return fail('host_not_connected', { retryAfterMs: 3_000 })
    return ok({ route, visitor: visitor.value, link, hostId, workloadId })
  }

  #forward(visit: Visit, admitted: Admitted): void {
    const { route, link, hostId, workloadId } = admitted
    const { shares } = this.#options
    const { port } = route.port
    const release = shares.take({ kind: 'ports', hostId, workloadId, accountId: route.accountId })
    if (typeof release === 'string') {
      return this.#refuse(visit, fail('too_many_port_connections', { retryAfterMs: 1_000 }))
    }
    const stream = link.open({ kind: 'port', workloadId, port })
    if (stream.destroyed) {
      stream.on('error', () => {})
      release()
      return this.#refuse(visit, fail('too_many_port_connections', { retryAfterMs: 1_000 }))
    }
    try {
      const exchange = new Exchange(visit, {
        port,
        stream,
        refuse: (failure) => this.#refuse(visit, failure),
        answered: this.#count,
        closed: () => {
          release()
          this.#exchanges.delete(exchange)
        },
      })
      this.#exchanges.set(exchange, admitted)
    } catch (error) {
      release()
      stream.destroy()
      throw error
    }
  }

  #refuse(visit: Visit, failure: Failure): void {
    const { request, client, upgraded } = visit
    if (request.socket.destroyed) return
    const answer = failure.reason === 'app_not_found' ? this.#countStranger(client.address, failure) : failure
    this.#count(sendPortFailure(request, visit.response(), answer))
    if (upgraded === undefined) readRest(request)
  }

  /** Wrong tokens and guessed names count like wrong keys. */
  #countStranger(address: string, failure: Failure): Failure {
    const { rates, app } = this.#options
    const rate = rates.takeByAddress('failed', address, defaultRates.perAddressUnauthenticated)
    if (rate.allowed) return failure
    return fail('rate_limited', { limit: rate.limit, retryAfterMs: Math.max(1_000, rate.resetAt - app.clock.now()) })
  }

  #sweep(): void {
    const { firstByteMs = FIRST_BYTE_MS, idleMs = IDLE_MS, checkMs = CHECK_MS, log } = this.#options
    const now = performance.now()
    for (const [exchange, admitted] of this.#exchanges) {
      const { port } = admitted.route.port
      if (now - exchange.lastMs > (exchange.isAnswered ? idleMs : firstByteMs)) {
        exchange.cut(fail('port_timeout', { port, seconds: firstByteMs / 1_000 }))
      } else if (now - exchange.checkedMs > checkMs) {
        exchange.checkedMs = now
        this.#recheck(exchange, admitted).catch((error: unknown) =>
          log.warn({ err: error, port }, 'could not check the access to a port; the connection stays open'),
        )
      }
    }
  }

  async #recheck(exchange: Exchange, { route: before, visitor, hostId, workloadId }: Admitted): Promise<void> {
    const route = await this.#routes.find({ rentalName: before.rentalName, port: before.port.port })
    const isSame = route?.workloadId === workloadId && route.hostId === hostId
    if (isSame && (await this.#access.mayStay(visitor, route))) return
    exchange.cut(fail('app_not_found'))
  }
}

/**
 * Sends requests for ports to the proxy, and all others to the existing listeners. Call before other request listeners
 * are added.
 */
export function installPortProxy(server: http.Server, proxy: PortProxy): void {
  const usual = server.listeners('request') as http.RequestListener[]
  server.removeAllListeners('request')
  server.on(
    'request',
    contained(
      (_error, [request]) => request.socket.destroy(),
      (request: IncomingMessage, response: ServerResponse & { req: IncomingMessage }) => {
        if (!proxy.answer(request, response)) for (const listener of usual) listener.call(server, request, response)
      },
    ),
  )
  const onError = server.listeners('clientError') as Array<(error: Error, socket: Duplex) => void>
  server.removeAllListeners('clientError')
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // The time limit for whole requests applies to the API. An upload to an application may take as long as it needs.
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && proxy.isForwarding(socket)) return
    // With a listener, node:http no longer closes the connection itself.
    if (onError.length === 0) socket.destroy()
    for (const listener of onError) listener.call(server, error, socket)
  })
}

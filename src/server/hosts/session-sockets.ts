/**
 * Terminals and commands over a WebSocket, and logs, of a customer's machine. Access is checked before the upgrade as
 * for every operation, so a refusal is a normal HTTP answer. Browsers cannot send headers with a WebSocket, so they
 * offer the key as a subprotocol, which is never sent back. The console uses its cookie, which counts only from our own
 * origin.
 *
 * Binary messages are the bytes of the terminal. Without a terminal (`tty=false`), binary messages to the client are
 * the frames of base/net/output-frame.ts. Text messages are JSON: `{ columns, rows }` and `{ end: true }` from the
 * client, `{ exitCode }` to it.
 */
import { isReachable } from '../../domain/rental.ts'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { Logger } from 'pino'
import { WebSocketServer, type WebSocket } from 'ws'
import { z } from 'zod'
import type { App } from '../../app/app.ts'
import { defaultRates, MAX_INT32 } from '../../base/limits.ts'
import type { MuxStream } from '../../base/net/mux.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { api } from '../../contract/api.ts'
import { holdsScope } from '../../domain/api-key.ts'
import { findRental, type Rental } from '../../store/rental/rental.ts'
import type { Authenticated, Authenticator } from '../http/authenticate.ts'
import { credentialsOf, isOwnOrigin, type Credentials, type Sent } from '../http/credentials.ts'
import { v2Form, type ErrorPage } from '../../contract/error-form.ts'
import { failurePage } from '../http/error-page.ts'
import type { HostLink, HostLinks } from './host-links.ts'
import type { RateLimiter } from '../http/rate-limit.ts'
import type { LogRequest } from '../handlers/rental-logs.ts'
import { joinTerminal } from './terminal.ts'
import { addressOf, hostOf, type TrustedProxy } from '../http/trusted-proxy.ts'
import { pathOf, refuseUpgrade, type UpgradeHandler } from '../http/upgrade.ts'
import { validate } from '../http/validation.ts'

const TERMINAL_PATH = /^\/v2\/rentals\/(\d{1,10})\/terminal$/
const PROTOCOL = 'berth.terminal'
const KEY_PROTOCOL = 'berth.key.'
const SCOPE = 'compute:write'
const MAX_MESSAGE_BYTES = 65_536
const MAX_TERMINALS = 1_000
const MAX_TERMINALS_PER_ACCOUNT = 50
/** Total length of a command: a stream starts with one frame. */
const MAX_COMMAND_CHARS = 10_000
const CHECK_MS = 15_000
const KEEP_ALIVE_MS = 30_000

const terminalQuery = z
  .strictObject({
    tty: z.stringbool().default(true),
    columns: z.coerce.number().int().min(1).max(1_000).default(80),
    rows: z.coerce.number().int().min(1).max(1_000).default(24),
    command: z
      .array(z.string())
      .max(100)
      .refine(
        (parts) => parts.join('').length <= MAX_COMMAND_CHARS,
        `At most ${MAX_COMMAND_CHARS} characters in total`,
      ),
  })
  .refine(({ tty, command }) => tty || command.length > 0, {
    path: ['command'],
    message: 'Required without a terminal',
  })

export interface SessionSocketsOptions {
  readonly app: App
  readonly links: HostLinks
  readonly authenticator: Authenticator
  readonly rates: RateLimiter
  readonly log: Logger
  readonly trustedProxy: TrustedProxy | undefined
  /** How often to check that the client responds and its key may still open terminals. */
  readonly checkMs?: number
}

export interface SessionSockets {
  readonly take: UpgradeHandler
  close(): Promise<void>
}

export function openSessionSockets(options: SessionSocketsOptions): SessionSockets {
  const sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: MAX_MESSAGE_BYTES,
    handleProtocols: (offered) => (offered.has(PROTOCOL) ? PROTOCOL : false),
  })
  const open = new Map<WebSocket, string>()
  let isClosed = false

  const refuse = (socket: Socket, { page, retryAfterMs }: Refused): void => {
    const reqId = refuseUpgrade(socket, page, retryAfterMs)
    options.log.info({ reqId, status: page.status }, 'refused a terminal')
  }

  const enter = async (request: IncomingMessage, socket: Socket, head: Buffer, id: number): Promise<void> => {
    const checked = await check(options, request, id)
    if (socket.destroyed) return
    if (!checked.ok) return refuse(socket, checked)
    const { caller, start, tty } = checked
    const ownSessions = [...open.values()].filter((accountId) => accountId === caller.accountId).length
    if (isClosed || open.size >= MAX_TERMINALS || ownSessions >= MAX_TERMINALS_PER_ACCOUNT) {
      return refuse(socket, refused(tooMany()))
    }
    socket.setKeepAlive(true, KEEP_ALIVE_MS)
    sockets.handleUpgrade(request, socket, head, (opened) => {
      open.set(opened, caller.accountId)
      opened.once('close', () => void open.delete(opened))
      const credentials = credentialsOfUpgrade(request, options.trustedProxy)
      joinTerminal(opened, start(), {
        everyMs: options.checkMs ?? CHECK_MS,
        needsPongs: tty,
        stillValid: () => mayContinue(options.authenticator, credentials),
      })
    })
  }

  return {
    take: (request, socket, head) => {
      const [, id] = TERMINAL_PATH.exec(pathOf(request)) ?? []
      if (id === undefined) return false
      // During the key lookup nothing else listens for errors.
      const ignore = (): void => {}
      socket.on('error', ignore)
      void enter(request, socket, head, Number.parseInt(id, 10))
        .catch((error: unknown) => {
          const reqId = refuseUpgrade(socket, refused(fail('terminal_failed')).page)
          options.log.error({ reqId, err: error }, 'could not open a terminal')
        })
        .finally(() => socket.off('error', ignore))
      return true
    },
    close: async () => {
      isClosed = true
      const all = [...open.keys()]
      const closed = all.map((one) => new Promise<void>((resolve) => one.once('close', () => resolve())))
      for (const one of all) one.terminate()
      await Promise.all(closed)
    },
  }
}

/** A command in a customer's machine, without a terminal: its frames (base/net/output-frame.ts), then `exitCode` as a signal. */
export function openCommand(app: App, links: HostLinks, rental: Rental, command: readonly string[]): Result<MuxStream> {
  const target = findLink(app, links, rental, 'terminal')
  if (!target.ok) return target
  const { link, workloadId } = target.value
  return ok(link.open({ kind: 'command', workloadId, command: [...command] }))
}

/** The output of a customer's machine. Ends with an error if the host disconnects. */
export function openLogs(app: App, links: HostLinks, rental: Rental, request: LogRequest): Result<Readable> {
  const target = findLink(app, links, rental, 'logs')
  if (!target.ok) return target
  const { link, workloadId } = target.value
  const stream = link.open({ kind: 'logs', workloadId, ...request })
  // The server sends nothing, and ending its side earlier could look like a disconnect.
  stream.once('end', () => stream.end())
  return ok(stream)
}

type Checked =
  | { readonly ok: true; readonly caller: Authenticated; readonly tty: boolean; readonly start: () => MuxStream }
  | Refused
interface Refused {
  readonly ok: false
  readonly page: ErrorPage
  readonly retryAfterMs?: number | undefined
}

async function check(options: SessionSocketsOptions, request: IncomingMessage, id: number): Promise<Checked> {
  const { app, links, trustedProxy } = options
  if (!isAllowedOrigin(request, trustedProxy)) {
    return refused(fail('foreign_origin'))
  }
  const caller = await admit(options, request)
  if (!caller.ok) return refused(caller)
  const query = validate(terminalQuery, queryOf(request))
  if (!query.ok) return { ok: false, page: v2Form.writeInvalid('query', query.issues) }
  const { tty, columns, rows, command } = query.value as z.output<typeof terminalQuery>
  const rental = id > 0 && id <= MAX_INT32 ? await findRental(app.database.db, id) : undefined
  if (rental === undefined || rental.account_id !== caller.value.accountId) {
    return refused(fail('rental_not_found'))
  }
  const target = findLink(app, links, rental, 'terminal')
  if (!target.ok) return refused(target)
  const { link, workloadId } = target.value
  const argv = command.length === 0 ? null : command
  const start = (): MuxStream =>
    link.open(
      tty ? { kind: 'terminal', workloadId, columns, rows, command: argv } : { kind: 'command', workloadId, command },
    )
  return { ok: true, caller: caller.value, tty, start }
}

/** Does for upgrade requests what `admit` in server/http/access.ts does for other requests. */
async function admit(options: SessionSocketsOptions, request: IncomingMessage): Promise<Result<Authenticated>> {
  const { authenticator, rates, trustedProxy, app } = options
  const limited = (limit: number, resetAt: number): Failure =>
    fail('rate_limited', { limit, retryAfterMs: Math.max(1_000, resetAt - app.clock.now()) })
  const caller = await authenticator.authenticate(credentialsOfUpgrade(request, trustedProxy))
  if (!caller.ok) {
    const rate = rates.takeByAddress('failed', addressOf(request, trustedProxy), defaultRates.perAddressUnauthenticated)
    return rate.allowed ? caller : limited(rate.limit, rate.resetAt)
  }
  const rate = await rates.take(`key:${caller.value.keyId}`, caller.value.requestsPerMinute ?? defaultRates.perKey)
  if (!rate.allowed) return limited(rate.limit, rate.resetAt)
  if (holdsScope(caller.value.scopes, SCOPE)) return caller
  return fail('missing_scope', { scope: SCOPE })
}

/** Checks the scope again too: a member demoted to viewer keeps the key. */
async function mayContinue(authenticator: Authenticator, credentials: Credentials): Promise<boolean> {
  const caller = await authenticator.authenticate(credentials)
  // A failed lookup does not end the session.
  return caller.ok ? holdsScope(caller.value.scopes, SCOPE) : caller.kind === 'unavailable'
}

/** The Authorization header, a key among the subprotocols, or the console's cookie. */
function credentialsOfUpgrade(request: IncomingMessage, trustedProxy: TrustedProxy | undefined): Credentials {
  const offered = request.headers['sec-websocket-protocol']?.split(',').map((one) => one.trim()) ?? []
  const key = offered.find((one) => one.startsWith(KEY_PROTOCOL))
  if (request.headers.authorization === undefined && key !== undefined) {
    return { kind: 'authorization', header: `Bearer ${key.slice(KEY_PROTOCOL.length)}` }
  }
  return credentialsOf(sentBy(request, trustedProxy))
}

/** Browsers send an Origin that pages cannot choose. Programs send none, but a cookie means a browser. */
function isAllowedOrigin(request: IncomingMessage, trustedProxy: TrustedProxy | undefined): boolean {
  const isProgram = request.headers.origin === undefined
  if (isProgram && credentialsOfUpgrade(request, trustedProxy).kind !== 'session') return true
  return isOwnOrigin(sentBy(request, trustedProxy))
}

function sentBy(request: IncomingMessage, trustedProxy: TrustedProxy | undefined): Sent {
  return { headers: request.headers, method: 'GET', host: hostOf(request, trustedProxy) }
}

function queryOf(request: IncomingMessage): Record<string, unknown> {
  const query = new URLSearchParams(request.url?.split('?').slice(1).join('?') ?? '')
  return { ...Object.fromEntries(query), command: query.getAll('command') }
}

/** The connection to the host of a rental's first machine. */
function findLink(
  app: App,
  links: HostLinks,
  rental: Rental,
  ability: 'terminal' | 'logs',
): Result<{ link: HostLink; workloadId: string }> {
  const traits = app.drivers.get(rental.driver)?.traits
  if (traits?.simulated === true) {
    return fail('simulated_machine', { lacks: 'login' })
  }
  if (traits?.[ability] !== true) {
    return fail('not_supported', { access: ability })
  }
  const isThere = ability === 'logs' ? hasOutput(rental) : isReachable(rental.status)
  if (!isThere || rental.external_id === null) {
    return fail('not_running', { rentalId: rental.id, status: rental.status })
  }
  const hostId = rental.spec.nodes[0]?.machineId
  const link = hostId === undefined ? undefined : links.get(hostId)
  if (link === undefined) {
    return fail('host_not_connected', { retryAfterMs: 3_000 })
  }
  return ok({ link, workloadId: rental.external_id })
}

/** The host keeps the output of a machine that has failed or stopped until the machine is removed. */
function hasOutput({ status, released_at: releasedAt }: Rental): boolean {
  return status !== 'Pending' && releasedAt === null
}

function tooMany(): Failure {
  return fail('too_many_terminals', { limit: MAX_TERMINALS_PER_ACCOUNT, retryAfterMs: 10_000 })
}

function refused(failure: Failure): Refused {
  return { ok: false, page: failurePage(api.getRental, failure), retryAfterMs: failure.retryAfterMs }
}

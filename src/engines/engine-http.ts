/**
 * Shared by all engine programs: a process that answers JSON over HTTP and reports its state as JSON lines on stdout.
 *
 * Beside a server it listens on a unix socket and exits as soon as its stdin closes, which happens even when the parent
 * was killed. There is no SIGTERM handler: the signal ends the process even while native code runs, and the next start
 * removes the socket that is left behind. In a container it listens on a port, asks for a key, and on SIGTERM finishes
 * its requests first.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { lstatSync, unlinkSync } from 'node:fs'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import net from 'node:net'
import { z } from 'zod'
import { assertNever } from '../base/assert-never.ts'
import { fail, failField, ok, type Failure, type Result } from '../contract/result.ts'
import { issueText } from '../contract/issue-text.ts'

export const engineStart = z.object({
  model: z.string().min(1),
  /** Either a socket or a port. */
  socketPath: z.string().min(1).optional(),
  port: z.int().min(1).max(65_535).optional(),
  /** Protects the port: without it anyone who reaches the port may use it. */
  apiKey: z.string().min(1).optional(),
  threads: z.int().min(1).max(1_024).nullable(),
  queue: z.int().min(0).max(100_000),
})
export type EngineStart = z.infer<typeof engineStart>

type EngineEvent =
  | { readonly event: 'loading'; readonly progress: number }
  | {
      readonly event: 'ready'
      readonly contextTokens: number | null
      readonly concurrency: number
      readonly supportsTools: boolean
    }
  | { readonly event: 'failed'; readonly message: string }

export interface EngineCall {
  /** Parsed from JSON; bytes that are sent as such are a `Buffer`. */
  readonly body: unknown
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal
  /** For streamed answers: once a route has sent the head, its return value is ignored. */
  readonly response: ServerResponse
}

export interface Engine {
  readonly contextTokens: number | null
  readonly supportsTools: boolean
  readonly queue: { readonly places: number; metricsText(): string | Promise<string> }
  /** Handlers by method and path: `POST /v1/embeddings`. */
  readonly routes: Readonly<Record<string, (call: EngineCall) => Promise<Result<unknown>> | Result<unknown>>>
  readonly maxBodyBytes: number
}

const MAX_CONNECTIONS = 1_024
const REQUEST_TIMEOUT_MS = 60_000
/** Longer than the gateway keeps an idle connection, so that the gateway closes it first. */
const KEEP_ALIVE_MS = 300_000
/** Makes the socket private to this user. */
const PRIVATE_UMASK = 0o177
const PROGRESS_STEP = 0.01
/** How soon a connection is closed after its last answer, once the engine is told to end. */
const IDLE_CHECK_MS = 200

/** Runs until the parent is gone. `make` may report how much of the model is loaded, from 0 to 1. */
export async function runEngine<S extends EngineStart>(
  form: z.ZodType<S>,
  make: (start: S, onProgress: (share: number) => void) => Promise<Engine>,
): Promise<void> {
  try {
    const start = form.parse(JSON.parse(process.argv[2] ?? 'null'))
    const { socketPath, port } = start
    if ((socketPath === undefined) === (port === undefined)) throw new Error('an engine needs a socket or a port')
    const listening: { server?: http.Server } = {}
    if (socketPath === undefined) endOnSignal(listening)
    else {
      process.umask(PRIVATE_UMASK)
      endWithParent(socketPath)
    }
    const engine = await make(start, reportProgress())
    if (socketPath !== undefined) await removeStale(socketPath)
    listening.server = await listen(engine, start)
    const { contextTokens, supportsTools, queue } = engine
    reportToParent({ event: 'ready', contextTokens, concurrency: queue.places, supportsTools })
  } catch (cause) {
    failEngine(cause)
  }
}

/** Reports the reason to the parent and exits. */
export function failEngine(cause: unknown): never {
  const message =
    cause instanceof z.ZodError ? z.prettifyError(cause) : cause instanceof Error ? cause.message : String(cause)
  process.stderr.write(`${cause instanceof Error ? cause.stack : message}\n`)
  reportToParent({ event: 'failed', message })
  process.exit(1)
}

function reportProgress(): (share: number) => void {
  let reported = 0
  reportToParent({ event: 'loading', progress: 0 })
  return (share) => {
    if (share < reported + PROGRESS_STEP) return
    reported = share
    reportToParent({ event: 'loading', progress: Math.round(share * 100) / 100 })
  }
}

function reportToParent(event: EngineEvent): void {
  process.stdout.write(`${JSON.stringify(event)}\n`)
}

/** Uses a signal, because `process.exit` waits for native code, which may take seconds. */
function endWithParent(socketPath: string): void {
  const end = (): void => {
    try {
      unlinkSync(socketPath)
    } catch {
      // Not created yet.
    }
    process.kill(process.pid, 'SIGTERM')
  }
  process.stdin.on('end', end).on('error', end).resume()
}

/** The first process of a container has no default handler: without this one, SIGTERM has no effect. */
function endOnSignal(listening: { readonly server?: http.Server }): void {
  process.once('SIGTERM', () => {
    const { server } = listening
    if (server === undefined) process.exit(0)
    server.close(() => process.exit(0))
    server.closeIdleConnections()
    setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MS).unref()
  })
}

async function listen(engine: Engine, { model, socketPath, port, apiKey }: EngineStart): Promise<http.Server> {
  const times = { requestTimeout: REQUEST_TIMEOUT_MS, keepAliveTimeout: KEEP_ALIVE_MS }
  const allows = apiKey === undefined ? () => true : keyCheck(apiKey)
  const models = { object: 'list', data: [{ id: model, object: 'model', owned_by: 'berth' }] }
  const routes = { 'GET /v1/models': () => ok(models), ...engine.routes }
  const server = http.createServer(times, (request, response) => {
    if (allows(request)) void answer({ ...engine, routes }, request, response)
    else sendJson(response, 401, { error: wrongKey })
  })
  server.maxConnections = MAX_CONNECTIONS
  const place = socketPath ?? { port, host: '0.0.0.0' }
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(place, resolve))
  return server
}

/** The health check needs no key. */
function keyCheck(apiKey: string): (request: IncomingMessage) => boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  const expected = digest(`Bearer ${apiKey}`)
  return ({ url, headers }) => url === '/health' || timingSafeEqual(digest(headers.authorization ?? ''), expected)
}

/** Removes only a socket that nobody listens on. */
async function removeStale(socketPath: string): Promise<void> {
  const entry = lstatSync(socketPath, { throwIfNoEntry: false })
  if (entry === undefined) return
  if (!entry.isSocket()) throw new Error(`${socketPath} exists and is not a socket`)
  const isInUse = await new Promise<boolean>((resolve) => {
    const probe = net.connect(socketPath, () => {
      probe.destroy()
      resolve(true)
    })
    probe.once('error', () => resolve(false))
  })
  if (isInUse) throw new Error(`another process listens on ${socketPath}`)
  unlinkSync(socketPath)
}

async function answer(engine: Engine, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const disconnect = new AbortController()
  response.once('close', () => disconnect.abort())
  const key = `${request.method ?? ''} ${(request.url ?? '').split('?')[0]}`
  try {
    if (key === 'GET /health') return sendJson(response, 200, { status: 'ok' })
    if (key === 'GET /metrics')
      return send(response, 200, 'text/plain; version=0.0.4', await engine.queue.metricsText())
    const route = engine.routes[key]
    if (route === undefined) return sendFailure(response, fail('not_found', { route: key }))
    const body = request.method === 'GET' ? undefined : await readBody(request, engine.maxBodyBytes)
    if (body?.ok === false) return sendFailure(response, body)
    const result = await route({ body: body?.value, signal: disconnect.signal, response })
    if (response.headersSent) return
    if (result.ok) sendJson(response, 200, result.value)
    else sendFailure(response, result)
  } catch (cause) {
    if (disconnect.signal.aborted || request.socket.destroyed) return
    process.stderr.write(`${key}: ${cause instanceof Error ? cause.stack : String(cause)}\n`)
    // A route that reported the error in its stream has ended the response.
    if (response.writableEnded) return
    if (response.headersSent) response.destroy()
    else sendJson(response, 500, { error: engineFailed })
  }
}

const wrongKey: ErrorBody = {
  message: 'The API key is missing or wrong',
  type: 'invalid_request_error',
  param: null,
  code: 'invalid_api_key',
}

/** The body is also sent inside a stream whose head is already out. */
export const engineFailed: ErrorBody = {
  message: 'The engine failed to process this request',
  type: 'server_error',
  param: null,
  code: 'engine_failed',
}

async function readBody(request: IncomingMessage, maxBytes: number): Promise<Result<unknown>> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    // The rest of a body that is too large is read and dropped: leaving the loop would cut the connection.
    if (bytes <= maxBytes) chunks.push(chunk)
  }
  if (bytes > maxBytes) return fail('too_large', { maxBytes })
  const body = Buffer.concat(chunks)
  if (request.headers['content-type'] === 'application/octet-stream') return ok(body)
  try {
    return { ok: true, value: JSON.parse(body.toString('utf8')) as unknown }
  } catch {
    return fail('not_json')
  }
}

/** The first fault names its field. */
export function readFields<T>(form: z.ZodType<T>, body: unknown): Result<T> {
  const parsed = form.safeParse(body, { error: issueText })
  if (parsed.success) return { ok: true, value: parsed.data }
  const [issue] = parsed.error.issues
  const path = (issue?.path ?? []).map((part) => (typeof part === 'number' ? part : String(part)))
  const name = path.length === 0 ? 'body' : path.join('.')
  return failField(path.length === 0 ? ['body'] : path, 'invalid_value', {
    message: `${name}: ${issue?.message ?? 'not valid'}`,
  })
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  send(response, status, 'application/json', JSON.stringify(body))
}

function send(response: ServerResponse, status: number, contentType: string, body: string): void {
  response.writeHead(status, { 'content-type': contentType, 'content-length': Buffer.byteLength(body) }).end(body)
}

function sendFailure(response: ServerResponse, failure: Failure): void {
  const status = statusOf(failure)
  if (failure.retryAfterMs !== undefined) {
    response.setHeader('retry-after', String(Math.ceil(failure.retryAfterMs / 1_000)))
  }
  sendJson(response, status, { error: errorBody(failure) })
}

/** The body of a failure inside a stream whose head is already out. */
export function errorBody(failure: Failure): ErrorBody {
  const status = statusOf(failure)
  return {
    message: failure.message,
    type: status < 500 ? 'invalid_request_error' : status === 503 ? 'overloaded_error' : 'server_error',
    param: failure.issues?.[0]?.path.join('.') ?? null,
    code: failure.reason ?? null,
  }
}

function statusOf(failure: Failure): number {
  switch (failure.kind) {
    case 'invalid':
      return failure.reason === 'too_large' ? 413 : 400
    case 'not_found':
      return 404
    case 'unavailable':
      return 503
    case 'unauthenticated':
    case 'forbidden':
    case 'insufficient_balance':
    case 'no_capacity':
    case 'conflict':
    case 'rate_limited':
      // No engine returns these.
      return 500
    default:
      return assertNever(failure.kind)
  }
}

interface ErrorBody {
  readonly message: string
  readonly type: string
  readonly param: string | null
  readonly code: string | null
}

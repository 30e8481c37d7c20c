/**
 * What the engine programs have in common: a process that belongs to its parent and answers JSON over HTTP on a unix
 * socket. It tells its parent of its state in lines of JSON on stdout, keeps a bounded queue, and ends at once when
 * its stdin closes, which it does even when the parent was killed. There is no handler for SIGTERM: the signal itself
 * ends the process, also while native code runs, and a socket that is left behind is removed by the next start.
 */
import { lstatSync, unlinkSync } from 'node:fs'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import { z } from 'zod'
import { assertNever, fail, failField, type Failure, type Result } from '../base/result.ts'
import { faultWords } from '../contract/fault-words.ts'
import type { WorkQueue } from './engine-queue.ts'

const startForm = z.object({
  model: z.string().min(1),
  socketPath: z.string().min(1),
  threads: z.int().min(1).max(1_024).nullable(),
  queue: z.int().min(0).max(100_000),
})
export type EngineStart = z.infer<typeof startForm>

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
  readonly body: unknown
  /** Aborted when the client has gone. */
  readonly signal: AbortSignal
  /** For an answer that is too long to be kept: once its head is sent, what the route returns is not looked at. */
  readonly response: ServerResponse
}

export interface Engine {
  readonly contextTokens: number | null
  readonly queue: WorkQueue
  /** By method and path: `POST /v1/embeddings`. */
  readonly routes: Readonly<Record<string, (call: EngineCall) => Promise<Result<unknown>> | Result<unknown>>>
  readonly maxBodyBytes: number
}

const REQUEST_TIMEOUT_MS = 60_000
/** Longer than a gateway keeps a connection that it does not use, so that it is the gateway that closes it. */
const KEEP_ALIVE_MS = 300_000
/** What the process makes, which is its socket, is for its own user alone. */
const PRIVATE_UMASK = 0o177

/** Runs until the parent is gone. */
export async function runEngine(make: (start: EngineStart) => Promise<Engine>): Promise<void> {
  try {
    const start = startForm.parse(JSON.parse(process.argv[2] ?? 'null'))
    process.umask(PRIVATE_UMASK)
    endWithParent(start.socketPath)
    tellParent({ event: 'loading', progress: 0 })
    const engine = await make(start)
    await listen(start.socketPath, engine)
    tellParent({
      event: 'ready',
      contextTokens: engine.contextTokens,
      concurrency: engine.queue.places,
      supportsTools: false,
    })
  } catch (cause) {
    failEngine(cause)
  }
}

/** Tells the parent why, and ends. */
export function failEngine(cause: unknown): never {
  const message = cause instanceof Error ? cause.message : String(cause)
  process.stderr.write(`${cause instanceof Error ? cause.stack : message}\n`)
  tellParent({ event: 'failed', message })
  process.exit(1)
}

function tellParent(event: EngineEvent): void {
  process.stdout.write(`${JSON.stringify(event)}\n`)
}

function endWithParent(socketPath: string): void {
  const end = (): void => {
    try {
      unlinkSync(socketPath)
    } catch {
      // Not made yet.
    }
    process.kill(process.pid, 'SIGTERM')
  }
  process.stdin.on('end', end).on('error', end).resume()
}

async function listen(socketPath: string, engine: Engine): Promise<void> {
  removeStale(socketPath)
  const times = { requestTimeout: REQUEST_TIMEOUT_MS, keepAliveTimeout: KEEP_ALIVE_MS }
  const server = http.createServer(times, (request, response) => void answer(engine, request, response))
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(socketPath, resolve))
}

/** Only a socket is removed: a path that is given by mistake costs nobody a file. */
function removeStale(socketPath: string): void {
  const found = lstatSync(socketPath, { throwIfNoEntry: false })
  if (found === undefined) return
  if (!found.isSocket()) throw new Error(`${socketPath} is there and is not a socket`)
  unlinkSync(socketPath)
}

async function answer(engine: Engine, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const key = `${request.method ?? ''} ${(request.url ?? '').split('?')[0]}`
  try {
    if (key === 'GET /health') return sendJson(response, 200, { status: 'ok' })
    if (key === 'GET /metrics') return send(response, 200, 'text/plain; version=0.0.4', engine.queue.metricsText())
    const route = engine.routes[key]
    if (route === undefined) return sendFailure(response, fail('not_found', `There is no ${key} here`))
    const body = request.method === 'GET' ? undefined : await readJson(request, engine.maxBodyBytes)
    if (body?.ok === false) return sendFailure(response, body)
    const result = await route({ body: body?.value, signal: gone.signal, response })
    if (response.headersSent) return
    if (result.ok) sendJson(response, 200, result.value)
    else sendFailure(response, result)
  } catch (cause) {
    if (gone.signal.aborted) return
    process.stderr.write(`${key}: ${cause instanceof Error ? cause.stack : String(cause)}\n`)
    // What is said to its end already, in the form of its route, is left to be read.
    if (response.writableEnded) return
    if (response.headersSent) response.destroy()
    else sendError(response, 500, { message: 'The engine failed at this request', type: 'server_error' })
  }
}

async function readJson(request: IncomingMessage, maxBytes: number): Promise<Result<unknown>> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes) return fail('invalid', `The body is longer than ${maxBytes} bytes`, { reason: 'too_large' })
    chunks.push(chunk)
  }
  try {
    return { ok: true, value: JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown }
  } catch {
    return fail('invalid', 'The body is not JSON', { reason: 'not_json' })
  }
}

/** The first fault names its field. */
export function readFields<T>(form: z.ZodType<T>, body: unknown): Result<T> {
  const parsed = form.safeParse(body, { error: faultWords })
  if (parsed.success) return { ok: true, value: parsed.data }
  const [issue] = parsed.error.issues
  const path = (issue?.path ?? []).map((part) => (typeof part === 'number' ? part : String(part)))
  const name = path.length === 0 ? 'body' : path.join('.')
  return failField(path.length === 0 ? ['body'] : path, `${name}: ${issue?.message ?? 'is not valid'}`, issue?.code)
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
  // What is left of the body is not read, so the connection cannot be used again.
  if (status === 413) response.setHeader('connection', 'close')
  sendError(response, status, {
    message: failure.message,
    type: status < 500 ? 'invalid_request_error' : 'server_error',
    param: failure.issues?.[0]?.path.join('.') ?? null,
    code: failure.reason ?? null,
  })
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
      // Of these an engine knows nothing.
      return 500
    default:
      return assertNever(failure.kind)
  }
}

interface ErrorBody {
  readonly message: string
  readonly type: string
  readonly param?: string | null
  readonly code?: string | null
}

function sendError(response: ServerResponse, status: number, { message, type, param, code }: ErrorBody): void {
  sendJson(response, status, { error: { message, type, param: param ?? null, code: code ?? null } })
}

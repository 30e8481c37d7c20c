/**
 * The engine over HTTP, on a unix socket that only its owner can open. A client that goes away cancels its request,
 * whether it waits or is worked on. An answer begins with its first token, so that what fails before has a status.
 */
import http from 'node:http'
import type { Clock } from '../../base/instant.ts'
import { fail, ok, type Failure, type Result } from '../../base/result.ts'
import { formatSse } from '../../base/sse.ts'
import { AnswerWriter } from './answer.ts'
import { PlainSink, StreamSink, sendJson } from './answer-sink.ts'
import { RequestUsage, type Engine, type SequencePlace } from './engine.ts'
import type { Job } from './job.ts'
import type { GenerationRequest } from './request.ts'

const MAX_BODY_BYTES = 4 * 1024 * 1024
const MAX_CONNECTIONS = 1_024

export interface ServeOptions {
  readonly socketPath: string
  readonly log: (line: string) => void
  readonly clock: Clock
}

export async function serveEngine(engine: Engine, options: ServeOptions): Promise<void> {
  const server = http.createServer((request, response) => {
    answerRequest(engine, { request, response, clock: options.clock }).catch((error: unknown) => {
      const detail = error instanceof Error ? (error.stack ?? error.message) : String(error)
      options.log(`request failed: ${detail}`)
      failResponse(response)
    })
  })
  server.maxConnections = MAX_CONNECTIONS
  // The gateway keeps connections for as long as it likes.
  server.keepAliveTimeout = 0
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.socketPath, resolve)
  })
}

interface Exchange {
  readonly request: http.IncomingMessage
  readonly response: http.ServerResponse
  readonly clock: Clock
}

async function answerRequest(engine: Engine, exchange: Exchange): Promise<void> {
  const { request, response } = exchange
  switch (`${request.method} ${request.url?.split('?')[0]}`) {
    case 'GET /health':
      return sendJson(response, 200, { status: 'ok' })
    case 'GET /metrics':
      response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' })
      response.end(await engine.metrics.text())
      return
    case 'POST /v1/chat/completions':
      return complete(engine, 'chat', exchange)
    case 'POST /v1/completions':
      return complete(engine, 'completion', exchange)
    default:
      return sendFailure(response, fail('not_found', 'There is nothing here.', { reason: 'not_found' }))
  }
}

async function complete(engine: Engine, kind: 'chat' | 'completion', exchange: Exchange): Promise<void> {
  const { response } = exchange
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const body = await readBody(exchange.request)
  if (body === undefined) return
  if (!body.ok) return sendFailure(response, body)
  const request = engine.readRequest(kind, body.value)
  if (!request.ok) return sendFailure(response, request)
  const job = await engine.prepare(request.value)
  if (!job.ok) return sendFailure(response, job)
  const entered = engine.enter(job.value, gone.signal)
  if (!entered.ok) return sendFailure(response, entered)
  const place = await entered.value
  if (place === undefined) return
  try {
    await answerInPlace({ engine, exchange, request: request.value, job: job.value, place, signal: gone.signal })
  } finally {
    place.leave()
  }
}

interface Work {
  readonly engine: Engine
  readonly exchange: Exchange
  readonly request: GenerationRequest
  readonly job: Job
  readonly place: SequencePlace
  readonly signal: AbortSignal
}

async function answerInPlace({ engine, exchange, request, job, place, signal }: Work): Promise<void> {
  const usage = new RequestUsage(job)
  const writer = new AnswerWriter(request.kind, {
    model: engine.model,
    at: exchange.clock.now(),
    withLogprobs: job.alternatives !== undefined,
  })
  const sink = request.stream
    ? new StreamSink(exchange.response, writer, { usage, withUsage: request.usage })
    : new PlainSink(exchange.response, writer, usage)
  const choices = job.prompts.length * job.choicesPerPrompt
  // One after the other: the prompt is evaluated once for all of them, and nobody has to wait for one client's many.
  for (let choice = 0; choice < choices; choice += 1) {
    const pieces = engine.generate(place, job, { choice, usage, signal })
    for (;;) {
      const { value, done } = await pieces.next()
      if (done === true && value === undefined) return
      if (done === true) {
        if (value !== undefined) await sink.finish(choice, value)
        break
      }
      await sink.piece(choice, value)
    }
  }
  await sink.end()
}

/** undefined: the client went away in the middle of it. */
async function readBody(request: http.IncomingMessage): Promise<Result<unknown> | undefined> {
  const parts: Buffer[] = []
  let length = 0
  try {
    for await (const part of request as AsyncIterable<Buffer>) {
      length += part.length
      // What is too much is read and dropped: to leave the loop would cut the connection, and nobody would learn why.
      if (length <= MAX_BODY_BYTES) parts.push(part)
    }
  } catch {
    return undefined
  }
  if (length > MAX_BODY_BYTES)
    return fail('invalid', `The body is larger than ${MAX_BODY_BYTES} bytes.`, { reason: 'body_too_large' })
  try {
    return ok(JSON.parse(Buffer.concat(parts).toString()))
  } catch {
    return fail('invalid', 'The body is not JSON.', { reason: 'invalid_json' })
  }
}

function sendFailure(response: http.ServerResponse, failure: Failure): void {
  const status = { invalid: 400, not_found: 404, unavailable: 503 }[failure.kind as string] ?? 500
  if (failure.retryAfterMs !== undefined) response.setHeader('retry-after', Math.ceil(failure.retryAfterMs / 1_000))
  const param = failure.issues?.[0]?.path.join('.') ?? null
  sendJson(response, status, formatError(status, failure.message, param, failure.reason ?? null))
}

function formatError(status: number, message: string, param: string | null, code: string | null): object {
  const type = status < 500 ? 'invalid_request_error' : status === 503 ? 'overloaded_error' : 'server_error'
  return { error: { message, type, param, code } }
}

/** In the middle of a stream there is no status any more: the error is told, and the connection cut. */
function failResponse(response: http.ServerResponse): void {
  const body = formatError(500, 'The engine failed.', null, 'engine_failed')
  if (!response.headersSent) return sendJson(response, 500, body)
  response.write(formatSse({ data: JSON.stringify(body) }), () => response.destroy())
}

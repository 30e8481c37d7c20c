/**
 * The HTTP client of a cloud account: pacing, circuit breaker, timeouts, limits, and JSON that is checked by a schema.
 *
 * Only reads are repeated. A write without an answer may have taken effect, so the error is passed on and `list` shows
 * the truth. A write that was answered with 401 had no effect: it is sent once more with a new token.
 *
 * Connections go only to public addresses unless the server allows others, and redirects are not followed
 * (base/net/outbound.ts). Credentials and the bodies of requests never appear in errors.
 */
import { request, type Dispatcher } from 'undici'
import type { z } from 'zod'
import { addMs, SECOND_MS, type Clock } from '../../base/instant.ts'
import { signalWithin } from '../../base/signal-within.ts'
import { waitOn } from '../../base/wait.ts'
import type { Breaker } from './breaker.ts'
import type { Pacer } from './pacer.ts'

const MAX_ANSWER_BYTES = 16 * 1024 * 1024
const MAX_TEXT_CHARS = 300
const MAX_READ_TRIES = 3
const RETRY_MS = 300
/** If a cloud asks for a longer pause, a later pass asks again. */
const MAX_RETRY_AFTER_MS = 10 * SECOND_MS
const MIN_SECRET_CHARS = 6
const MAX_WARNINGS = 100
/** A longer list is an error: a truncated one would make machines look gone. */
const MAX_PAGES = 200

export interface HttpOptions {
  readonly baseUrl: string
  readonly agent: Dispatcher
  readonly clock: Clock
  readonly pacer: Pacer
  readonly breaker: Breaker
  /** Counted from when a request is sent. A request may wait for its turn as long as its caller does. */
  readonly timeoutMs: number
  /** Replaced by `***` in every error. */
  readonly secrets: readonly string[]
  /** Tells the operator. */
  readonly warn: (error: unknown, what: string) => void
  /** Returns the headers that authenticate us. `renew`: the previous ones were rejected. */
  readonly authorize: (sent: OutgoingRequest, renew: boolean, signal: AbortSignal) => Promise<Record<string, string>>
}

export interface OutgoingRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** The path with its query, as it is sent. */
  readonly path: string
  readonly body: string
}

export interface CloudCall {
  readonly method?: OutgoingRequest['method']
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  readonly body?: unknown
  /** The name of a separate rate limit (`CloudVendor.pace.routes`). */
  readonly route?: string
  /** A status of 500 or more by which the vendor refuses this call. It does not count as a failure of the vendor. */
  readonly refusesWith?: number
  readonly signal: AbortSignal
}

/**
 * The vendor answered with an error, or not at all (`status` undefined: a write may have taken effect). The message is
 * safe to log.
 */
export class CloudError extends Error {
  readonly status: number | undefined
  /** The body of the answer, in which the vendor's own code finds its error code. */
  readonly answer: unknown

  constructor(message: string, status: number | undefined, answer: unknown, cause?: unknown) {
    super(message, { cause })
    this.status = status
    this.answer = answer
  }

  /** The vendor understood the request and did nothing. */
  get isRefusal(): boolean {
    return this.status !== undefined && this.status >= 400 && this.status < 500 && this.status !== 408
  }
}

/** Tells whether the vendor did nothing and never will. After a 429 a later attempt may succeed. */
export function isRefused(error: unknown): error is CloudError {
  return error instanceof CloudError && error.isRefusal && error.status !== 429
}

interface Answer {
  readonly status: number
  readonly body: unknown
  readonly retryAfterMs: number | undefined
}

export class CloudHttp {
  readonly #options: HttpOptions
  readonly #warnings = new Set<string>()

  constructor(options: HttpOptions) {
    this.#options = options
  }

  /** Repeats the call after a transient failure. */
  async read<S extends z.ZodType>(schema: S, call: CloudCall): Promise<z.output<S>> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#send(schema, { method: 'GET', ...call })
      } catch (error) {
        const pauseMs = pauseAfter(error)
        if (pauseMs === undefined || tries >= MAX_READ_TRIES || call.signal.aborted) throw error
        await waitOn(this.#options.clock, pauseMs * tries, call.signal)
      }
    }
  }

  /**
   * Reads all pages of a list. `next` returns the query of the following page (offset, page number, cursor or token),
   * and undefined after the last one.
   */
  async readPages<S extends z.ZodType>(
    schema: S,
    call: CloudCall,
    next: (page: z.output<S>, pages: ReadonlyArray<z.output<S>>) => CloudCall['query'],
  ): Promise<Array<z.output<S>>> {
    const pages: Array<z.output<S>> = []
    const cursors = new Set<string>()
    let query: CloudCall['query'] = call.query ?? {}
    while (query !== undefined) {
      const key = queryOf(query)
      if (cursors.has(key) || pages.length >= MAX_PAGES)
        throw new Error(`GET ${call.path} returned a list without an end.`)
      cursors.add(key)
      const page: z.output<S> = await this.read(schema, { ...call, query })
      pages.push(page)
      query = next(page, pages)
    }
    return pages
  }

  /**
   * Returns the entries of a list that match the schema. Each kind of mismatch is reported once, and the other entries
   * stay usable. Use it for offers; for machines only with a schema that accepts every machine of ours.
   */
  readable<S extends z.ZodType>(item: S, entries: readonly unknown[], where: string): Array<z.output<S>> {
    return entries.flatMap((entry) => {
      const parsed = item.safeParse(entry)
      if (parsed.success) return [parsed.data]
      const text = this.#safe(`An entry of ${where} is left out: ${issueOf(parsed.error)}`)
      if (!this.#warnings.has(text) && this.#warnings.size < MAX_WARNINGS) {
        this.#warnings.add(text)
        this.#options.warn(new CloudError(text, undefined, entry), where)
      }
      return []
    })
  }

  /** Sends the call once. An error that is not a refusal means that the outcome is unknown. */
  async write<S extends z.ZodType>(
    schema: S,
    call: CloudCall & { readonly method: OutgoingRequest['method'] },
  ): Promise<z.output<S>> {
    return this.#send(schema, call)
  }

  async #send<S extends z.ZodType>(schema: S, call: CloudCall): Promise<z.output<S>> {
    const { method = 'GET' } = call
    const path = `${call.path}${queryOf(call.query)}`
    const outgoing: OutgoingRequest = { method, path, body: call.body === undefined ? '' : JSON.stringify(call.body) }
    const answer = await this.#exchange(outgoing, call)
    const where = `${method} ${call.path}`
    if (answer.status >= 400) throw this.#refusal(answer, where)
    const parsed = schema.safeParse(answer.body)
    if (parsed.success) return parsed.data
    const text = `${where} returned an unexpected answer at ${issueOf(parsed.error)}`
    throw new CloudError(this.#safe(text), undefined, answer.body)
  }

  async #exchange(outgoing: OutgoingRequest, call: CloudCall): Promise<Answer> {
    const { authorize } = this.#options
    const headers = await authorize(outgoing, false, call.signal)
    const answer = await this.#try(outgoing, headers, call)
    const renewedHeaders = answer.status === 401 ? await authorize(outgoing, true, call.signal) : headers
    return JSON.stringify(renewedHeaders) === JSON.stringify(headers)
      ? answer
      : this.#try(outgoing, renewedHeaders, call)
  }

  /** Sends one request, which waits for its turn, reports its outcome to the breaker and has its own timeout. */
  async #try(outgoing: OutgoingRequest, headers: Record<string, string>, call: CloudCall): Promise<Answer> {
    const { pacer, breaker, clock, timeoutMs } = this.#options
    breaker.check()
    await pacer.turn(call.route, call.signal)
    breaker.enter()
    const answer = await this.#once(outgoing, headers, signalWithin(call.signal, timeoutMs)).catch((error: unknown) => {
      call.signal.throwIfAborted()
      breaker.failed()
      const text = error instanceof Error ? error.message : String(error)
      const message = `${outgoing.method} ${call.path} was not answered: ${text}`
      throw new CloudError(this.#safe(message), undefined, undefined, new Error(this.#safe(text)))
    })
    if (answer.status >= 500 && answer.status !== call.refusesWith) breaker.failed()
    else breaker.succeeded()
    if (answer.status === 429)
      await pacer.pause(addMs(clock.now(), Math.min(answer.retryAfterMs ?? SECOND_MS, MAX_RETRY_AFTER_MS)))
    return answer
  }

  async #once(outgoing: OutgoingRequest, headers: Record<string, string>, signal: AbortSignal): Promise<Answer> {
    const { baseUrl, agent, clock } = this.#options
    const response = await request(`${baseUrl.replace(/\/+$/, '')}${outgoing.path}`, {
      dispatcher: agent,
      method: outgoing.method,
      headers: {
        accept: 'application/json',
        'user-agent': 'berth',
        ...(outgoing.body === '' ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(outgoing.body === '' ? {} : { body: outgoing.body }),
      signal,
    })
    const chunks: Buffer[] = []
    let bytes = 0
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > MAX_ANSWER_BYTES) throw new Error('the answer is too large')
      chunks.push(chunk)
    }
    const body = parseBody(Buffer.concat(chunks).toString('utf8'))
    return { status: response.statusCode, body, retryAfterMs: readRetryAfter(response.headers['retry-after'], clock) }
  }

  #refusal({ status, body, retryAfterMs }: Answer, where: string): CloudError {
    const message = `${where} returned ${status}: ${vendorText(body).slice(0, MAX_TEXT_CHARS)}`
    return Object.assign(new CloudError(this.#safe(message), status, body), { retryAfterMs })
  }

  #safe(text: string): string {
    const secrets = this.#options.secrets.filter((secret) => secret.length >= MIN_SECRET_CHARS)
    return secrets.reduce((masked, secret) => masked.replaceAll(secret, '***'), text)
  }
}

/**
 * Finds the vendor's own sentence: `message`, `detail` or `title`, at the top or in `error` or the first of `errors`. A
 * body without one is shown as it is.
 */
export function vendorText(body: unknown): string {
  if (typeof body !== 'object' || body === null) return typeof body === 'string' && body !== '' ? body : 'no reason'
  const { error, errors } = body as { error?: unknown; errors?: unknown }
  for (const one of [error, Array.isArray(errors) ? (errors as unknown[])[0] : errors, body]) {
    if (typeof one === 'string' && one !== '') return one
    if (typeof one !== 'object' || one === null) continue
    const { message, detail, title } = one as Record<string, unknown>
    const reason = [message, detail, title].find((text): text is string => typeof text === 'string' && text !== '')
    if (reason !== undefined) return reason
  }
  return JSON.stringify(body)
}

/** Describes the first invalid field. */
function issueOf({ issues: [issue] }: z.ZodError): string {
  return issue === undefined ? '' : `${issue.path.join('.')}: ${issue.message}`
}

/** Returns how long to wait before a read is repeated. undefined: do not repeat it. */
function pauseAfter(error: unknown): number | undefined {
  if (!(error instanceof CloudError) || error.isRefusal) {
    const vendorDelayMs = error instanceof CloudError && error.status === 429 ? retryAfterOf(error) : undefined
    return vendorDelayMs !== undefined && vendorDelayMs <= MAX_RETRY_AFTER_MS ? vendorDelayMs : undefined
  }
  // An answer with an unexpected shape would have it again.
  return error.status === undefined && error.answer !== undefined ? undefined : RETRY_MS
}

function retryAfterOf(error: CloudError): number {
  return 'retryAfterMs' in error && typeof error.retryAfterMs === 'number' ? error.retryAfterMs : SECOND_MS
}

/** Accepts seconds or a date. */
function readRetryAfter(header: string | string[] | undefined, clock: Clock): number | undefined {
  const text = Array.isArray(header) ? header[0] : header
  if (text === undefined) return undefined
  if (/^\d{1,6}$/.test(text)) return Number.parseInt(text, 10) * SECOND_MS
  const at = Date.parse(text)
  return Number.isNaN(at) ? undefined : Math.max(0, at - clock.now())
}

function queryOf(query: CloudCall['query']): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined) search.set(name, String(value))
  return search.size === 0 ? '' : `?${search.toString()}`
}

function parseBody(text: string): unknown {
  if (text === '') return undefined
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text
  }
}

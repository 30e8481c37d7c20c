/**
 * The HTTP client of a cloud account: pacing, circuit breaker, timeouts, limits, and JSON that is checked by a schema.
 *
 * Only reads are repeated. A write that got no answer may have been done, so it is reported as it is and `list` tells. A
 * write that was answered with 401 was not done: it is sent again once, with a new token.
 *
 * Connections go only to public addresses unless the server allows others, and redirects are not followed (base/net/outbound.ts).
 * Credentials and the bodies of requests never appear in errors.
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
/** A vendor that asks for a longer pause is asked again in a later pass. */
const MAX_RETRY_AFTER_MS = 10 * SECOND_MS
const MIN_SECRET_CHARS = 6
const MAX_WARNINGS = 100
/** A list that goes on is an error: a list cut short would make machines look gone. */
const MAX_PAGES = 200

export interface HttpOptions {
  readonly baseUrl: string
  readonly agent: Dispatcher
  readonly clock: Clock
  readonly pacer: Pacer
  readonly breaker: Breaker
  /** It counts from when a request is sent. A request may wait for its turn as long as its caller does. */
  readonly timeoutMs: number
  /** Never shown in an error. */
  readonly secrets: readonly string[]
  /** The operator reads it. */
  readonly warn: (error: unknown, what: string) => void
  /** The headers that identify us. `renew`: the last ones were rejected. */
  readonly authorize: (sent: Sent, renew: boolean, signal: AbortSignal) => Promise<Record<string, string>>
}

export interface Sent {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** The path with its query, as it is sent. */
  readonly path: string
  readonly body: string
}

export interface Ask {
  readonly method?: Sent['method']
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  readonly body?: unknown
  /** The name of a rate limit of its own (`CloudVendor.pace.routes`). */
  readonly route?: string
  /** A status of 500 or more with which the vendor refuses this request. It does not count as a failure of the vendor. */
  readonly refusesWith?: number
  readonly signal: AbortSignal
}

/**
 * The vendor answered with an error, or not at all (`status` undefined: what a write was for may have been done). The
 * message is safe to log.
 */
export class CloudError extends Error {
  readonly status: number | undefined
  /** The body of the answer, for the vendor's own code to find its error code in. */
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

/** The vendor did nothing, and will not do it later either: 429 only asks to wait. */
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

  /** Repeats what fails in passing. */
  async read<S extends z.ZodType>(schema: S, ask: Ask): Promise<z.output<S>> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#send(schema, { method: 'GET', ...ask })
      } catch (error) {
        const pauseMs = pauseAfter(error)
        if (pauseMs === undefined || tries >= MAX_READ_TRIES || ask.signal.aborted) throw error
        await waitOn(this.#options.clock, pauseMs * tries, ask.signal)
      }
    }
  }

  /**
   * All pages of a list. `next` has the query of the following page (offset, page number, cursor or token), and undefined
   * after the last one.
   */
  async readPages<S extends z.ZodType>(
    schema: S,
    ask: Ask,
    next: (page: z.output<S>, pages: ReadonlyArray<z.output<S>>) => Ask['query'],
  ): Promise<Array<z.output<S>>> {
    const pages: Array<z.output<S>> = []
    const cursors = new Set<string>()
    let query: Ask['query'] = ask.query ?? {}
    while (query !== undefined) {
      const key = queryOf(query)
      if (cursors.has(key) || pages.length >= MAX_PAGES)
        throw new Error(`GET ${ask.path} returned a list without an end.`)
      cursors.add(key)
      const page: z.output<S> = await this.read(schema, { ...ask, query })
      pages.push(page)
      query = next(page, pages)
    }
    return pages
  }

  /**
   * The entries of a list that have the right shape. One that has not is reported once, and does not cost all others: use
   * it for offers, and for machines only with a schema that takes every machine of ours.
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

  /** Sent once. An error that is not a refusal means that the outcome is unknown. */
  async write<S extends z.ZodType>(schema: S, ask: Ask & { readonly method: Sent['method'] }): Promise<z.output<S>> {
    return this.#send(schema, ask)
  }

  async #send<S extends z.ZodType>(schema: S, ask: Ask): Promise<z.output<S>> {
    const { method = 'GET' } = ask
    const path = `${ask.path}${queryOf(ask.query)}`
    const sent: Sent = { method, path, body: ask.body === undefined ? '' : JSON.stringify(ask.body) }
    const answer = await this.#exchange(sent, ask)
    const where = `${method} ${ask.path}`
    if (answer.status >= 400) throw this.#refusal(answer, where)
    const parsed = schema.safeParse(answer.body)
    if (parsed.success) return parsed.data
    const text = `${where} returned an unexpected answer at ${issueOf(parsed.error)}`
    throw new CloudError(this.#safe(text), undefined, answer.body)
  }

  async #exchange(sent: Sent, ask: Ask): Promise<Answer> {
    const { authorize } = this.#options
    const headers = await authorize(sent, false, ask.signal)
    const answer = await this.#try(sent, headers, ask)
    const renewed = answer.status === 401 ? await authorize(sent, true, ask.signal) : headers
    return JSON.stringify(renewed) === JSON.stringify(headers) ? answer : this.#try(sent, renewed, ask)
  }

  /** One request, with a turn, an outcome for the breaker and a timeout of its own. */
  async #try(sent: Sent, headers: Record<string, string>, ask: Ask): Promise<Answer> {
    const { pacer, breaker, clock, timeoutMs } = this.#options
    breaker.check()
    await pacer.turn(ask.route, ask.signal)
    breaker.enter()
    const answer = await this.#once(sent, headers, signalWithin(ask.signal, timeoutMs)).catch((error: unknown) => {
      ask.signal.throwIfAborted()
      breaker.failed()
      const text = error instanceof Error ? error.message : String(error)
      const message = `${sent.method} ${ask.path} was not answered: ${text}`
      throw new CloudError(this.#safe(message), undefined, undefined, new Error(this.#safe(text)))
    })
    if (answer.status >= 500 && answer.status !== ask.refusesWith) breaker.failed()
    else breaker.succeeded()
    if (answer.status === 429)
      await pacer.pause(addMs(clock.now(), Math.min(answer.retryAfterMs ?? SECOND_MS, MAX_RETRY_AFTER_MS)))
    return answer
  }

  async #once(sent: Sent, headers: Record<string, string>, signal: AbortSignal): Promise<Answer> {
    const { baseUrl, agent, clock } = this.#options
    const answer = await request(`${baseUrl.replace(/\/+$/, '')}${sent.path}`, {
      dispatcher: agent,
      method: sent.method,
      headers: {
        accept: 'application/json',
        'user-agent': 'berth',
        ...(sent.body === '' ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(sent.body === '' ? {} : { body: sent.body }),
      signal,
    })
    const chunks: Buffer[] = []
    let bytes = 0
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > MAX_ANSWER_BYTES) throw new Error('the answer is too large')
      chunks.push(chunk)
    }
    const body = parseBody(Buffer.concat(chunks).toString('utf8'))
    return { status: answer.statusCode, body, retryAfterMs: readRetryAfter(answer.headers['retry-after'], clock) }
  }

  #refusal({ status, body, retryAfterMs }: Answer, where: string): CloudError {
    const message = `${where} returned ${status}: ${vendorText(body).slice(0, MAX_TEXT_CHARS)}`
    return Object.assign(new CloudError(this.#safe(message), status, body), { retryAfterMs })
  }

  #safe(text: string): string {
    const secrets = this.#options.secrets.filter((secret) => secret.length >= MIN_SECRET_CHARS)
    return secrets.reduce((rest, secret) => rest.replaceAll(secret, '***'), text)
  }
}

/**
 * The vendor's own sentence: `message`, `detail` or `title`, at the top or in `error` or the first of `errors`. A body
 * without one is shown as it is.
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

/** The first field that is wrong, and how. */
function issueOf({ issues: [issue] }: z.ZodError): string {
  return issue === undefined ? '' : `${issue.path.join('.')}: ${issue.message}`
}

/** How long to wait before a read is repeated. undefined: it is not. */
function pauseAfter(error: unknown): number | undefined {
  if (!(error instanceof CloudError) || error.isRefusal) {
    const vendorDelayMs = error instanceof CloudError && error.status === 429 ? retryAfterOf(error) : undefined
    return vendorDelayMs !== undefined && vendorDelayMs <= MAX_RETRY_AFTER_MS ? vendorDelayMs : undefined
  }
  // An answer that has another shape will not have the right one next time.
  return error.status === undefined && error.answer !== undefined ? undefined : RETRY_MS
}

function retryAfterOf(error: CloudError): number {
  return 'retryAfterMs' in error && typeof error.retryAfterMs === 'number' ? error.retryAfterMs : SECOND_MS
}

/** Seconds, or a date. */
function readRetryAfter(header: string | string[] | undefined, clock: Clock): number | undefined {
  const text = Array.isArray(header) ? header[0] : header
  if (text === undefined) return undefined
  if (/^\d{1,6}$/.test(text)) return Number.parseInt(text, 10) * SECOND_MS
  const at = Date.parse(text)
  return Number.isNaN(at) ? undefined : Math.max(0, at - clock.now())
}

function queryOf(query: Ask['query']): string {
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

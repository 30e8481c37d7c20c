/**
 * A small client of the Kubernetes API: plain HTTPS, about ten endpoints. `ApiRefused` means that the server answered
 * with an error; after any other error the outcome is unknown. A call is repeated only if the first attempt changed
 * nothing: once with a new token after a 401, and a few times after a 429 or while the quota was being counted.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Readable } from 'node:stream'
import { Agent, request, type Dispatcher } from 'undici'
import { WebSocket } from 'ws'
import type { z } from 'zod'
import { contained } from '../../base/net/contained.ts'
import type { ClusterAccess } from './kubeconfig.ts'
import { listHead, statusObject, watchEvent } from './objects.ts'

/** The server answered with an error. */
export class ApiRefused extends Error {
  readonly status: number
  /** The name that Kubernetes gives the error: `NotFound`, `AlreadyExists`, `Forbidden`, … */
  readonly reason: string
  constructor(status: number, reason: string, message: string) {
    super(message)
    this.status = status
    this.reason = reason
  }
}

export function hasStatus(error: unknown, ...status: number[]): error is ApiRefused {
  return error instanceof ApiRefused && status.includes(error.status)
}

const CALL_TIMEOUT_MS = 15_000
const CONNECT_TIMEOUT_MS = 10_000
const MAX_REPLY_BYTES = 64 * 1_048_576
const MAX_ERROR_BYTES = 65_536
const MAX_EVENT_BYTES = 8 * 1_048_576
const MAX_PAGES = 1_000
const PAGE_ITEMS = 500
const MAX_PUT_OFF = 3
const MAX_PUT_OFF_MS = 10_000
const DEFAULT_PUT_OFF_MS = 1_000
/** Servers send a bookmark about every minute, so a watch that is silent for longer is dead. */
const WATCH_SILENT_MS = 150_000
const WATCH_SECONDS = 300
/** A concurrent create used the quota. */
const QUOTA_CONFLICT = /cannot be fulfilled on resourcequotas/
const QUOTA_MS = 200
const MAX_MESSAGE_CHARS = 1_000
const MAX_FRAME_BYTES = 4 * 1_048_576
const LINE_FEED = 0x0a

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'
export type Query = Readonly<Record<string, string | readonly string[]>>

export interface CallOptions {
  readonly query?: Query
  readonly body?: unknown
  readonly contentType?: string
  readonly timeoutMs?: number
  readonly signal: AbortSignal
}

export interface ObjectList<T> {
  readonly items: T[]
  readonly resourceVersion: string
}

export interface WatchEvent {
  readonly type: z.output<typeof watchEvent>['type']
  readonly object: unknown
}

const APPLY = 'application/apply-patch+yaml'
/** Kubernetes records under this name which fields we set. */
const FIELD_MANAGER = 'berth'

export class KubernetesApi {
  readonly #access: ClusterAccess
  readonly #agent: Agent

  constructor(access: ClusterAccess) {
    this.#access = access
    this.#agent = new Agent({
      connect: { ...access.tls, timeout: CONNECT_TIMEOUT_MS },
      pipelining: 1,
      connections: 32,
      keepAliveTimeout: 10_000,
    })
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  async get<T>(path: string, schema: z.ZodType<T>, options: CallOptions): Promise<T> {
    return this.#call('GET', path, schema, options)
  }

  /** undefined: the object does not exist. */
  async find<T>(path: string, schema: z.ZodType<T>, options: CallOptions): Promise<T | undefined> {
    return this.get(path, schema, options).catch((error: unknown) => {
      if (hasStatus(error, 404)) return undefined
      throw error
    })
  }

  async create<T>(path: string, body: unknown, schema: z.ZodType<T>, options: CallOptions): Promise<T> {
    return this.#call('POST', path, schema, { ...options, body })
  }

  /** Creates the object, or sets our fields of it. */
  async apply<T>(path: string, body: unknown, schema: z.ZodType<T>, options: CallOptions): Promise<T> {
    const query = { fieldManager: FIELD_MANAGER, force: 'true' }
    return this.#call('PATCH', path, schema, { ...options, body, query, contentType: APPLY })
  }

  /** Returns whether the object existed. */
  async delete(path: string, options: CallOptions): Promise<boolean> {
    try {
      const response = await this.#send('DELETE', path, options)
      await response.body.dump()
      return true
    } catch (error) {
      if (hasStatus(error, 404)) return false
      throw error
    }
  }

  /** Reads all pages. They show one moment; if the server no longer has it, a page fails with 410. */
  async list<T>(path: string, schema: z.ZodType<T>, options: CallOptions): Promise<ObjectList<T>> {
    const items: T[] = []
    let next: string | undefined
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const query = { ...options.query, limit: String(PAGE_ITEMS), ...(next === undefined ? {} : { continue: next }) }
      const { metadata, items: page } = await this.#call('GET', path, listHead, { ...options, query })
      for (const item of page ?? []) items.push(schema.parse(item))
      if (metadata.continue === undefined || metadata.continue === '') {
        return { items, resourceVersion: metadata.resourceVersion }
      }
      next = metadata.continue
    }
    throw new Error(`${path} has more than ${MAX_PAGES * PAGE_ITEMS} items`)
  }

  /**
   * Ends when the server closes the watch, as it does every few minutes. An expired version is `ApiRefused` with 410.
   */
  async *watch(path: string, resourceVersion: string, signal: AbortSignal): AsyncGenerator<WatchEvent> {
    const query = {
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion,
      timeoutSeconds: String(WATCH_SECONDS),
    }
    const { body } = await this.#send('GET', path, { query, signal }, { bodyTimeout: WATCH_SILENT_MS })
    for await (const line of linesOf(body)) {
      const event = watchEvent.parse(JSON.parse(line))
      if (event.type === 'ERROR') {
        const status = statusObject.parse(event.object)
        throw new ApiRefused(status.code ?? 500, status.reason ?? '', shorten(status.message ?? 'The watch failed.'))
      }
      yield event
    }
  }

  /** Opens an endless answer, such as a log. Only the wait for its head has a timeout. */
  async stream(path: string, query: Query, signal: AbortSignal): Promise<Readable> {
    const { body } = await this.#send('GET', path, { query, signal }, { bodyTimeout: 0 })
    return body
  }

  /** Resolves once the connection is open. */
  async connect(path: string, query: Query, protocol: string, signal: AbortSignal): Promise<WebSocket> {
    signal.throwIfAborted()
    const token = await this.#access.token()
    const { server, tls } = this.#access
    const socket = new WebSocket(`${server.replace(/^http/, 'ws')}${path}?${encode(query)}`, [protocol], {
      ...tls,
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      handshakeTimeout: CALL_TIMEOUT_MS,
      maxPayload: MAX_FRAME_BYTES,
      perMessageDeflate: false,
    })
    const abort = (): void => socket.terminate()
    signal.addEventListener('abort', abort, { once: true })
    try {
      await new Promise<void>((resolve, reject) => {
        // The pause keeps messages until the caller listens; reading resumes the socket.
        socket.once('open', () => {
          socket.pause()
          resolve()
        })
        socket.once('error', reject)
        socket.once('unexpected-response', (_request, response) => {
          const pieces: Buffer[] = []
          response.on(
            'data',
            contained(reject, (piece: Buffer) => pieces.length < 16 && pieces.push(piece)),
          )
          response.once('close', () =>
            reject(refusalOf(response.statusCode ?? 500, Buffer.concat(pieces).toString('utf8'))),
          )
        })
      })
      return socket
    } catch (error) {
      socket.on('error', () => {})
      socket.terminate()
      throw error
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  async #call<T>(method: Method, path: string, schema: z.ZodType<T>, options: CallOptions): Promise<T> {
    const { body } = await this.#send(method, path, options)
    return schema.parse(JSON.parse(await textOf(body, MAX_REPLY_BYTES)))
  }

  async #send(
    method: Method,
    path: string,
    options: CallOptions,
    more: { bodyTimeout?: number } = {},
  ): Promise<Dispatcher.ResponseData> {
    const { signal } = options
    for (let putOff = 0, fresh = false; ;) {
      signal.throwIfAborted()
      const token = await this.#access.token(fresh ? 'fresh' : undefined)
      const response = await this.#request(method, path, token, options, more)
      if (response.statusCode < 300) return response
      const text = await textOf(response.body, MAX_ERROR_BYTES)
      if (response.statusCode === 401 && token !== undefined && !fresh) {
        fresh = true
      } else if (response.statusCode === 429 && putOff < MAX_PUT_OFF) {
        putOff += 1
        await pause(putOffMs(response.headers['retry-after']), undefined, { signal })
      } else if (response.statusCode === 409 && QUOTA_CONFLICT.test(text) && putOff < MAX_PUT_OFF) {
        putOff += 1
        await pause(QUOTA_MS, undefined, { signal })
      } else {
        throw refusalOf(response.statusCode, text)
      }
    }
  }

  #request(
    method: Method,
    path: string,
    token: string | undefined,
    { query, body, contentType, signal, timeoutMs = CALL_TIMEOUT_MS }: CallOptions,
    { bodyTimeout = timeoutMs }: { bodyTimeout?: number },
  ): Promise<Dispatcher.ResponseData> {
    return request(`${this.#access.server}${path}${query === undefined ? '' : `?${encode(query)}`}`, {
      method,
      dispatcher: this.#agent,
      signal,
      headersTimeout: timeoutMs,
      bodyTimeout,
      headers: {
        accept: 'application/json',
        'user-agent': 'berth',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': contentType ?? 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  }
}

function encode(query: Query): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (typeof value === 'string' ? [value] : value).map((one): [string, string] => [name, one]),
  )
  return new URLSearchParams(pairs).toString()
}

/** Throws when the body is longer, since a truncated answer is useless. */
async function textOf(body: Readable, maxBytes: number): Promise<string> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of body as AsyncIterable<Buffer>) {
    bytes += piece.length
    if (bytes > maxBytes) {
      body.destroy()
      throw new Error(`The answer of the API server has more than ${maxBytes} bytes.`)
    }
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}

async function* linesOf(body: Readable): AsyncGenerator<string> {
  let buffer: Buffer = Buffer.alloc(0)
  for await (const piece of body as AsyncIterable<Buffer>) {
    buffer = buffer.length === 0 ? piece : Buffer.concat([buffer, piece])
    for (let end = buffer.indexOf(LINE_FEED); end >= 0; end = buffer.indexOf(LINE_FEED)) {
      const line = buffer.subarray(0, end).toString('utf8')
      buffer = buffer.subarray(end + 1)
      if (line.trim() !== '') yield line
    }
    if (buffer.length > MAX_EVENT_BYTES) throw new Error('An event of the API server is too long.')
  }
}

function refusalOf(status: number, text: string): ApiRefused {
  let answer: z.output<typeof statusObject> | undefined
  try {
    answer = statusObject.parse(JSON.parse(text))
  } catch {
    // A proxy in front of the API server answers in its own words.
  }
  return new ApiRefused(
    status,
    answer?.reason ?? '',
    shorten(answer?.message ?? (text.trim() || `HTTP status ${status}`)),
  )
}

function shorten(text: string): string {
  return text.length <= MAX_MESSAGE_CHARS ? text : `${text.slice(0, MAX_MESSAGE_CHARS)}…`
}

function putOffMs(header: string | string[] | undefined): number {
  const seconds = Number(Array.isArray(header) ? header[0] : header)
  const delayMs = Number.isFinite(seconds) && seconds > 0 ? seconds * 1_000 : DEFAULT_PUT_OFF_MS
  return Math.min(delayMs, MAX_PUT_OFF_MS)
}

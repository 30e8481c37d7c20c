/**
 * Sends one GET and follows its redirects. URLs come from operators and from redirects, so every hop passes the guard
 * of `base/net/outbound.ts`. The exception is an origin from this server's settings (the registry, the hub): an
 * internal mirror is common, and anyone who sets a server's environment can reach its network anyway. A token is sent
 * only to that origin.
 *
 * This uses node:http instead of undici: a body may stay unread while the disk is busy, and undici 7 crashes the
 * process when a server closes the connection of such a body.
 */
import http, { type IncomingMessage } from 'node:http'
import https from 'node:https'
import type { LookupFunction } from 'node:net'
import { answerTo } from '../../base/net/http-answer.ts'
import { checkOutboundUrl, guardedLookup, OutboundRefused, type Resolve } from '../../base/net/outbound.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'

const MAX_HOPS = 5
const CONNECT_MS = 30_000

export interface GetOptions {
  readonly headers: Readonly<Record<string, string>>
  /** The `Authorization` header for the first origin; a function if it expires. */
  readonly authorization: string | (() => string) | null
  /** An origin from this server's settings, which is exempt from the guard. */
  readonly trustedOrigin: string | null
  readonly signal: AbortSignal
}

export interface Answer {
  /** The address that answered, after redirects. */
  readonly url: string
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: IncomingMessage
}

export interface Getter {
  /** Returns a response with any status but a redirect. Only `unavailable` failures are worth a retry. */
  get(url: string, options: GetOptions): Promise<Result<Answer>>
  close(): Promise<void>
}

export function makeGetter(options: { readonly allowPrivate: boolean; readonly resolve?: Resolve }): Getter {
  const { allowPrivate, resolve } = options
  const guarded = guardedLookup(allowPrivate, resolve)
  const trusted = guardedLookup(true, resolve)
  const closing = new AbortController()

  const hop = async (url: URL, first: string, get: GetOptions): Promise<Result<Answer>> => {
    const isTrusted = url.origin === get.trustedOrigin
    const refused = await checkOutboundUrl(url.href, isTrusted || allowPrivate, resolve)
    if (refused !== undefined) return fail('address_refused', { url: whereOf(url.href), cause: refused })
    return send(
      isTrusted ? trusted : guarded,
      url,
      {
        ...get.headers,
        ...(get.authorization !== null && url.origin === first ? { authorization: textOf(get.authorization) } : {}),
      },
      AbortSignal.any([get.signal, closing.signal]),
    )
  }

  return {
    get: async (href, get) => {
      if (!URL.canParse(href)) return fail('bad_source', { message: 'The address is not a valid URL.' })
      let url = new URL(href)
      const first = url.origin
      for (let hops = 0; hops <= MAX_HOPS; hops += 1) {
        const answer = await hop(url, first, get)
        if (!answer.ok || !isRedirect(answer.value.status)) return answer
        const to = answer.value.headers.location
        answer.value.body.destroy()
        if (typeof to !== 'string' || !URL.canParse(to, url.href)) {
          return fail('bad_redirect', { url: whereOf(url.href), max: undefined, failureKind: 'unavailable' })
        }
        url = new URL(to, url)
      }
      return fail('bad_redirect', { url: whereOf(href), max: MAX_HOPS })
    },
    close: async () => closing.abort(),
  }
}

function textOf(text: string | (() => string)): string {
  return typeof text === 'string' ? text : text()
}

/** Returns the URL for messages and logs, without the query, which may contain a signature. */
export function whereOf(href: string): string {
  const { origin, pathname } = new URL(href)
  return `${origin}${pathname}`
}

async function send(
  lookup: LookupFunction,
  url: URL,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Result<Answer>> {
  const request = (url.protocol === 'https:' ? https : http).get(url, {
    lookup,
    signal,
    // Connections are not kept alive: downloads are few and long.
    agent: false,
    // Compression is off, so that size and digest are those of the file.
    headers: { 'user-agent': 'Berth-Models/1', 'accept-encoding': 'identity', ...headers },
  })
  const deadline = setTimeout(() => request.destroy(new Error('no response in time')), CONNECT_MS)
  try {
    const body = await answerTo(request)
    // Ignores errors on a body that is no longer read.
    body.on('error', () => {})
    return ok({ url: url.href, status: body.statusCode ?? 0, headers: body.headers, body })
  } catch (error) {
    return failureOf(url, error)
  } finally {
    clearTimeout(deadline)
  }
}

function failureOf(url: URL, error: unknown): Failure {
  if (error instanceof OutboundRefused) {
    return fail('address_refused', { url: whereOf(url.href), cause: error.message })
  }
  return fail('unreachable', { url: whereOf(url.href), cause: `cannot be reached (${nameOf(error)})` })
}

function isRedirect(status: number): boolean {
  return [301, 302, 303, 307, 308].includes(status)
}

/** Returns a stable code for the error, since messages of libraries may contain an address. */
export function nameOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown'
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name
}

/**
 * The request head for the fast path: `POST /v1/chat/completions` with a plain body. It replaces node:http's parser and
 * fastify's routing, most of the CPU that the fast path saves. A head with anything unusual is left to node:http, so no
 * request is ever read in two ways.
 */

export interface FastPathHead {
  readonly hosts: readonly string[]
  readonly authorization: string
  readonly bodyBytes: number
  /** The length, including the empty line at its end. */
  readonly headBytes: number
  readonly traceparent: string | undefined
  readonly session: string | undefined
}

const REQUEST_LINE = 'POST /v1/chat/completions HTTP/1.1\r\n'
const MAX_HEAD_BYTES = 8_192

/** Headers that change how a request must be read or answered. */
const unusual = new Set([
  'transfer-encoding',
  'expect',
  'upgrade',
  'content-encoding',
  'trailer',
  'te',
  'proxy-connection',
  'keep-alive',
  // A page of another origin: its key decides whether it may call, and the answer has further headers.
  'origin',
])

/** undefined: the request takes the full path. */
export function readFastPathHead(bytes: Buffer): FastPathHead | undefined {
  // The first byte rules out most other requests.
  if (bytes[0] !== 0x50 || bytes.length < REQUEST_LINE.length) return undefined
  const text = bytes.toString('latin1', 0, Math.min(bytes.length, MAX_HEAD_BYTES))
  if (!text.startsWith(REQUEST_LINE)) return undefined
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  return readLines(text.slice(REQUEST_LINE.length, end), end + 4)
}

function readLines(text: string, headBytes: number): FastPathHead | undefined {
  let authorization: string | undefined
  let length: string | undefined
  let type: string | undefined
  let host: string | undefined
  let forwardedHost: string | undefined
  let traceparent: string | undefined
  let session: string | undefined
  for (const line of text.split('\r\n')) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    const value = line.slice(colon + 1).trim()
    if (colon < 1 || !isPlainLine(line)) return undefined
    switch (name) {
      case 'authorization':
        if (authorization !== undefined) return undefined
        authorization = value
        break
      case 'content-length':
        if (length !== undefined) return undefined
        length = value
        break
      case 'content-type':
        if (type !== undefined) return undefined
        type = value
        break
      case 'host':
        if (host !== undefined) return undefined
        host = value
        break
      case 'x-forwarded-host':
        if (forwardedHost !== undefined) return undefined
        forwardedHost = value
        break
      case 'connection':
        if (value.toLowerCase() !== 'keep-alive') return undefined
        break
      case 'traceparent':
        traceparent = value
        break
      case 'x-session-id':
        session = value
        break
      default:
        if (unusual.has(name) || !isToken(name)) return undefined
    }
  }
  if (authorization === undefined || length === undefined || host === undefined || !isJson(type)) return undefined
  if (!/^[1-9]\d{0,8}$/.test(length)) return undefined
  return {
    hosts: hostsOf(host, forwardedHost),
    authorization,
    bodyBytes: Number.parseInt(length, 10),
    headBytes,
    traceparent,
    session,
  }
}

/** The host names that the client may have used: a proxy can forward the original one. */
function hostsOf(host: string, forwardedHost: string | undefined): string[] {
  return forwardedHost === undefined ? [host] : [host, ...forwardedHost.split(',').map((one) => one.trim())]
}

function isPlainLine(line: string): boolean {
  for (let at = 0; at < line.length; at++) {
    const code = line.charCodeAt(at)
    if (code < 0x20 || code > 0x7e) return false
  }
  // A line that starts with a space continues the one before (obsolete line folding).
  return line.charCodeAt(0) !== 0x20
}

function isToken(name: string): boolean {
  return /^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(name)
}

function isJson(type: string | undefined): boolean {
  return type === 'application/json' || type?.toLowerCase() === 'application/json; charset=utf-8'
}

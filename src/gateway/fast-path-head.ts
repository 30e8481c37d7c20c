/**
 * The head of the one request that is worth a reader of its own: `POST /v1/chat/completions` with a plain body. Only
 * heads without anything doubtful are accepted; all others are left to node:http, so that there is never a second
 * opinion on what a request says.
 */

export interface FastPathHead {
  readonly authorization: string
  readonly bodyBytes: number
  /** Of the head, with the empty line at its end. */
  readonly headBytes: number
  readonly traceparent: string | undefined
  readonly session: string | undefined
}

const REQUEST_LINE = 'POST /v1/chat/completions HTTP/1.1\r\n'
const MAX_HEAD_BYTES = 8_192

/** Headers that change how a request is to be read. */
const doubtful = new Set([
  'transfer-encoding',
  'expect',
  'upgrade',
  'content-encoding',
  'trailer',
  'te',
  'proxy-connection',
  'keep-alive',
])

/** undefined: not for us. */
export function readFastPathHead(bytes: Buffer): FastPathHead | undefined {
  // The first byte tells most of what is not for us apart.
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
  let host = false
  let traceparent: string | undefined
  let session: string | undefined
  for (const line of text.split('\r\n')) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    const value = line.slice(colon + 1).trim()
    if (colon < 1 || !isPlain(line)) return undefined
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
        if (host) return undefined
        host = true
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
        if (doubtful.has(name) || !isToken(name)) return undefined
    }
  }
  if (authorization === undefined || length === undefined || !host || !isJson(type)) return undefined
  if (!/^[1-9]\d{0,8}$/.test(length)) return undefined
  return { authorization, bodyBytes: Number.parseInt(length, 10), headBytes, traceparent, session }
}

function isPlain(line: string): boolean {
  for (let at = 0; at < line.length; at++) {
    const code = line.charCodeAt(at)
    if (code < 0x20 || code > 0x7e) return false
  }
  // A line that begins with a space belongs to the one before: an old way to write headers.
  return line.charCodeAt(0) !== 0x20
}

function isToken(name: string): boolean {
  return /^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(name)
}

function isJson(type: string | undefined): boolean {
  return type === 'application/json' || type?.toLowerCase() === 'application/json; charset=utf-8'
}

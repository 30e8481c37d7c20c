/**
 * Parses the head of an answer. Strict wherever leniency would let two parsers see two different answers: bare line
 * feeds, control characters, a space before a colon, folded lines, duplicate lengths.
 */

export interface ResponseHead {
  readonly status: number
  /** Lower-case names; the last value of a repeated header. */
  readonly headers: Map<string, string>
  readonly framing: Framing
  /** Body bytes, for framing `length`. */
  readonly length: number
  readonly keepAlive: boolean
  /** From `Keep-Alive: timeout=`. undefined: not given. */
  readonly keepAliveMs: number | undefined
}

/** How the end of the body is found. `close`: the connection closes. */
export type Framing = 'none' | 'length' | 'chunked' | 'close'

const MAX_HEADERS = 128
/** Keeps a length within safe integers. */
const MAX_LENGTH_DIGITS = 15
/** Cache of validated lower-case names; engines use a few dozen. */
const MAX_KNOWN_NAMES = 256

const ALLOWED = /^(?:[\t\x20-\x7e\x80-\xff]|\r\n)*$/
const STATUS_LINE = /^HTTP\/1\.[01] [1-5][0-9][0-9](?: |$)/
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const DIGITS = /^[0-9]+$/

/** `text` ends before the empty line. A string as result is the error. */
export function parseHead(text: string): ResponseHead | string {
  if (!text.startsWith('HTTP/1.')) return 'no status line'
  if (!ALLOWED.test(text)) return 'an invalid character in the head'
  const statusEnd = lineEnd(text, 0)
  const statusLine = text.slice(0, statusEnd)
  if (!STATUS_LINE.test(statusLine)) return 'no status line'
  const status = Number(statusLine.slice(9, 12))
  const headers = new Map<string, string>()
  let connection = ''
  let encoding: string | undefined
  let length: string | undefined
  let count = 0
  for (let at = statusEnd + 2; at < text.length;) {
    const end = lineEnd(text, at)
    const colon = text.indexOf(':', at)
    if (colon === -1 || colon > end) return 'a header without a colon'
    const name = knownName(text.slice(at, colon))
    if (name === undefined) return 'an invalid header name'
    const value = valueOf(text, colon + 1, end)
    count += 1
    if (count > MAX_HEADERS) return 'too many headers'
    if (name === 'content-length') {
      if (length !== undefined) return 'a second Content-Length'
      length = value
    } else if (name === 'transfer-encoding') {
      if (encoding !== undefined) return 'a second Transfer-Encoding'
      encoding = value.toLowerCase()
    } else if (name === 'connection') {
      connection += `,${value.toLowerCase()}`
    }
    headers.set(name, value)
    at = end + 2
  }
  const isOld = statusLine.charCodeAt(7) === 0x30
  const framed = frame(status, encoding, length, isOld)
  if (typeof framed === 'string') return framed
  return {
    status,
    headers,
    framing: framed.framing,
    length: framed.length,
    keepAlive: framed.framing !== 'close' && keepsAlive(connection, isOld),
    keepAliveMs: parseKeepAlive(headers.get('keep-alive')),
  }
}

function lineEnd(text: string, from: number): number {
  const end = text.indexOf('\r\n', from)
  return end === -1 ? text.length : end
}

/** Trims spaces and tabs only: in latin1 text, other blanks may be part of a character. */
function valueOf(text: string, from: number, to: number): string {
  let [first, last] = [from, to]
  while (first < last && isBlank(text.charCodeAt(first))) first += 1
  while (last > first && isBlank(text.charCodeAt(last - 1))) last -= 1
  return text.slice(first, last)
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09
}

const knownNames = new Map<string, string>()

function knownName(name: string): string | undefined {
  const cachedName = knownNames.get(name)
  if (cachedName !== undefined) return cachedName
  if (!TOKEN.test(name)) return undefined
  const lower = name.toLowerCase()
  if (knownNames.size < MAX_KNOWN_NAMES) knownNames.set(name, lower)
  return lower
}

interface Framed {
  readonly framing: Framing
  readonly length: number
}

const noBody: Framed = { framing: 'none', length: 0 }
const chunked: Framed = { framing: 'chunked', length: 0 }
const untilClose: Framed = { framing: 'close', length: 0 }

function frame(
  status: number,
  encoding: string | undefined,
  length: string | undefined,
  isOld: boolean,
): Framed | string {
  if (encoding !== undefined && length !== undefined) return 'both Content-Length and Transfer-Encoding'
  if (length !== undefined && (!DIGITS.test(length) || length.length > MAX_LENGTH_DIGITS)) {
    return 'an invalid Content-Length'
  }
  if (status < 200 || status === 204 || status === 304) return noBody
  if (encoding !== undefined) {
    if (encoding !== 'chunked' || isOld) return 'a Transfer-Encoding other than chunked'
    return chunked
  }
  if (length === undefined) return untilClose
  const bytes = Number(length)
  return bytes === 0 ? noBody : { framing: 'length', length: bytes }
}

function keepsAlive(connection: string, isOld: boolean): boolean {
  if (connection === '') return !isOld
  if (connection === ',keep-alive') return true
  const tokens = connection.split(',').map((token) => token.trim())
  return !tokens.includes('close') && (!isOld || tokens.includes('keep-alive'))
}

function parseKeepAlive(value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  const seconds = /(?:^|[\s,;])timeout\s*=\s*([0-9]{1,6})(?![0-9])/i.exec(value)?.[1]
  return seconds === undefined ? undefined : Number(seconds) * 1_000
}

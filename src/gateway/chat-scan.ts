/**
 * Reads the body of a chat request without parsing its messages, which may be a megabyte: where the top-level values
 * stand, whether the messages have the plain shape, and how far they reach. It accepts only what is beyond doubt.
 * `undefined` does not mean that a body is wrong, only that it must be read the careful way, by JSON.parse and the
 * contract's schema; so nothing is ever decided here that the schema would decide otherwise.
 */

export interface ChatScan {
  /** The body with `[]` in place of the messages, parsed. */
  readonly head: Readonly<Record<string, unknown>>
  /** Byte offsets of the values, end exclusive. */
  readonly messages: Span
  readonly model: Span
  readonly streamOptions: Span | undefined
  /** Where each message ends. */
  readonly messageEnds: readonly number[]
  /** Of the last `}`. */
  readonly closing: number
}

interface Span {
  readonly start: number
  readonly end: number
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d

/** Longer than this before a quote is found, and the native search is faster than the loop. */
const LOOP_BYTES = 48
/** What stands beside the messages: parameters, tools. */
const MOST_HEAD_BYTES = 65_536
const MOST_DEPTH = 32

const roles = new Set(['system', 'user', 'assistant', 'tool', 'developer'])

/** Thrown and caught in this file alone: the way out of a doubt from any depth. */
const doubt = new Error('not beyond doubt')

export function scanChat(body: Buffer): ChatScan | undefined {
  try {
    return scan(body)
  } catch (error) {
    if (error === doubt || error instanceof SyntaxError) return undefined
    throw error
  }
}

function scan(body: Buffer): ChatScan {
  const spans = new Map<string, Span>()
  const messageEnds: number[] = []
  let at = expect(body, skipSpace(body, 0), OPEN_OBJECT)
  for (;;) {
    at = skipSpace(body, at)
    const keyEnd = endOfString(body, at)
    const key = plainText(body, at, keyEnd)
    at = skipSpace(body, expect(body, skipSpace(body, keyEnd), COLON))
    const end = key === 'messages' ? scanMessages(body, at, messageEnds) : endOfValue(body, at)
    // Of two values with one name JSON.parse takes the last, and others take the first.
    if (spans.has(key)) throw doubt
    spans.set(key, { start: at, end })
    at = skipSpace(body, end)
    if (body[at] === CLOSE_OBJECT) break
    at = expect(body, at, COMMA)
  }
  if (skipSpace(body, at + 1) !== body.length) throw doubt

  const messages = spans.get('messages')
  const model = spans.get('model')
  if (messages === undefined || model === undefined || messageEnds.length === 0) throw doubt
  if (body.length - (messages.end - messages.start) > MOST_HEAD_BYTES) throw doubt
  const head = JSON.parse(
    `${body.toString('utf8', 0, messages.start)}[]${body.toString('utf8', messages.end, body.length)}`,
  ) as ChatScan['head']
  return { head, messages, model, streamOptions: spans.get('stream_options'), messageEnds, closing: at }
}

/** A list of objects with a plain role and a content that is a text or null. */
function scanMessages(body: Buffer, start: number, ends: number[]): number {
  let at = skipSpace(body, expect(body, start, OPEN_LIST))
  for (;;) {
    at = scanMessage(body, at)
    ends.push(at)
    at = skipSpace(body, at)
    if (body[at] === CLOSE_LIST) return at + 1
    at = skipSpace(body, expect(body, at, COMMA))
  }
}

function scanMessage(body: Buffer, start: number): number {
  let at = expect(body, start, OPEN_OBJECT)
  let role: string | undefined
  let hasContent = false
  for (;;) {
    at = skipSpace(body, at)
    const keyEnd = endOfString(body, at)
    const key = plainText(body, at, keyEnd)
    at = skipSpace(body, expect(body, skipSpace(body, keyEnd), COLON))
    const end = endOfValue(body, at)
    if (key === 'role') {
      if (role !== undefined) throw doubt
      role = plainText(body, at, end)
    } else if (key === 'content') {
      // Parts of other kinds (pictures) are for the careful way; null starts with an n.
      if (hasContent || (body[at] !== QUOTE && body[at] !== 0x6e)) throw doubt
      hasContent = true
    }
    at = skipSpace(body, end)
    if (body[at] === CLOSE_OBJECT) break
    at = expect(body, at, COMMA)
  }
  if (role === undefined || !roles.has(role)) throw doubt
  return at + 1
}

function skipSpace(body: Buffer, at: number): number {
  let byte = body[at]
  while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) byte = body[++at]
  return at
}

function expect(body: Buffer, at: number, byte: number): number {
  if (body[at] !== byte) throw doubt
  return at + 1
}

/** What stands between the quotes, when it needs no unescaping. */
function plainText(body: Buffer, start: number, end: number): string {
  if (body[start] !== QUOTE || end - start > 130) throw doubt
  const text = body.toString('latin1', start + 1, end - 1)
  if (!/^[\x20-\x5b\x5d-\x7e]*$/.test(text)) throw doubt
  return text
}

/** Behind the closing quote of the text that begins at `at`. */
function endOfString(body: Buffer, start: number): number {
  let at = expect(body, start, QUOTE)
  const loopEnd = at + LOOP_BYTES
  for (;;) {
    if (at < loopEnd) {
      const byte = body[at]
      if (byte === QUOTE) return at + 1
      if (byte === undefined) throw doubt
      at += byte === BACKSLASH ? 2 : 1
      continue
    }
    const quote = body.indexOf(QUOTE, at)
    if (quote === -1) throw doubt
    let escapes = 0
    while (quote - 1 - escapes >= at && body[quote - 1 - escapes] === BACKSLASH) escapes += 1
    if (escapes % 2 === 0) return quote + 1
    at = quote + 1
  }
}

/** Behind the value that begins at `at`. That its inside is well-formed is not looked at: an engine parses it anyway. */
function endOfValue(body: Buffer, start: number): number {
  const first = body[start]
  if (first === QUOTE) return endOfString(body, start)
  if (first !== OPEN_OBJECT && first !== OPEN_LIST) return endOfWord(body, start)
  let at = start
  let depth = 0
  for (;;) {
    const byte = body[at]
    if (byte === QUOTE) {
      at = endOfString(body, at)
      continue
    }
    if (byte === undefined) throw doubt
    at += 1
    if (byte === OPEN_OBJECT || byte === OPEN_LIST) {
      depth += 1
      if (depth > MOST_DEPTH) throw doubt
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) {
      depth -= 1
      if (depth === 0) return at
    }
  }
}

/** A number, true, false or null. */
function endOfWord(body: Buffer, start: number): number {
  let at = start
  for (;;) {
    const byte = body[at]
    const isPart =
      byte !== undefined &&
      ((byte >= 0x30 && byte <= 0x39) ||
        (byte >= 0x61 && byte <= 0x7a) ||
        byte === 0x2d ||
        byte === 0x2b ||
        byte === 0x2e ||
        byte === 0x45)
    if (!isPart) break
    at += 1
  }
  if (at === start) throw doubt
  return at
}

/**
 * The body of a chat request: read and checked by the same schema on both paths, and written for the engine by the same
 * function. The paths differ in one thing only. The front has the client's bytes, and where they say exactly what
 * JSON.parse made of them, the messages in them are sent on as they are, since writing a megabyte anew costs more than
 * everything else. JSON.parse has read those bytes, so they are well-formed, in valid UTF-8, and nothing in them is
 * hidden by a second member of the same name.
 */
import { isAscii, isUtf8 } from 'node:buffer'
import { countMembers } from '../base/json.ts'
import { inferenceEndpoints } from '../contract/inference.ts'
import { asLatin1 } from './chat-stream.ts'

export type JsonObject = Readonly<Record<string, unknown>>

/** The messages as JSON. */
export interface MessagesText {
  readonly bytes: Buffer
  /** Where each message ends, in `bytes`. */
  readonly ends: readonly number[]
}

export interface ChatBody {
  /** Texts in its messages may come out wrong: what is sent and kept are the bytes. */
  readonly value: JsonObject
  readonly messages: MessagesText
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d

/** Longer than this before a quote is found, and the native search is faster than the loop. */
const LOOP_BYTES = 48
/** Up to this size a body is put together as one text; the messages of larger ones stay where they are. */
const MAX_TEXT_BYTES = 16_384

const { body: schema } = inferenceEndpoints.createChatCompletion

/** undefined: not beyond doubt. The full path then finds out what is wrong with it, if anything is. */
export function readChatBody(bytes: Buffer): ChatBody | undefined {
  if (!isUtf8(bytes)) return undefined
  // One character a byte, which is far cheaper to decode than UTF-8. JSON's grammar is ASCII, so texts come out wrong
  // but everything else comes out right, and of the messages nothing else is looked at.
  const value = parse(bytes.toString('latin1'))
  const members = value === undefined ? -1 : countMembers(value)
  const messages = members === -1 ? undefined : findMessages(bytes, members)
  if (messages === undefined) return undefined
  const body = isAscii(bytes) ? value : withRightTexts(value, bytes, messages)
  return schema?.safeParse(body).success === true ? { value: body as JsonObject, messages } : undefined
}

function withRightTexts(value: unknown, bytes: Buffer, messages: MessagesText): unknown {
  const start = messages.bytes.byteOffset - bytes.byteOffset
  const [before, after] = [bytes.subarray(0, start), bytes.subarray(start + messages.bytes.length)]
  const beside = parse(`${before.toString('utf8')}[]${after.toString('utf8')}`)
  return { ...(beside as JsonObject), messages: (value as JsonObject)['messages'] }
}

/** undefined: not JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

export function writeMessages({ messages }: JsonObject): MessagesText {
  const bytes = Buffer.from(`{"messages":${JSON.stringify(messages)}}`)
  return findMessages(bytes) ?? { bytes, ends: [] }
}

/** What an engine is sent. The members are those beside the messages, at least one. */
export function writeChatBody(members: JsonObject, { bytes }: MessagesText): Array<Uint8Array | string> {
  const [head, tail] = ['{"messages":', asLatin1(`,${JSON.stringify(members).slice(1)}`)]
  return bytes.length > MAX_TEXT_BYTES ? [head, bytes, tail] : [head + bytes.toString('latin1') + tail]
}

/**
 * Where the messages stand in a body that JSON.parse has read. undefined: the bytes have another number of members than
 * the value, so that one name stands in an object twice; or the name `messages` is written with escapes.
 */
function findMessages(json: Buffer, members?: number): MessagesText | undefined {
  const ends: number[] = []
  let [at, depth, colons, start, end] = [0, 0, 0, -1, -1]
  let isMessages = false
  while (at < json.length) {
    switch (json[at]) {
      case QUOTE: {
        const after = endOfString(json, at)
        if (depth === 1) isMessages = isName(json, at, after)
        at = after
        continue
      }
      case COLON:
        colons += 1
        break
      case OPEN_LIST:
      case OPEN_OBJECT:
        depth += 1
        if (depth === 2 && isMessages) start = at
        break
      case CLOSE_LIST:
      case CLOSE_OBJECT:
        depth -= 1
        if (start === -1 || end !== -1) break
        if (depth === 2) ends.push(at + 1 - start)
        else if (depth === 1) end = at + 1
        break
      case undefined:
      default:
    }
    at += 1
  }
  if (end === -1 || (members !== undefined && colons !== members)) return undefined
  return { bytes: json.subarray(start, end), ends }
}

const NAME = '"messages"'

function isName(json: Buffer, start: number, end: number): boolean {
  return end - start === NAME.length && json.toString('latin1', start, end) === NAME
}

/** Behind the closing quote of the string that begins at `start`. */
function endOfString(json: Buffer, start: number): number {
  let at = start + 1
  const loopEnd = at + LOOP_BYTES
  while (at < loopEnd) {
    const byte = json[at]
    if (byte === QUOTE) return at + 1
    at += byte === BACKSLASH ? 2 : 1
  }
  for (;;) {
    const quote = json.indexOf(QUOTE, at)
    if (quote === -1) throw new Error('a text of a body that was read as JSON has no end')
    let escapes = 0
    while (quote - 1 - escapes >= at && json[quote - 1 - escapes] === BACKSLASH) escapes += 1
    if (escapes % 2 === 0) return quote + 1
    at = quote + 1
  }
}

/**
 * The simulated engine's responses, byte for byte, and the marks by which the load generator recognises a complete one.
 * All are built in advance: a slow engine would be measured instead of the proxies.
 */

/** The engine's response kinds; each has its own port. */
export const upstreamKinds = ['plain', 'stream', 'slow-stream', 'held', 'failing'] as const
export type UpstreamKind = (typeof upstreamKinds)[number]

/** Size of a plain response without its headers. */
export const PLAIN_ANSWER_BYTES = 500
/** One per chunk. */
export const STREAM_WORDS = 50
export const STREAM_WORD_EVERY_MS = 4
export const SLOW_STREAM_WORDS = 12
export const SLOW_STREAM_WORD_EVERY_MS = 1_000
/** A held request has been read completely and waits this long for its response. */
export const HELD_MS = 5_000

/** The usage the engine reports, whatever was sent. */
export const INPUT_TOKENS = 40
export const PLAIN_OUTPUT_TOKENS = 100

const CREATED = 1_750_000_000
const ENGINE_MODEL = 'engine'

export interface StreamMarks {
  /** Occurs once in each event with a word, and survives a changed id and model. */
  readonly word: string
  /** Occurs in the last event only. */
  readonly end: string
}

const STREAM_END = 'data: [DONE]\n\n'
/** The same words in each protocol that Berth speaks. Every stream ends with an empty line. */
export const streamMarks = {
  chat: { word: '"delta":{"content":" word', end: STREAM_END },
  messages: { word: '"text_delta","text":" word', end: 'data: {"type":"message_stop"}\n\n' },
  responses: { word: '"delta":" word', end: 'event: response.completed\n' },
} as const satisfies Readonly<Record<string, StreamMarks>>
export type StreamProtocol = keyof typeof streamMarks
/** Occurs in every plain response. */
export const PLAIN_MARK = 'to the very last word.'

export const plainAnswer = makePlainAnswer()
export const failingAnswer = answerOf('500 Internal Server Error', '{"error":{"message":"the engine is sick"}}')
export const healthAnswer = answerOf('200 OK', '{"status":"ok"}')

function makePlainAnswer(): Buffer {
  const bodyOf = (padding: string): string =>
    JSON.stringify({
      id: 'chatcmpl-engine',
      object: 'chat.completion',
      created: CREATED,
      model: ENGINE_MODEL,
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: `${padding}${PLAIN_MARK}` },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: usageOf(PLAIN_OUTPUT_TOKENS),
    })
  const words = 'The answer goes on and on '
  return answerOf('200 OK', bodyOf(words.repeat(20).slice(0, PLAIN_ANSWER_BYTES - bodyOf('').length)))
}

function answerOf(status: string, body: string): Buffer {
  return Buffer.from(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
}

/** Each piece is written separately; the first has the headers, the last the end of the stream. */
export function streamPieces(words: number): Buffer[] {
  return Array.from({ length: words }, (_, n) => {
    const isFirst = n === 0
    const isLast = n === words - 1
    return Buffer.from(
      [
        isFirst ? 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n' : '',
        isFirst ? chunkOf(eventOf({ role: 'assistant', content: '' })) : '',
        chunkOf(eventOf({ content: ` word${n}` })),
        isLast ? chunkOf(eventOf({}, 'stop') + usageEvent(words) + STREAM_END) : '',
        isLast ? '0\r\n\r\n' : '',
      ].join(''),
    )
  })
}

function chunkOf(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
}

const eventHead = { id: 'chatcmpl-engine', object: 'chat.completion.chunk', created: CREATED, model: ENGINE_MODEL }

function eventOf(delta: Readonly<Record<string, string>>, finishReason: string | null = null): string {
  const choices = [{ index: 0, delta, finish_reason: finishReason }]
  return `data: ${JSON.stringify({ ...eventHead, choices })}\n\n`
}

function usageEvent(words: number): string {
  return `data: ${JSON.stringify({ ...eventHead, choices: [], usage: usageOf(words) })}\n\n`
}

function usageOf(outputTokens: number): Record<string, number> {
  return {
    prompt_tokens: INPUT_TOKENS,
    completion_tokens: outputTokens,
    total_tokens: INPUT_TOKENS + outputTokens,
  }
}

/** The protocols of text as a client sees them: the request, the end of an answer, its usage. */
export type ProtocolName = 'chat' | 'messages' | 'responses'

export interface ChatAsk {
  readonly stream: boolean
  readonly maxTokens: number
  /** Uses the full path instead of the fast path. */
  readonly fullPath: boolean
  /** Leaves after this many words of a stream. undefined: reads to the end. */
  readonly leaveAfterWords?: number
  /** Absent: a chat. */
  readonly protocol?: ProtocolName
  /** A response that no server stores. */
  readonly isUnstored?: boolean
}

export interface ChatUsage {
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly outputTokens: number
}

export interface ChatTarget {
  readonly url: string
  readonly key: string
  readonly model: string
}

/** The message of a request, as the engine receives it. */
export interface SentMessage {
  readonly role: string
  readonly content: string
}

export interface Protocol {
  readonly path: string
  readonly write: (target: ChatTarget, ask: ChatAsk, message: SentMessage) => object
  /** The answer of a request with status 200 has come to its end. */
  readonly hasEnd: (ask: ChatAsk, body: string) => boolean
  /** Of a whole answer. undefined: it reports none. */
  readonly usageOf: (ask: ChatAsk, body: string) => ChatUsage | undefined
  /** Of a whole answer that can be read again. */
  readonly storedIdOf: (ask: ChatAsk, body: string) => string | undefined
}

export const protocols: Readonly<Record<ProtocolName, Protocol>> = {
  chat: {
    path: '/v1/chat/completions',
    write: ({ model }, { stream, maxTokens }, message) => ({
      model,
      messages: [message],
      max_tokens: maxTokens,
      ...(stream ? { stream, stream_options: { include_usage: true } } : {}),
    }),
    hasEnd: ({ stream }, body) => !stream || body.endsWith('data: [DONE]\n\n'),
    usageOf: ({ stream }, body) => {
      const { usage } = (stream ? lastEvent(body, '"usage"') : JSON.parse(body)) as { usage?: ChatCounts }
      if (usage === undefined) return undefined
      return {
        promptTokens: usage.prompt_tokens,
        cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
        outputTokens: usage.completion_tokens,
      }
    },
    storedIdOf: () => undefined,
  },
  messages: {
    path: '/v1/messages',
    write: ({ model }, { stream, maxTokens }, message) => ({
      model,
      messages: [message],
      max_tokens: maxTokens,
      ...(stream ? { stream } : {}),
    }),
    hasEnd: ({ stream }, body) => !stream || body.endsWith('event: message_stop\ndata: {"type":"message_stop"}\n\n'),
    usageOf: ({ stream }, body) => {
      const { usage } = (stream ? lastEvent(body, '"message_delta"') : JSON.parse(body)) as { usage: MessageCounts }
      const { input_tokens: fresh, cache_read_input_tokens: cachedTokens, output_tokens: outputTokens } = usage
      return { promptTokens: fresh + cachedTokens, cachedTokens, outputTokens }
    },
    storedIdOf: () => undefined,
  },
  responses: {
    path: '/v1/responses',
    write: ({ model }, { stream, maxTokens, isUnstored = false }, message) => ({
      model,
      input: [message],
      max_output_tokens: maxTokens,
      ...(stream ? { stream } : {}),
      ...(isUnstored ? { store: false } : {}),
    }),
    hasEnd: ({ stream }, body) =>
      !stream ||
      /^event: response\.(completed|incomplete)\ndata: .*\n\n$/.test(body.slice(body.lastIndexOf('event: '))),
    usageOf: (ask, body) => {
      const {
        input_tokens: promptTokens,
        input_tokens_details: details,
        output_tokens: outputTokens,
      } = responseIn(ask, body).usage
      return { promptTokens, cachedTokens: details.cached_tokens, outputTokens }
    },
    storedIdOf: (ask, body) => {
      const { id, store } = responseIn(ask, body)
      return store ? id : undefined
    },
  },
}

interface ChatCounts {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly prompt_tokens_details?: { readonly cached_tokens: number }
}

interface MessageCounts {
  readonly input_tokens: number
  readonly cache_read_input_tokens: number
  readonly output_tokens: number
}

interface StoredResponse {
  readonly id: string
  readonly store: boolean
  readonly usage: {
    readonly input_tokens: number
    readonly input_tokens_details: { readonly cached_tokens: number }
    readonly output_tokens: number
  }
}

function responseIn({ stream }: ChatAsk, body: string): StoredResponse {
  if (!stream) return JSON.parse(body) as StoredResponse
  return (lastEvent(body, '"response":') as { response: StoredResponse }).response
}

/** The data of the last event that contains a text. */
function lastEvent(body: string, text: string): unknown {
  const event = body.split('\n\n').findLast((one) => one.includes(text)) ?? ''
  return JSON.parse(event.slice(event.indexOf('data: ') + 6) || '{}')
}

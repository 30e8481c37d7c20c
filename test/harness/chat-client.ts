/**
 * One request for text over HTTP, in any protocol and observed to the byte: whether headers arrived, whether the whole
 * answer arrived, and the usage it reports. A client can also leave mid-stream. It uses node:http, because `fetch` hides
 * where an answer was cut.
 */
import http from 'node:http'
import { randomBytes } from 'node:crypto'
import {
  protocols,
  type ChatAsk,
  type ChatTarget,
  type ChatUsage,
  type Protocol,
  type SentMessage,
} from './chat-protocol.ts'

/** Prices per token in nano-dollars, chosen to make costs easy to compute. */
export interface TokenPrices {
  readonly input: number
  readonly cached: number
  readonly output: number
}

export interface ChatResult {
  readonly ask: ChatAsk
  /** Reaches the engine and the log, so that all three views of a request can be compared. */
  readonly traceId: string
  /** The only message of the request, as the engine receives it. */
  readonly message: SentMessage
  /** undefined: no headers arrived. */
  status: number | undefined
  requestId: string | undefined
  retryAfter: string | undefined
  /** Every byte of the answer arrived, including the end marker. */
  isComplete: boolean
  /** The client left. */
  isCut: boolean
  /** The client timed out, which no correct server causes. */
  isLate: boolean
  words: number
  /** undefined: the answer reports no usage. */
  usage: ChatUsage | undefined
  /** The answer can be read again. */
  storedId: string | undefined
  body: string
}

const ANSWER_MS = 30_000
const agents = new Map<string, http.Agent>()

export function costOfUsage(prices: TokenPrices, { promptTokens, cachedTokens, outputTokens }: ChatUsage): bigint {
  const cached = BigInt(cachedTokens)
  return (
    (BigInt(promptTokens) - cached) * BigInt(prices.input) +
    cached * BigInt(prices.cached) +
    BigInt(outputTokens) * BigInt(prices.output)
  )
}

/** Maximum cost: a token is at least one byte of the prompt, and the template may add some. */
export function worstCostOf(prices: TokenPrices, result: Pick<ChatResult, 'ask' | 'message'>): bigint {
  const promptBytes = Buffer.byteLength(JSON.stringify([[result.message], null])) + TEMPLATE_TOKENS
  return BigInt(promptBytes * prices.input + result.ask.maxTokens * prices.output)
}

const TEMPLATE_TOKENS = 64

/** Never rejects: a failure is part of the result. `onEvents` gets the number of the stream's events so far. */
export function askChat(
  target: ChatTarget,
  ask: ChatAsk,
  content: string,
  onEvents?: (count: number) => void,
): Promise<ChatResult> {
  const result: ChatResult = {
    ask,
    traceId: randomBytes(16).toString('hex'),
    message: { role: 'user', content },
    status: undefined,
    requestId: undefined,
    retryAfter: undefined,
    isComplete: false,
    isCut: false,
    isLate: false,
    words: 0,
    usage: undefined,
    storedId: undefined,
    body: '',
  }
  const protocol = protocols[ask.protocol ?? 'chat']
  const body = JSON.stringify(protocol.write(target, ask, result.message))
  return new Promise((resolve) => {
    const over = (): void => {
      clearTimeout(late)
      resolve(result)
    }
    const request = http.request(`${target.url}${protocol.path}`, {
      method: 'POST',
      agent: agentOf(target.url),
      headers: {
        Authorization: `Bearer ${target.key}`,
        // The fast path accepts only the usual spelling of this content type.
        'Content-Type': ask.fullPath ? 'application/json;charset=utf-8' : 'application/json',
        'Content-Length': Buffer.byteLength(body),
        traceparent: `00-${result.traceId}-00f067aa0ba902b7-01`,
      },
    })
    const late = setTimeout(() => {
      result.isLate = true
      request.destroy()
    }, ANSWER_MS)
    request.on('error', over).on('response', (response) => readAnswer(response, { result, protocol, onEvents, over }))
    request.end(body)
  })
}

/** One per server: connections left by a killed server must not be reused. */
function agentOf(url: string): http.Agent {
  const known = agents.get(url)
  if (known !== undefined) return known
  const made = new http.Agent({ keepAlive: true, maxSockets: Infinity })
  agents.set(url, made)
  return made
}

/** Closes the connections to a server that is gone. */
export function forgetServer(url: string): void {
  agents.get(url)?.destroy()
  agents.delete(url)
}

interface Reading {
  readonly result: ChatResult
  readonly protocol: Protocol
  readonly onEvents: ((count: number) => void) | undefined
  readonly over: () => void
}

function readAnswer(response: http.IncomingMessage, { result, protocol, onEvents, over }: Reading): void {
  const { ask } = result
  result.status = response.statusCode
  result.requestId = response.headers['x-inference-request-id'] as string | undefined
  result.retryAfter = response.headers['retry-after']
  response.setEncoding('utf8').on('data', (text: string) => {
    result.body += text
    onEvents?.(result.body.split('\n\n').length - 1)
    const { leaveAfterWords } = ask
    if (leaveAfterWords === undefined || result.isCut || countWords(result.body) < leaveAfterWords) return
    result.isCut = true
    response.destroy()
  })
  response.on('error', () => {})
  response.on('close', () => {
    const { body, status } = result
    result.words = countWords(body)
    result.isComplete = response.complete && !result.isCut && (status !== 200 || protocol.hasEnd(ask, body))
    if (result.isComplete && status === 200) {
      result.usage = protocol.usageOf(ask, body)
      result.storedId = protocol.storedIdOf(ask, body)
    }
    // Only refusals are kept for reading, not thousands of successful answers.
    if (status === 200) result.body = ''
    over()
  })
}

/** Each word of the simulated engine is one token and one stream event. */
function countWords(body: string): number {
  return body.match(/"content":"[^"]+"|"(?:text_delta","text|delta)":"[^"]+"/g)?.length ?? 0
}

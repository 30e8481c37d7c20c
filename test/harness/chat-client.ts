/**
 * One chat over HTTP, observed to the byte: whether headers arrived, whether the whole answer arrived, and the usage it
 * reports. A client can also leave mid-stream. It uses node:http, because `fetch` hides where an answer was cut.
 */
import http from 'node:http'
import { randomBytes } from 'node:crypto'

/** Prices per token in nano-dollars, chosen to make costs easy to compute. */
export interface TokenPrices {
  readonly input: number
  readonly cached: number
  readonly output: number
}

export interface ChatAsk {
  readonly stream: boolean
  readonly maxTokens: number
  /** Uses the full path instead of the fast path. */
  readonly fullPath: boolean
  /** Leaves after this many words of a stream. undefined: reads to the end. */
  readonly leaveAfterWords?: number
}

export interface ChatResult {
  readonly ask: ChatAsk
  /** Reaches the engine and the log, so that all three views of a request can be compared. */
  readonly traceId: string
  /** The only message of the request, as the engine receives it. */
  readonly message: { readonly role: string; readonly content: string }
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
  body: string
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

/** Never rejects: a failure is part of the result. */
export function askChat(target: ChatTarget, ask: ChatAsk, content: string): Promise<ChatResult> {
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
    body: '',
  }
  const body = JSON.stringify({
    model: target.model,
    messages: [result.message],
    max_tokens: ask.maxTokens,
    ...(ask.stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  })
  return new Promise((resolve) => {
    const over = (): void => {
      clearTimeout(late)
      resolve(result)
    }
    const request = http.request(`${target.url}/v1/chat/completions`, {
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
    request.on('error', over).on('response', (response) => readAnswer(response, result, over))
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

function readAnswer(response: http.IncomingMessage, result: ChatResult, over: () => void): void {
  result.status = response.statusCode
  result.requestId = response.headers['x-inference-request-id'] as string | undefined
  result.retryAfter = response.headers['retry-after']
  response.setEncoding('utf8').on('data', (text: string) => {
    result.body += text
    const { leaveAfterWords } = result.ask
    if (leaveAfterWords === undefined || result.isCut || countWords(result.body) < leaveAfterWords) return
    result.isCut = true
    response.destroy()
  })
  response.on('error', () => {})
  response.on('close', () => {
    result.words = countWords(result.body)
    result.isComplete = response.complete && !result.isCut && hasEnd(result)
    if (result.isComplete && result.status === 200) result.usage = usageOf(result)
    // Only refusals are kept for reading, not thousands of successful answers.
    if (result.status === 200) result.body = ''
    over()
  })
}

function hasEnd({ status, ask, body }: ChatResult): boolean {
  return status !== 200 || !ask.stream || body.endsWith('data: [DONE]\n\n')
}

/** Each word of the simulated engine is one token and one stream event. */
function countWords(body: string): number {
  return body.match(/"content":"[^"]+"/g)?.length ?? 0
}

function usageOf({ ask, body }: ChatResult): ChatUsage | undefined {
  const event = ask.stream
    ? body
        .split('\n\n')
        .findLast((one) => one.includes('"usage"'))
        ?.slice(6)
    : body
  const { usage } = JSON.parse(event ?? '{}') as {
    usage?: {
      prompt_tokens: number
      completion_tokens: number
      prompt_tokens_details?: { cached_tokens: number }
    }
  }
  if (usage === undefined) return undefined
  return {
    promptTokens: usage.prompt_tokens,
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
    outputTokens: usage.completion_tokens,
  }
}

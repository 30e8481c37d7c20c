/**
 * Counts the tokens of a prompt where its model runs, since only the engine has the template and the tokenizer. Our own
 * engine and vLLM count a whole chat; llama.cpp writes the prompt first and counts it as text. Where no engine counts, the
 * answer is an estimate. Nothing waits for a model to start, and nothing is charged.
 */
import type { Deployment, ServedModel } from '../catalog.ts'
import { collect } from '../upstream/collect.ts'
import type { Dispatcher, UpstreamRequest } from '../upstream/upstream-call.ts'
import { writeMessages, type JsonObject } from './chat-body.ts'
import type { EngineBody } from './dialect.ts'
import { makeEngineRequest } from './engine-request.ts'
import { parseObject } from './usage.ts'

export interface TokenCount {
  readonly tokens: number
  /** The engine has counted them. */
  readonly isExact: boolean
}

const GUESSED_BYTES_PER_TOKEN = 4
/** The number of each token is in the answer. */
const MAX_ANSWER_BYTES = 33_554_432
const MAX_COUNT_MS = 10_000

export interface CountOptions {
  readonly dispatcher: Dispatcher
  readonly model: ServedModel
  readonly accountId: string
  readonly request: EngineBody
}

export async function countTokens(options: CountOptions): Promise<TokenCount> {
  const exact = options.model.deployments.length === 0 ? undefined : await countByEngine(options)
  return exact === undefined ? { tokens: estimate(options.request), isExact: false } : { tokens: exact, isExact: true }
}

/** undefined: the engine cannot. */
async function countByEngine(options: CountOptions): Promise<number | undefined> {
  const signal = AbortSignal.timeout(MAX_COUNT_MS)
  const send = (path: string, body?: JsonObject): Promise<JsonObject | undefined> => ask(options, signal, path, body)
  const counted = await send('/tokenize')
  if (isCount(counted?.['count'])) return counted['count']
  // llama.cpp counts texts only, and finds none in a chat.
  if (!Array.isArray(counted?.['tokens'])) return undefined
  const prompt = (await send('/apply-template'))?.['prompt']
  if (typeof prompt !== 'string') return undefined
  const { tokens } = (await send('/tokenize', { content: prompt, add_special: true, parse_special: true })) ?? {}
  return Array.isArray(tokens) && isCount(tokens.length) ? tokens.length : undefined
}

/** undefined: no answer, or none that can be read. */
async function ask(
  { dispatcher, model, accountId, request }: CountOptions,
  signal: AbortSignal,
  path: string,
  body: JsonObject | undefined,
): Promise<JsonObject | undefined> {
  const { body: chat, messages, form, hints } = request
  const write = makeEngineRequest({
    form: { ...form, path },
    body: chat,
    messages,
    stream: false,
    maxOutputTokens: null,
    extraHeaders: '',
    hints,
  })
  const call = {
    model,
    accountId,
    isBatch: false,
    promptTokens: 0,
    request: (deployment: Deployment): UpstreamRequest => {
      const written = write(deployment)
      return body === undefined ? written : { ...written, body: [Buffer.from(JSON.stringify(body))] }
    },
    prefixes: [],
    prefixTokens: [],
    session: undefined,
  }
  const answer = await collect(dispatcher, call, { maxBytes: MAX_ANSWER_BYTES, signal })
  if (!answer.ok || answer.value.head.status !== 200) return undefined
  return parseObject(answer.value.body.toString())
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 1
}

function estimate({ body, messages }: EngineBody): number {
  const bytes = (messages ?? writeMessages(body)).bytes.length + Buffer.byteLength(JSON.stringify(body['tools'] ?? ''))
  return Math.ceil(bytes / GUESSED_BYTES_PER_TOKEN)
}

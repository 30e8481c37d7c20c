/**
 * From a parsed body to a call: whether the model can serve it, the most it can cost, and the request for the engine.
 * The fast path and the full path both build their calls here, so they cannot differ in price or meaning.
 */
import { costOf } from '../../domain/inference.ts'
import { minUsd, usd, type NanoUsd } from '../../base/money.ts'
import { fail, failField, type Failure } from '../../contract/result.ts'
import { queueingOf, type Caller } from '../call.ts'
import { isVisible, type Catalog, type ServedModel } from '../catalog.ts'
import type { JsonObject, MessagesText } from './chat-body.ts'
import type { EngineBody } from './dialect.ts'
import { makeEngineRequest } from './engine-request.ts'
import type { ChatCall } from './exchange.ts'
import { traceIdOf, tracingOf, type CallHeaders } from '../upstream/trace.ts'
import type { UpstreamCall } from '../upstream/upstream-call.ts'

/** Sent to an engine whose model has no known limit, if the request has none. */
const DEFAULT_OUTPUT_TOKENS = 4_096
const GUESSED_BYTES_PER_TOKEN = 4
/** No account has more, and the ledger could not store it. */
const MAX_WORST_CASE = usd('100000000')
/** The most tokens that an image or another non-text part may take. */
const PART_TOKENS = 4_096
/** Tokens that a chat template may add around the messages. */
const TEMPLATE_TOKENS = 64
/** Prefixes are hashed up to here: enough to tell conversations and documents apart. */
const MAX_HASHED_BYTES = 32_768
const BLOCK_BYTES = 1_024

export interface ChatRequest extends EngineBody {
  /** The name of its dialect. */
  readonly operation: string
  /** Size of the client's body, or of the chat that it is translated into. */
  readonly bodyBytes: number
  /** The client's body for the account's log; only called for accounts that keep bodies. */
  readonly bodyText: () => string
}

export interface BuiltChat {
  readonly call: ChatCall
  readonly upstream: UpstreamCall
  readonly bounds: Bounds
}

export function buildChatCall(
  catalog: Catalog,
  caller: Caller,
  request: ChatRequest,
  headers: CallHeaders,
): BuiltChat | Failure {
  const { operation, form, body, messages, answer } = request
  const name = body['model'] as string
  const model = catalog.get(name)
  const refused = refuseModel(model, name, caller)
  if (refused !== undefined) return refused
  if (model === undefined) throw new Error('refuseModel refuses an unknown model')
  const unfit = refuseParameters(model, body)
  if (unfit !== undefined) return unfit
  const parameters = readParameters(body, roomIn(model, request.promptTokens))
  const promptBytes = promptBytesOf(body, request.bodyBytes)
  const bounds = boundsOf(model, promptBytes, parameters)
  const call: ChatCall = {
    requestId: headers.requestId,
    traceId: traceIdOf(headers),
    caller,
    operation,
    answer,
    model,
    worst: bounds.worst,
    bodyText: caller.account.keepsBodies ? request.bodyText() : null,
    stream: parameters.stream,
    includeUsage: parameters.includeUsage,
    promptBytes,
  }
  const prefixes = model.deployments.length > 1 ? prefixesOf(body, messages) : noPrefixes
  const upstream: UpstreamCall = {
    model,
    ...queueingOf(caller),
    promptTokens: Math.ceil(promptBytes / GUESSED_BYTES_PER_TOKEN),
    request: makeEngineRequest({
      form,
      body,
      messages,
      stream: parameters.stream,
      maxOutputTokens: outputLimit(model, parameters),
      extraHeaders: tracingOf(call),
      hints: request.hints,
    }),
    prefixes: prefixes.hashes,
    prefixTokens: prefixes.tokens,
    session: headers.session ?? request.session,
  }
  return { call, upstream, bounds }
}

interface Parameters {
  /** The number of prompts in a completion. Each is answered `n` times. */
  readonly prompts: number
  readonly stream: boolean
  readonly includeUsage: boolean
  readonly n: number
  /** The client's limit. null: none. */
  readonly maxTokens: number | null
}

/** Left for an answer, however long the prompt seems: the engine knows better whether it fits. */
const MIN_ROOM_TOKENS = 256

/** The tokens that the context leaves for an answer. undefined: the client has to know. */
function roomIn({ contextTokens }: ServedModel, promptTokens: number | undefined): number | undefined {
  if (contextTokens === null || promptTokens === undefined) return undefined
  return Math.max(MIN_ROOM_TOKENS, contextTokens - promptTokens - TEMPLATE_TOKENS)
}

function readParameters(body: JsonObject, room: number | undefined): Parameters {
  const options = body['stream_options'] as { include_usage?: boolean } | null | undefined
  const { prompt } = body
  return {
    // An array of numbers is one prompt, in tokens.
    prompts: Array.isArray(prompt) && typeof prompt[0] !== 'number' ? Math.max(1, prompt.length) : 1,
    stream: body['stream'] === true,
    includeUsage: options?.include_usage === true,
    n: countOf(body['n']) ?? 1,
    maxTokens: lowest(countOf(body['max_completion_tokens']) ?? countOf(body['max_tokens']), room),
  }
}

function lowest(limit: number | null, room: number | undefined): number | null {
  return limit === null || room === undefined ? limit : Math.min(limit, room)
}

/** Costs depend on these: an invalid count is none. */
function countOf(value: unknown): number | null {
  return Number.isSafeInteger(value) && (value as number) >= 1 ? (value as number) : null
}

/** undefined: the caller may use the model. */
export function refuseModel(
  model: ServedModel | undefined,
  name: string,
  caller: Pick<Caller, 'accountId' | 'allowedModels'>,
  param = 'model',
): Failure | undefined {
  if (caller.allowedModels !== null && !caller.allowedModels.includes(name)) {
    return fail('model_not_allowed', { model: name })
  }
  if (model === undefined || !isVisible(model, caller.accountId)) {
    return failField([param], 'model_not_found', { model: name })
  }
  if (model.notReady === undefined) return undefined
  const { message, retryAfterMs } = model.notReady
  return fail('model_loading', { message, retryAfterMs })
}

/** Anything in a body may end up in the prompt, and images take more tokens than their URL has bytes. */
function promptBytesOf(body: JsonObject, bodyBytes: number): number {
  return bodyBytes + countParts(body['messages']) * PART_TOKENS
}

/** Non-text parts of messages. */
function countParts(messages: unknown): number {
  if (!Array.isArray(messages)) return 0
  let parts = 0
  for (const message of messages as Array<{ content?: unknown } | null>) {
    if (!Array.isArray(message?.content)) continue
    for (const part of message.content as Array<{ type?: unknown } | null>) if (part?.type !== 'text') parts += 1
  }
  return parts
}

/** The default model of a kind, of those for everyone: the first that is ready, else the first registered. */
export function defaultModel(catalog: Catalog, kind: ServedModel['kind']): ServedModel | undefined {
  const models = [...catalog.values()].filter((model) => model.kind === kind && model.visibleTo === undefined)
  return models.find(isReady) ?? models[0]
}

export function isReady({ notReady, deployments }: ServedModel): boolean {
  return notReady === undefined && deployments.some(({ drained, weight }) => !drained && weight > 0)
}

export function refuseParameters(model: ServedModel | undefined, body: JsonObject): Failure | undefined {
  if (model === undefined) return undefined
  if (model.kind !== 'chat') {
    return failField(['model'], 'wrong_model_kind', { model: model.name, kind: model.kind })
  }
  if (Array.isArray(body['tools']) && body['tools'].length > 0 && !model.supportsTools) {
    return failField(['tools'], 'not_supported', { model: model.name, feature: 'tools' })
  }
  if (!model.supportsImageInput && countParts(body['messages']) > 0) {
    return failField(['messages'], 'not_supported', { model: model.name, feature: 'images in messages' })
  }
  const logprobs = body['logprobs']
  const top = body['top_logprobs']
  if (typeof top === 'number' && top > 0 && (logprobs === undefined || logprobs === null || logprobs === false)) {
    return failField(['top_logprobs'], 'logprobs_missing')
  }
  return undefined
}

interface Bounds {
  readonly worst: NanoUsd
  /** Estimated input and output tokens, for the limit per minute; actual usage counts in the end. */
  readonly tokens: number
}

/**
 * An upper bound before any token is counted: a token is at least one byte of the prompt, and prompt and answer together
 * fit into the context.
 */
function boundsOf(model: ServedModel, promptBytes: number, parameters: Parameters): Bounds {
  const context = model.contextTokens ?? Number.MAX_SAFE_INTEGER
  const inputTokens = Math.min(promptBytes + TEMPLATE_TOKENS * parameters.prompts, context * parameters.prompts)
  const each = Math.min(outputLimit(model, parameters) ?? context, context)
  const answers = parameters.n * parameters.prompts
  const worst = costOf(model.prices, {
    inputTokens,
    cachedTokens: 0,
    outputTokens: each * answers,
    pixelSteps: 0,
    characters: 0,
    soundMs: 0,
  })
  return {
    worst: minUsd(worst, MAX_WORST_CASE),
    tokens: Math.ceil(promptBytes / GUESSED_BYTES_PER_TOKEN) + Math.min(each, DEFAULT_OUTPUT_TOKENS) * answers,
  }
}

/** The output limit of one answer, which the engine gets too. null: the context is the limit. */
function outputLimit(model: ServedModel, { maxTokens }: Parameters): number | null {
  const most =
    model.maxOutputTokens ?? (model.contextTokens === null && maxTokens === null ? DEFAULT_OUTPUT_TOKENS : null)
  if (maxTokens === null) return most
  return most === null ? maxTokens : Math.min(maxTokens, most)
}

export interface Prefixes {
  readonly hashes: readonly number[]
  readonly tokens: readonly number[]
}

const noPrefixes: Prefixes = { hashes: [], tokens: [] }

/** The prefixes of a chat's messages, or of a completion's prompt. */
function prefixesOf(body: JsonObject, messages: MessagesText | undefined): Prefixes {
  if (messages !== undefined) return hashPrefixes(messages.bytes, messages.ends)
  const prompt = Buffer.from(JSON.stringify(body['prompt']))
  return hashPrefixes(prompt, [prompt.length])
}

/** The prompt up to the end of each message and of each block, shortest first. */
export function hashPrefixes(bytes: Uint8Array, ends: readonly number[]): Prefixes {
  const hashes: number[] = []
  const tokens: number[] = []
  let hash = 0x811c9dc5
  let next = 0
  const last = Math.min(ends.at(-1) ?? 0, MAX_HASHED_BYTES)
  for (let at = 0; at < last; at++) {
    hash = Math.imul(hash ^ (bytes[at] ?? 0), 0x01000193)
    const isEnd = at + 1 === ends[next]
    if (!isEnd && (at + 1) % BLOCK_BYTES !== 0) continue
    hashes.push(hash >>> 0)
    tokens.push(Math.floor((at + 1) / GUESSED_BYTES_PER_TOKEN))
    if (isEnd) next += 1
  }
  return { hashes, tokens }
}

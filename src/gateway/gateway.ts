/**
 * The data plane of inference. A chat comes in by one of two paths: `tryChat`, which decides in memory and at once or
 * leaves everything as it was, and `chat`, which may wait and explains every refusal. What a request means, what it may
 * cost and what its engine is sent is decided by one function for both. Neither asks the database.
 */
import type { Clock } from '../base/instant.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { Failure } from '../base/result.ts'
import { makeAdmission, type Admission, type Admitted, type Rates } from './admission.ts'
import { randomHex, type Caller, type Reply } from './call.ts'
import type { Catalog, Deployment, ServedModel } from './catalog.ts'
import { readChatBody, writeChatBody, writeMessages, type JsonObject, type MessagesText } from './chat-body.ts'
import {
  boundsOf,
  defaultModel,
  hashPrefixes,
  outputLimit,
  promptBytesOf,
  readParameters,
  refuseModel,
  refuseParameters,
  type Bounds,
} from './chat-call.ts'
import { ChatExchange, type ChatCall, type ExchangePorts } from './exchange.ts'
import { MediaGateway } from './media.ts'
import type { Meter } from './meter.ts'
import { traceIdOf, tracingOf, type CallHeaders } from './trace.ts'
import type { Dispatcher, UpstreamCall } from './upstream-call.ts'

export interface GatewayOptions {
  readonly dispatcher: Dispatcher
  readonly meter: Meter
  readonly rates: Rates
  readonly clock: Clock
  readonly liveGateways: () => number
  readonly ended: ExchangePorts['ended']
  readonly warn: ExchangePorts['warn']
}

/** With usage in every event a stream that is cut is billed to the token. */
const EVERY_USAGE = { include_usage: true, continuous_usage_stats: true }
const LAST_USAGE = { include_usage: true }
const STARTING_MS = 10_000
const MAX_WAITING = 1_000
const ONE_NANO_USD = nanoUsdOf(1n)

export class Gateway {
  readonly media: MediaGateway
  readonly #admission: Admission
  readonly #ports: ExchangePorts
  readonly #waiting: Array<() => void> = []
  #catalog: Catalog = new Map()
  /** Zero only where some model is free: then those without money may send large bodies too. */
  #leastCost: NanoUsd = ONE_NANO_USD

  constructor(options: GatewayOptions) {
    this.#admission = makeAdmission({ ...options, now: () => options.clock.now() })
    this.#ports = options
    this.media = new MediaGateway({ ...options, admission: this.#admission })
  }

  get catalog(): Catalog {
    return this.#catalog
  }

  setCatalog(catalog: Catalog): void {
    this.#catalog = catalog
    this.#leastCost = [...catalog.values()].some(isFree) ? zeroUsd : ONE_NANO_USD
    for (const look of this.#waiting.splice(0)) look()
  }

  /** Right after the start of a server its own engines take a moment; those who call them wait, for a bounded time. */
  async whenStarted(name: string | undefined, kind: ServedModel['kind']): Promise<void> {
    const until = performance.now() + STARTING_MS
    const isStarting = (): boolean => {
      const model = name === undefined ? defaultModel(this.#catalog, kind) : this.#catalog.get(name)
      return model?.notReady?.phase === 'starting'
    }
    while (isStarting() && performance.now() < until && this.#waiting.length < MAX_WAITING) {
      await new Promise<void>((resolve) => {
        const late = setTimeout(resolve, until - performance.now())
        this.#waiting.push(() => {
          clearTimeout(late)
          resolve()
        })
      })
    }
  }

  underWay(): number {
    return this.#admission.underWay()
  }

  /** Whether a request of this caller would start, as far as memory alone can tell before its body is known. */
  isOpenFor(caller: Caller): boolean {
    return this.#admission.isOpenFor(caller, this.#leastCost)
  }

  /** Why no request of this caller would start, whatever its body: rate, requests at a time, money. */
  refusalBeforeBody(caller: Caller): Promise<Failure | undefined> {
    return this.#admission.refusalFor(caller, this.#leastCost)
  }

  /**
   * false: nothing was done, and the full path is to be taken. A promise: a purse or a counter must be filled first,
   * which happens once in thousands of requests.
   */
  tryChat(
    caller: Caller,
    bytes: Buffer,
    headers: CallHeaders,
    reply: (rate: RateHead) => Reply,
  ): boolean | Promise<boolean> {
    const body = readChatBody(bytes)
    if (body === undefined) return false
    const prepared = this.#prepare(
      caller,
      {
        operation: 'chat',
        body: body.value,
        bodyBytes: bytes.length,
        bodyText: () => bytes.toString('utf8'),
        messages: body.messages,
      },
      headers,
    )
    if ('kind' in prepared) return false
    const begin = (admitted: Admitted): boolean => {
      this.#start(prepared, reply(admitted.rate ?? noRate), admitted)
      return true
    }
    const ask = { caller, ...prepared.bounds, countKey: true }
    const admitted = this.#admission.tryAdmit(ask)
    if (admitted !== undefined) return begin(admitted)
    return this.#admission.admit(ask).then((later) => later.ok && begin(later.value))
  }

  /** A request that the contract's schema has accepted. The key's request was counted by the caller of this. */
  async chat(
    caller: Caller,
    request: Omit<ChatRequest, 'messages' | 'bodyText'>,
    headers: CallHeaders,
    reply: Reply,
  ): Promise<Failure | undefined> {
    const { operation, body } = request
    await this.whenStarted(body['model'] as string, 'chat')
    const messages = operation === 'chat' ? writeMessages(body) : undefined
    const prepared = this.#prepare(caller, { ...request, bodyText: () => JSON.stringify(body), messages }, headers)
    if ('kind' in prepared) return prepared
    const admitted = await this.#admission.admit({ caller, ...prepared.bounds, countKey: false })
    if (!admitted.ok) return admitted
    this.#start(prepared, reply, admitted.value)
    return undefined
  }

  /** Everything that is decided about a request, and in the same way on both paths. */
  #prepare(caller: Caller, request: ChatRequest, headers: CallHeaders): PreparedChat | Failure {
    const { operation, body, messages } = request
    const name = body['model'] as string
    const model = this.#catalog.get(name)
    const refused = refuseModel(model, name, caller)
    if (refused !== undefined) return refused
    if (model === undefined) throw new Error('a model that is not there is refused')
    const unfit = refuseParameters(model, body)
    if (unfit !== undefined) return unfit
    const parameters = readParameters(body)
    const promptBytes = promptBytesOf(body, request.bodyBytes)
    const bounds = boundsOf(model, promptBytes, parameters)
    const call: ChatCall = {
      requestId: headers.requestId,
      traceId: traceIdOf(headers),
      caller,
      operation,
      model,
      worst: bounds.worst,
      bodyText: caller.account.keepsBodies ? request.bodyText() : null,
      stream: parameters.stream,
      includeUsage: parameters.includeUsage,
      promptBytes,
    }
    const members = membersToSend(operation, body)
    const limit = outputLimit(model, parameters)
    const isNewer = typeof body['max_completion_tokens'] === 'number'
    const upstream: UpstreamCall = {
      model,
      accountId: caller.accountId,
      request: (deployment) => {
        const sent = {
          ...members,
          ...limitFor(deployment, isNewer, limit),
          model: deployment.upstreamModel,
          ...streamOptionsFor(deployment, parameters.stream),
        }
        return {
          path: operation === 'chat' ? '/v1/chat/completions' : '/v1/completions',
          extraHeaders: tracingOf(call),
          contentType: 'application/json',
          body: messages === undefined ? [Buffer.from(JSON.stringify(sent))] : writeChatBody(sent, messages),
        }
      },
      prefixes: hasChoice(model) ? prefixesOf(body, messages) : [],
      session: headers.session,
    }
    return { call, upstream, bounds }
  }

  #start({ call, upstream }: PreparedChat, reply: Reply, admitted: Admitted): void {
    new ChatExchange(call, this.#ports, reply, admitted).start(upstream)
  }
}

export interface ChatRequest {
  readonly operation: 'chat' | 'completion'
  /** As the client wrote it: the schema's defaults are ours, and an engine has its own. */
  readonly body: JsonObject
  /** How many bytes it came in. */
  readonly bodyBytes: number
  readonly bodyText: () => string
  /** undefined: a completion, which has none. */
  readonly messages: MessagesText | undefined
}

interface PreparedChat {
  readonly call: ChatCall
  readonly upstream: UpstreamCall
  readonly bounds: Bounds
}

export interface RateHead {
  readonly limit: number
  readonly remaining: number
  readonly resetAt: number
}

const noRate: RateHead = { limit: 0, remaining: 0, resetAt: 0 }

/** Engines known to tell their usage with every event are asked to; elsewhere an unknown option may be an error. */
function streamOptionsFor(deployment: Deployment, stream: boolean): JsonObject {
  if (!stream) return {}
  const isKnown = deployment.protocol === 'embedded' || deployment.readsMetrics
  return { stream_options: isKnown ? EVERY_USAGE : LAST_USAGE }
}

/** Names by which engines are told how much to generate. Ours is the one that the money was reckoned with. */
const limitNames = ['max_tokens', 'max_completion_tokens', 'n_predict', 'n_cmpl', 'best_of']

/** What the client wrote, less what is written for each engine. The messages of a chat are sent beside it. */
function membersToSend(operation: ChatRequest['operation'], body: JsonObject): JsonObject {
  const members: Record<string, unknown> = { ...body, ...translated(operation, body) }
  for (const name of limitNames) delete members[name]
  if (operation === 'chat') delete members['messages']
  return members
}

/** Hosted models exist that know only the newer name; whoever calls one uses it. */
function limitFor(deployment: Deployment, isNewer: boolean, limit: number | null): JsonObject {
  if (limit === null) return {}
  const isHosted = deployment.authorization !== undefined && !deployment.readsMetrics
  return isHosted && isNewer ? { max_completion_tokens: limit } : { max_tokens: limit }
}

/** The interface's number of log probabilities, as the convention writes it. */
function translated(operation: ChatRequest['operation'], body: JsonObject): JsonObject {
  const { logprobs } = body
  if (operation !== 'chat' || typeof logprobs !== 'number') return {}
  return { logprobs: true, top_logprobs: body['top_logprobs'] ?? Math.min(20, logprobs) }
}

function isFree({ prices }: ServedModel): boolean {
  return Object.values(prices).every((price) => price === 0n)
}

function hasChoice(model: ServedModel): boolean {
  return model.deployments.length > 1
}

/** Of a chat the messages, of a completion the prompt. */
function prefixesOf(body: JsonObject, messages: MessagesText | undefined): number[] {
  if (messages !== undefined) return hashPrefixes(messages.bytes, messages.ends)
  const prompt = Buffer.from(JSON.stringify(body['prompt']))
  return hashPrefixes(prompt, [prompt.length])
}

export function newRequestId(): string {
  return `req_${randomHex()}`
}

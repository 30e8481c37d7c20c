/**
 * The data plane of inference. A chat comes in by one of two doors: `tryChat`, which decides in memory and at once or
 * leaves everything as it was, and `chat`, which may wait and explains every refusal. Behind the doors it is the same
 * exchange. No door asks the database.
 */
import type { Clock } from '../base/instant.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { Failure } from '../base/result.ts'
import { makeAdmission, type Admission, type Admitted, type Rates } from './admission.ts'
import { randomHex, type Caller, type Reply } from './call.ts'
import type { Catalog, Deployment, ServedModel } from './catalog.ts'
import {
  boundsOf,
  defaultModel,
  hashPrefixes,
  outputLimit,
  patchBody,
  promptBytesOf,
  readParameters,
  refuseModel,
  refuseParameters,
} from './chat-call.ts'
import { isPlainChat } from './chat-parameter.ts'
import { scanChat } from './chat-scan.ts'
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
const EVERY_USAGE = '{"include_usage":true,"continuous_usage_stats":true}'
const LAST_USAGE = '{"include_usage":true}'
const STARTING_MS = 10_000
const MOST_WAITING = 1_000
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
    while (isStarting() && performance.now() < until && this.#waiting.length < MOST_WAITING) {
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
   * false: nothing was done, and the careful way is to be taken. A promise: a purse or a counter must be filled first,
   * which happens once in thousands of requests.
   */
  tryChat(
    caller: Caller,
    body: Buffer,
    headers: CallHeaders,
    reply: (rate: RateHead) => Reply,
  ): boolean | Promise<boolean> {
    const scan = scanChat(body)
    if (scan === undefined || !isPlainChat(scan.head)) return false
    const name = scan.head['model'] as string
    const model = this.#catalog.get(name)
    if (model === undefined || refuseModel(model, name, caller) !== undefined || model.kind !== 'chat') return false
    const parameters = readParameters(scan.head)
    const promptBytes = scan.messages.end - scan.messages.start
    const bounds = boundsOf(model, promptBytes, parameters)
    const begin = (admitted: Admitted): boolean => {
      new ChatExchange(call, this.#ports, reply(admitted.rate ?? noRate), admitted).start(upstream)
      return true
    }
    const limit = outputLimit(model, parameters)
    // A wish beyond the model's limit is written over, which is for the careful way.
    if (parameters.maxTokens !== null && limit !== parameters.maxTokens) return false
    const maxTokens = parameters.maxTokens === null ? (limit ?? undefined) : undefined
    const call: ChatCall = {
      requestId: headers.requestId,
      traceId: traceIdOf(headers),
      caller,
      operation: 'chat',
      model,
      worst: bounds.worst,
      bodyText: () => body.toString('utf8'),
      stream: parameters.stream,
      includeUsage: parameters.includeUsage,
      promptBytes,
    }
    const upstream: UpstreamCall = {
      model,
      accountId: caller.accountId,
      request: (deployment) => ({
        path: '/v1/chat/completions',
        extraHeaders: tracingOf(call),
        contentType: 'application/json',
        body: patchBody(body, scan, deployment, {
          streamOptions: streamOptionsFor(deployment, parameters.stream),
          maxTokens,
        }),
      }),
      prefixes: hasChoice(model) ? hashPrefixes(body, scan.messages.start, scan.messageEnds) : [],
      session: headers.session,
    }
    const ask = { caller, ...bounds, countKey: true }
    const admitted = this.#admission.tryAdmit(ask)
    if (admitted !== undefined) return begin(admitted)
    return this.#admission.admit(ask).then((later) => later.ok && begin(later.value))
  }

  /** A request that the contract's schema has accepted. The key's request was counted by the caller of this. */
  async chat(
    caller: Caller,
    operation: 'chat' | 'completion',
    body: Readonly<Record<string, unknown>>,
    headers: CallHeaders,
    reply: Reply,
  ): Promise<Failure | undefined> {
    const name = body['model'] as string
    await this.whenStarted(name, 'chat')
    const model = this.#catalog.get(name)
    const refused = refuseModel(model, name, caller)
    if (refused !== undefined || model === undefined) return refused
    const unfit = refuseParameters(model, body)
    if (unfit !== undefined) return unfit
    const parameters = readParameters(body)
    const promptBytes = promptBytesOf(body)
    const bounds = boundsOf(model, promptBytes, parameters)
    const admitted = await this.#admission.admit({ caller, ...bounds, countKey: false })
    if (!admitted.ok) return admitted
    const call: ChatCall = {
      requestId: headers.requestId,
      traceId: traceIdOf(headers),
      caller,
      operation,
      model,
      worst: bounds.worst,
      bodyText: () => JSON.stringify(body),
      stream: parameters.stream,
      includeUsage: parameters.includeUsage,
      promptBytes,
    }
    const limit = outputLimit(model, parameters)
    const upstream: UpstreamCall = {
      model,
      accountId: caller.accountId,
      request: (deployment) => {
        const streamOptions = streamOptionsFor(deployment, parameters.stream)
        const sent = {
          ...withoutLimits(body),
          ...translated(operation, body),
          ...limitFor(deployment, body, limit),
          model: deployment.upstreamModel,
          ...(streamOptions === undefined ? {} : { stream_options: JSON.parse(streamOptions) as unknown }),
        }
        return {
          path: operation === 'chat' ? '/v1/chat/completions' : '/v1/completions',
          extraHeaders: tracingOf(call),
          contentType: 'application/json',
          body: [Buffer.from(JSON.stringify(sent))],
        }
      },
      prefixes: hasChoice(model) ? prefixesOf(body) : [],
      session: headers.session,
    }
    new ChatExchange(call, this.#ports, reply, admitted.value).start(upstream)
    return undefined
  }
}

export interface RateHead {
  readonly limit: number
  readonly remaining: number
  readonly resetAt: number
}

const noRate: RateHead = { limit: 0, remaining: 0, resetAt: 0 }

/** Engines known to tell their usage with every event are asked to; elsewhere an unknown option may be an error. */
function streamOptionsFor(deployment: Deployment, stream: boolean): string | undefined {
  if (!stream) return undefined
  return deployment.protocol === 'embedded' || deployment.readsMetrics ? EVERY_USAGE : LAST_USAGE
}

/** Names by which engines are told how much to generate. Ours is the one that the money was reckoned with. */
const limitNames = new Set(['max_tokens', 'max_completion_tokens', 'n_predict', 'n_cmpl', 'best_of'])

function withoutLimits(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(body).filter(([name]) => !limitNames.has(name)))
}

/** Hosted models exist that know only the newer name; whoever calls one uses it. */
function limitFor(
  deployment: Deployment,
  body: Readonly<Record<string, unknown>>,
  limit: number | null,
): Record<string, unknown> {
  if (limit === null) return {}
  const isHosted = deployment.authorization !== undefined && !deployment.readsMetrics
  const isNewer = isHosted && typeof body['max_completion_tokens'] === 'number'
  return isNewer ? { max_completion_tokens: limit } : { max_tokens: limit }
}

/** The interface's number of log probabilities, as the convention writes it. */
function translated(operation: string, body: Readonly<Record<string, unknown>>): Record<string, unknown> {
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

/** The same hashes as of the bytes that a plain client sends, so that both doors lead to the same engine. */
function prefixesOf(body: Readonly<Record<string, unknown>>): number[] {
  const { messages } = body
  if (!Array.isArray(messages)) {
    const prompt = Buffer.from(JSON.stringify(body['prompt']))
    return hashPrefixes(prompt, 0, [prompt.length])
  }
  const bytes = Buffer.from(JSON.stringify(messages))
  let at = 1
  const ends = messages.map((message) => {
    const end = at + Buffer.byteLength(JSON.stringify(message))
    at = end + 1
    return end
  })
  return hashPrefixes(bytes, 0, ends)
}

export function newRequestId(): string {
  return `req_${randomHex()}`
}

/**
 * The data plane of inference. A chat takes one of two paths: the fast path (`tryChat`) decides in memory and either
 * starts the request or changes nothing; the full path (`chat`) may wait and explains every refusal. Both build the
 * call with one function (gateway/dialect/chat-call.ts), and neither reads the database.
 */
import type { Clock } from '../base/instant.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../base/money.ts'
import { ok, type Failure, type Result } from '../contract/result.ts'
import { makeAdmission, type Admission, type Admitted, type Rates } from './money/admission.ts'
import type { Caller, Reply } from './call.ts'
import { isVisible, type Catalog, type ServedModel } from './catalog.ts'
import { chatAnswer } from './dialect/chat.ts'
import { readChatBody, type JsonObject } from './dialect/chat-body.ts'
import {
  buildChatCall,
  defaultModel,
  refuseModel,
  refuseParameters,
  type BuiltChat,
  type ChatRequest,
} from './dialect/chat-call.ts'
import type { Dialect, EngineBody } from './dialect/dialect.ts'
import { chatForm } from './dialect/engine-request.ts'
import { ChatExchange, type ExchangePorts } from './dialect/exchange.ts'
import { countTokens, type TokenCount } from './dialect/token-count.ts'
import { MediaGateway } from './media/media.ts'
import type { Meter } from './money/meter.ts'
import type { Places } from './dispatch/places.ts'
import type { CallHeaders } from './upstream/trace.ts'
import type { Dispatcher } from './upstream/upstream-call.ts'

export interface GatewayOptions {
  readonly dispatcher: Dispatcher
  readonly meter: Pick<Meter, 'tryReserve' | 'reserve' | 'cancel' | 'finish'>
  readonly rates: Rates
  readonly clock: Clock
  readonly places: Places
  readonly ended: ExchangePorts['ended']
  readonly warn: ExchangePorts['warn']
  /** Brings the catalog up to date, at a rate that unknown names cannot raise. Absent: the full path is elsewhere. */
  readonly refreshCatalog?: () => Promise<void>
  /** Starts a model of this server that waits for its first request. */
  readonly wakeModel?: (name: string) => void
}

/** Longest wait for the catalog: the database may be down. */
const REFRESH_MS = 2_000
const STARTING_MS = 10_000
const MAX_WAITING = 1_000
const ONE_NANO_USD = nanoUsdOf(1n)

export class Gateway {
  readonly media: MediaGateway
  readonly clock: Clock
  readonly #admission: Admission
  readonly #ports: ExchangePorts
  readonly #waiting: Array<() => void> = []
  readonly #refreshCatalog: GatewayOptions['refreshCatalog']
  readonly #wakeModel: GatewayOptions['wakeModel']
  #refreshing = 0
  #catalog: Catalog = new Map()
  /** Zero only if some model is free: then callers without money may send large bodies too. */
  #leastCost: NanoUsd = ONE_NANO_USD

  constructor(options: GatewayOptions) {
    this.#admission = makeAdmission({ ...options, now: () => options.clock.now() })
    this.#ports = options
    this.clock = options.clock
    this.#refreshCatalog = options.refreshCatalog
    this.#wakeModel = options.wakeModel
    this.media = new MediaGateway({ ...options, admission: this.#admission })
  }

  get catalog(): Catalog {
    return this.#catalog
  }

  setCatalog(catalog: Catalog): void {
    this.#catalog = catalog
    this.#leastCost = [...catalog.values()].some(isFree) ? zeroUsd : ONE_NANO_USD
    for (const resume of this.#waiting.splice(0)) resume()
  }

  /**
   * A model or its first deployment may be a moment old, or created by another server: before a request for it is
   * refused, it is looked up once more.
   */
  async whenKnown(name: string | undefined, caller: Pick<Caller, 'accountId' | 'allowedModels'>): Promise<void> {
    if (name === undefined || this.#refreshCatalog === undefined || this.#refreshing >= MAX_WAITING) return
    const model = this.#catalog.get(name)
    if (model !== undefined && isVisible(model, caller.accountId) && mayServe(model)) return
    if (caller.allowedModels !== null && !caller.allowedModels.includes(name)) return
    this.#refreshing += 1
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise<void>((resolve) => (timer = setTimeout(resolve, REFRESH_MS)))
    try {
      await Promise.race([this.#refreshCatalog(), timeout])
    } finally {
      clearTimeout(timer)
      this.#refreshing -= 1
    }
  }

  /** After a server starts, its own engines take a moment; requests for them wait, for a bounded time. */
  async whenStarted(name: string | undefined, kind: ServedModel['kind']): Promise<void> {
    const until = performance.now() + STARTING_MS
    let isAwoken = false
    const isStarting = (): boolean => {
      const model = name === undefined ? defaultModel(this.#catalog, kind) : this.#catalog.get(name)
      const phase = model?.notReady?.phase
      if (model !== undefined && phase === 'idle' && !isAwoken) {
        isAwoken = true
        this.#wakeModel?.(model.name)
      }
      return phase === 'starting' || (isAwoken && (phase === 'idle' || phase === 'pulling'))
    }
    while (isStarting() && performance.now() < until && this.#waiting.length < MAX_WAITING) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, until - performance.now())
        this.#waiting.push(() => {
          clearTimeout(timer)
          resolve()
        })
      })
    }
  }

  underWay(): number {
    return this.#admission.underWay()
  }

  /** Whether a request of this caller would start, by memory alone, before its body is known. */
  isOpenFor(caller: Caller): boolean {
    return this.#admission.isOpenFor(caller, this.#leastCost)
  }

  /** Why no request of this caller would start, whatever its body: rate, concurrency, money. */
  refusalBeforeBody(caller: Caller): Promise<Failure | undefined> {
    return this.#admission.refusalFor(caller, this.#leastCost)
  }

  /**
   * false: nothing was done; take the full path. A promise: a purse or a counter must be filled first, which happens once
   * in thousands of requests.
   */
  tryChat(
    caller: Caller,
    bytes: Buffer,
    headers: CallHeaders,
    reply: (rate: RateHead) => Reply,
  ): boolean | Promise<boolean> {
    const body = readChatBody(bytes)
    if (body === undefined) return false
    const request: ChatRequest = {
      operation: 'chat',
      form: chatForm,
      answer: chatAnswer,
      body: body.value,
      bodyBytes: bytes.length,
      bodyText: () => bytes.toString('utf8'),
      messages: body.messages,
    }
    const built = buildChatCall(this.#catalog, caller, request, headers)
    if ('kind' in built) return false
    const begin = (admitted: Admitted): boolean => {
      this.#start(built, reply(admitted.rate ?? noRate), admitted)
      return true
    }
    const ask = { caller, ...built.bounds, countKey: true }
    const admitted = this.#admission.tryAdmit(ask)
    if (admitted !== undefined) return begin(admitted)
    return this.#admission.admit(ask).then((later) => later.ok && begin(later.value))
  }

  /** Answers a request that the schema has accepted and whose key was counted. */
  async chat(
    caller: Caller,
    { dialect, body, bodyBytes, nameIgnored }: ClientRequest,
    headers: CallHeaders,
    reply: Reply,
  ): Promise<Failure | undefined> {
    await this.whenKnown(body['model'] as string, caller)
    await this.whenStarted(body['model'] as string, 'chat')
    const read = await dialect.read(body, caller)
    if (!read.ok) return read
    if (read.value.ignored !== undefined && read.value.ignored.length > 0) nameIgnored(read.value.ignored)
    const request = {
      ...read.value,
      operation: dialect.operation,
      bodyBytes: read.value.bytes ?? bodyBytes,
      bodyText: () => JSON.stringify(body),
    }
    const built = buildChatCall(this.#catalog, caller, request, headers)
    if ('kind' in built) return built
    const admitted = await this.#admission.admit({ caller, ...built.bounds, countKey: false })
    if (!admitted.ok) return admitted
    this.#start(built, reply, admitted.value)
    return undefined
  }

  /** Counts the prompt that a dialect has read. */
  async countTokens(
    caller: Pick<Caller, 'accountId' | 'allowedModels'>,
    request: EngineBody,
  ): Promise<Result<TokenCount>> {
    const name = request.body['model'] as string
    await this.whenKnown(name, caller)
    const model = this.#catalog.get(name)
    const refused = refuseModel(model, name, caller) ?? refuseParameters(model, request.body)
    if (refused !== undefined) return refused
    if (model === undefined) throw new Error('refuseModel refuses an unknown model')
    const { dispatcher } = this.#ports
    return ok(await countTokens({ dispatcher, model, accountId: caller.accountId, request }))
  }

  #start({ call, upstream }: BuiltChat, reply: Reply, admitted: Admitted): void {
    new ChatExchange(call, this.#ports, reply, admitted).start(upstream)
  }
}

export interface ClientRequest {
  readonly dialect: Dialect
  /** The client's own text, without the schema's defaults: an engine has its own. */
  readonly body: JsonObject
  readonly bodyBytes: number
  /** Tells the client which of its parameters have no effect here. */
  readonly nameIgnored: (names: readonly string[]) => void
}

export interface RateHead {
  readonly limit: number
  readonly remaining: number
  readonly resetAt: number
}

const noRate: RateHead = { limit: 0, remaining: 0, resetAt: 0 }

function mayServe({ deployments, notReady, startsOnDemand }: ServedModel): boolean {
  return deployments.length > 0 || notReady !== undefined || startsOnDemand !== undefined
}

function isFree({ prices }: ServedModel): boolean {
  return Object.values(prices).every((price) => price === 0n)
}

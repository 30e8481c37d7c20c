/** A deployment and its state in this process. It survives changes of the catalog, by its id. */
import { Breaker, type BreakerState } from './breaker.ts'
import type { ModelKind } from '../../domain/inference.ts'
import type { Deployment, ServedModel } from '../catalog.ts'
import { Slots, type Load } from './slots.ts'
import type { Pool } from '../upstream/pool.ts'
import type { UpstreamRequest } from '../upstream/upstream-call.ts'

export type FaultClass = 'connect' | 'timeout' | 'status' | 'broken'

export interface TargetStats {
  readonly id: string
  readonly model: string
  readonly requests: number
  readonly faults: Readonly<Record<FaultClass, number>>
  /** The number of answers with status 429. */
  readonly refusals: number
  readonly cancels: number
  readonly inFlight: number
  /** The current limit of calls, over this gateway with its workers. */
  readonly limit: number
  /** Requests that a replica should have before another is rented. */
  readonly autoTarget: number
  /** The number of bytes in answers so far. */
  readonly output: number
  /** The engine produces nothing although calls wait in it, and did not answer a check. */
  readonly isStuck: boolean
  readonly breaker: BreakerState
  readonly affinityHits: number
  readonly affinityMisses: number
  /** The last load from its metrics. undefined: none, or too old. */
  readonly load: Load | undefined
  readonly connections: number
  readonly idleConnections: number
}

/** The share of the slots for calls that use idle capacity only. */
const IDLE_SHARE = 0.8

export class Target {
  readonly model: string
  /** The base model of an adapter; otherwise the model itself. */
  readonly base: string
  readonly modelKind: ModelKind
  readonly slots: Slots
  readonly breaker: Breaker
  readonly faults: Record<FaultClass, number> = { connect: 0, timeout: 0, status: 0, broken: 0 }
  #deployment: Deployment
  #headMiddle: string
  pool: Pool
  /** The deployment is in the catalog, not drained, and has a weight. */
  isInUse = true
  inFlight = 0
  /** A check is waiting for the next free slot. */
  isCheckWaiting = false
  /** Called when the breaker needs a check. */
  onSuspect: (() => void) | undefined
  /** Grows with each call by 1 / weight: of two equally busy targets, the smaller is next. */
  turn = 0
  /** Set when the engine has answered 429. */
  pausedUntil = 0
  lastUsedAt = -Infinity
  requests = 0
  refusals = 0
  cancels = 0
  affinityHits = 0
  affinityMisses = 0

  constructor(
    served: Pick<ServedModel, 'name' | 'kind' | 'adapterOf'>,
    deployment: Deployment,
    pool: Pool,
    random: () => number,
    slots = new Slots(),
  ) {
    this.slots = slots
    this.base = served.adapterOf ?? served.name
    this.model = served.name
    this.modelKind = served.kind
    this.breaker = new Breaker(random)
    this.#deployment = deployment
    this.#headMiddle = headMiddleOf(deployment)
    this.pool = pool
  }

  get deployment(): Deployment {
    return this.#deployment
  }

  set deployment(deployment: Deployment) {
    this.#deployment = deployment
    this.#headMiddle = headMiddleOf(deployment)
  }

  isHealthy(now: number): boolean {
    return !this.slots.isStuck && now >= this.pausedUntil && this.breaker.allows(now)
  }

  /** The limit of calls for this process. */
  get limit(): number {
    return this.#deployment.share ?? this.wholeLimit
  }

  /** The limit of calls for this gateway with its workers. Our own engines state how many they run. */
  get wholeLimit(): number {
    const { protocol, concurrency } = this.#deployment
    return protocol === 'embedded' ? concurrency : Math.min(concurrency, this.slots.limit)
  }

  hasPlace(): boolean {
    return this.slots.inFlight + (this.isCheckWaiting ? 1 : 0) < this.limit
  }

  /** Slots for calls that use idle capacity only: a fifth stays free, and none are used while others wait. */
  idlePlaces(): number {
    return Math.max(0, Math.max(1, Math.floor(this.limit * IDLE_SHARE)) - this.slots.inFlight)
  }

  hasIdlePlace(): boolean {
    return this.idlePlaces() > 0 && this.hasPlace()
  }

  /** false: no call can go there now. */
  mayTake(now: number): boolean {
    return this.isInUse && this.hasPlace() && (this.isHealthy(now) || this.breaker.allowsLastResort(now))
  }

  /** The outstanding work divided by the weight. */
  workAt(now: number): number {
    return this.slots.callsAt(now) / this.#deployment.weight
  }

  begin(): void {
    this.inFlight += 1
    this.slots.inFlight += 1
  }

  end(): void {
    this.inFlight -= 1
    this.slots.inFlight -= 1
  }

  headOf(request: UpstreamRequest): string {
    let bytes = 0
    for (const piece of request.body) bytes += piece.length
    return (
      `POST ${this.#deployment.basePath}${request.path}${this.#headMiddle}` +
      `Content-Type: ${request.contentType}\r\nContent-Length: ${bytes}\r\n${request.extraHeaders}\r\n`
    )
  }

  probeHeadOf(path: string): string {
    return `GET ${this.#deployment.basePath}${path}${this.#headMiddle}Accept: */*\r\n\r\n`
  }

  statsAt(now: number): TargetStats {
    return {
      id: this.#deployment.id,
      model: this.model,
      requests: this.requests,
      faults: { ...this.faults },
      refusals: this.refusals,
      cancels: this.cancels,
      inFlight: this.inFlight,
      isStuck: this.slots.isStuck,
      breaker: this.slots.isStuck ? 'open' : this.breaker.state(now),
      affinityHits: this.affinityHits,
      affinityMisses: this.affinityMisses,
      limit: this.wholeLimit,
      autoTarget: this.slots.autoTargetUpTo(this.#deployment.concurrency),
      output: this.slots.output,
      load: this.slots.loadAt(now),
      connections: this.pool.connections,
      idleConnections: this.pool.idle,
    }
  }
}

function headMiddleOf({ hostHeader, authorization }: Deployment): string {
  const secret = authorization === undefined ? '' : `Authorization: ${authorization}\r\n`
  return ` HTTP/1.1\r\nHost: ${hostHeader}\r\nUser-Agent: berth\r\n${secret}`
}

/**
 * The gateway that lines of batches go through: the usual one over the same engines and the same money, at batch prices and
 * on idle slots only. A line that is answered leaves a record, which is settled with its result (batch-runner.ts); one that
 * is not leaves nothing, and may be sent again.
 */
import type { Clock } from '../../base/instant.ts'
import type { Catalog, ServedModel } from '../../gateway/catalog.ts'
import type { RunningDispatcher } from '../../gateway/dispatch/dispatch.ts'
import { Gateway, type GatewayOptions } from '../../gateway/gateway.ts'
import type { RateAnswer, Rates } from '../../gateway/money/admission.ts'
import type { Meter, OwnRecord } from '../../gateway/money/meter.ts'
import type { UpstreamCall, UpstreamHandle, UpstreamSink } from '../../gateway/upstream/upstream-call.ts'

export interface BatchGatewayOptions extends Pick<GatewayOptions, 'ended' | 'warn' | 'refreshCatalog'> {
  readonly dispatcher: Pick<RunningDispatcher, 'send' | 'idlePlaces' | 'wake'>
  readonly meter: Meter
  readonly rates: Rates
  readonly clock: Clock
}

export class BatchGateway {
  readonly gateway: Gateway
  readonly #options: BatchGatewayOptions
  readonly #records = new Map<string, OwnRecord>()
  /** Lines by model: all that run, and those at engines. The difference has no slot yet. */
  readonly #running = new Map<string, number>()
  readonly #sent = new Map<string, number>()

  constructor(options: BatchGatewayOptions) {
    const { meter, rates, clock, ended, warn, refreshCatalog } = options
    this.#options = options
    this.gateway = new Gateway({
      dispatcher: { send: (call, sink) => this.#send(call, sink) },
      meter: {
        tryReserve: (owner, worst) => meter.tryReserve(owner, worst),
        reserve: (owner, worst) => meter.reserve(owner, worst),
        cancel: (reservation) => meter.cancel(reservation),
        finish: (reservation, call, done) => {
          if (reservation === undefined) return done()
          if (call.outcome === 'answered') this.#records.set(call.requestId, meter.finishOwn(reservation, call))
          else meter.cancel(reservation)
          done()
        },
      },
      rates: ratesOfLines(rates),
      // Idle slots are the limit of batches: they take no place of an account's other requests.
      places: { tryEnter: () => true, enter: async () => true, leave: () => {} },
      clock,
      ended,
      warn,
      ...(refreshCatalog === undefined ? {} : { refreshCatalog }),
    })
  }

  #send(call: UpstreamCall, sink: UpstreamSink): UpstreamHandle {
    const { name } = call.model
    let isSent = true
    add(this.#sent, name, 1)
    const leave = (): void => {
      if (isSent) add(this.#sent, name, -1)
      isSent = false
    }
    const handle = this.#options.dispatcher.send(
      { ...call, onlyIdle: true },
      {
        head: (head) => sink.head(head),
        data: (bytes) => sink.data(bytes),
        end: () => {
          leave()
          sink.end()
        },
        fail: (failure) => {
          leave()
          sink.fail(failure)
        },
        outputTokens: () => sink.outputTokens?.() ?? 0,
      },
    )
    return {
      cancel: () => {
        leave()
        handle.cancel()
      },
      pause: () => handle.pause(),
      resume: () => handle.resume(),
      ahead: () => handle.ahead(),
    }
  }

  setCatalog(catalog: Catalog): void {
    this.gateway.setCatalog(new Map([...catalog].map(([name, model]) => [name, atBatchPrices(model)])))
  }

  /** How many more lines may start. None starts a replica of a model that others pay for. */
  places(model: string): number {
    const { dispatcher } = this.#options
    const starting = countOf(this.#running, model) - countOf(this.#sent, model)
    const places = dispatcher.idlePlaces(model) - starting
    const served = this.gateway.catalog.get(model)
    if (places <= 0 && served?.startsOnDemand !== undefined && served.deployments.length === 0) dispatcher.wake(model)
    return Math.max(0, places)
  }

  /** Counts a line as running for as long as `work` lasts. */
  async run<T>(model: string, work: () => Promise<T>): Promise<T> {
    add(this.#running, model, 1)
    try {
      return await work()
    } finally {
      add(this.#running, model, -1)
    }
  }

  /** The record of a line that was answered. */
  takeRecord(requestId: string): OwnRecord | undefined {
    const record = this.#records.get(requestId)
    this.#records.delete(requestId)
    return record
  }
}

function countOf(counts: ReadonlyMap<string, number>, model: string): number {
  return counts.get(model) ?? 0
}

function add(counts: Map<string, number>, model: string, change: number): void {
  const count = countOf(counts, model) + change
  if (count === 0) counts.delete(model)
  else counts.set(model, count)
}

function atBatchPrices(model: ServedModel): ServedModel {
  const { startsOnDemand, batchPrices = model.prices, ...others } = model
  const isPrivate = model.visibleTo !== undefined
  return { ...others, prices: batchPrices, ...(isPrivate && startsOnDemand !== undefined ? { startsOnDemand } : {}) }
}

const unlimited: RateAnswer = { allowed: true, limit: 0, remaining: 0, resetAt: 0 }

/** A limit of the key counts lines too. Those of the account are for its other requests. */
function ratesOfLines(rates: Rates): Rates {
  const counts = (subject: string): boolean => subject.startsWith('key-tokens:')
  return {
    tryTake: (subject, limit, amount) => (counts(subject) ? rates.tryTake(subject, limit, amount) : unlimited),
    take: async (subject, limit, amount) => (counts(subject) ? rates.take(subject, limit, amount) : unlimited),
    giveBack: (subject, amount, resetAt) => {
      if (counts(subject)) rates.giveBack(subject, amount, resetAt)
    },
    owe: (subject, amount) => {
      if (counts(subject)) rates.owe(subject, amount)
    },
  }
}

/**
 * Assigns sequences to requests. A sequence keeps its last evaluated tokens, so a request gets the idle one that its
 * prompt continues. A shared beginning alone (such as a common system prompt) is not worth discarding another
 * conversation: then the sequence that was idle longest is used. If none is idle, requests wait in a FIFO queue.
 */
import { fail, ok, type Result } from '../../contract/result.ts'

export interface Keeper {
  readonly contextTokens: readonly number[]
}

export interface Place<S> {
  readonly sequence: S
  leave(): void
}

interface Slot<S> {
  readonly sequence: S
  isBusy: boolean
  /** When it was last used: among equals the oldest is used first. */
  turn: number
}

interface Waiting<S> {
  readonly prompt: readonly number[]
  readonly enter: (place: Place<S>) => void
}

/** A prompt continues a sequence if it shares at least this part of it. */
const CONTINUED_PART = 0.5
/** Weight of the last request in the measured average. */
const NEW_WEIGHT = 0.2
const ESTIMATED_REQUEST_MS = 5_000

export class Scheduler<S extends Keeper> {
  readonly #slots: ReadonlyArray<Slot<S>>
  readonly #queueLimit: number
  readonly #queue: Array<Waiting<S>> = []
  #turn = 0
  #requestMs: number | undefined

  constructor(sequences: readonly S[], queueLimit: number) {
    this.#slots = sequences.map((sequence) => ({ sequence, isBusy: false, turn: 0 }))
    this.#queueLimit = queueLimit
  }

  get processing(): number {
    return this.#slots.filter(({ isBusy }) => isBusy).length
  }

  get deferred(): number {
    return this.#queue.length
  }

  /** Resolves with undefined if `signal` is aborted first. */
  enter(prompt: readonly number[], signal: AbortSignal): Result<Promise<Place<S> | undefined>> {
    if (signal.aborted) return ok(Promise.resolve(undefined))
    if (this.processing < this.#slots.length) return ok(Promise.resolve(this.#take(prompt)))
    if (this.#queue.length >= this.#queueLimit) return this.#refuse()
    return ok(
      new Promise((resolve) => {
        const leaveQueue = (): void => {
          this.#queue.splice(this.#queue.indexOf(waiting), 1)
          resolve(undefined)
        }
        const waiting: Waiting<S> = {
          prompt,
          enter: (place) => {
            signal.removeEventListener('abort', leaveQueue)
            resolve(place)
          },
        }
        this.#queue.push(waiting)
        signal.addEventListener('abort', leaveQueue, { once: true })
      }),
    )
  }

  #take(prompt: readonly number[]): Place<S> {
    const idle = this.#slots
      .filter(({ isBusy }) => !isBusy)
      .map((slot) => ({ slot, shared: commonPrefix(slot.sequence.contextTokens, prompt) }))
      .map(({ slot, shared }) => {
        const continues = shared >= slot.sequence.contextTokens.length * CONTINUED_PART
        // A repeated prompt is fully cached, whatever the answer was.
        const repeats = shared >= prompt.length - 1
        return { slot, worth: continues || repeats ? shared : 0 }
      })
      .toSorted((a, b) => b.worth - a.worth || a.slot.turn - b.slot.turn)
    const slot = idle[0]?.slot
    if (slot === undefined) throw new Error('no sequence is idle')
    this.#turn += 1
    slot.turn = this.#turn
    slot.isBusy = true
    const startedAt = performance.now()
    let hasLeft = false
    const leave = (): void => {
      if (hasLeft) return
      hasLeft = true
      const tookMs = performance.now() - startedAt
      this.#requestMs = (this.#requestMs ?? tookMs) * (1 - NEW_WEIGHT) + tookMs * NEW_WEIGHT
      slot.isBusy = false
      const next = this.#queue.shift()
      next?.enter(this.#take(next.prompt))
    }
    return { sequence: slot.sequence, leave }
  }

  #refuse(): Result<never> {
    const turns = Math.ceil((this.#queue.length + 1) / this.#slots.length)
    const waitMs = Math.max(1_000, turns * (this.#requestMs ?? ESTIMATED_REQUEST_MS))
    return fail('queue_full', { waiting: this.#queue.length, retryAfterMs: Math.ceil(waitMs / 1_000) * 1_000 })
  }
}

export function commonPrefix(one: readonly number[], other: readonly number[]): number {
  const length = Math.min(one.length, other.length)
  for (let at = 0; at < length; at += 1) if (one[at] !== other[at]) return at
  return length
}

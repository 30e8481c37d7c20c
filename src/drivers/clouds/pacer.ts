/**
 * Spaces the requests of one account so that the vendor's rate limit is not reached, in the order of their arrival.
 * Vendors limit accounts, so all servers share the time of the next request (`Turns`).
 *
 * Only the first request in a queue reserves a time: one that is canceled while it waits behind others uses up no turn.
 */
import { addMs, type Clock, type Instant } from '../../base/instant.ts'
import { waitOn } from '../../base/wait.ts'

const MAX_WAITING = 200

export interface Pace {
  readonly everyMs: number
  readonly routes?: Readonly<Record<string, number>>
}

/**
 * The turns of one account's requests, on all servers. A route is the name of a limit; `""` is the limit of all
 * requests.
 */
export interface Turns {
  /** Returns when the next request can be sent. The one after it can be sent `everyMs` later. */
  reserve(route: string, everyMs: number): Promise<Instant>
  /** Lets no request through before `until`. */
  pause(route: string, until: Instant): Promise<void>
}

export class Pacer {
  readonly #pace: Pace
  readonly #clock: Clock
  readonly #turns: Turns
  readonly #queues = new Map<string, Promise<void>>()
  #waiting = 0

  constructor(pace: Pace, clock: Clock, turns: Turns) {
    this.#pace = pace
    this.#clock = clock
    this.#turns = turns
  }

  /** Resolves when the request may be sent. `route`: the request has a limit of its own. */
  async turn(route: string | undefined, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#waiting >= MAX_WAITING) throw new Error('Too many requests wait for the rate limit of the cloud.')
    this.#waiting += 1
    try {
      const routeMs = route === undefined ? undefined : this.#pace.routes?.[route]
      const { everyMs } = this.#pace
      const takeCommonTurn = (): Promise<void> => this.#queue('', signal, () => this.#reserve('', everyMs, signal))
      if (route === undefined || routeMs === undefined) return await takeCommonTurn()
      // A request that waits for its own limit does not hold up the others. That limit counts from when the request is
      // sent.
      await this.#queue(route, signal, async () => {
        await this.#reserve(route, routeMs, signal)
        await takeCommonTurn()
        await this.#turns.pause(route, addMs(this.#clock.now(), routeMs))
      })
    } finally {
      this.#waiting -= 1
    }
  }

  /** Called when the vendor asks for a pause. */
  async pause(until: Instant): Promise<void> {
    await this.#turns.pause('', until)
  }

  async #queue(route: string, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    const before = this.#queues.get(route)
    const turn = (async () => {
      await before
      signal.throwIfAborted()
      await work()
    })()
    this.#queues.set(
      route,
      turn.catch(() => undefined),
    )
    await endWith(turn, signal)
  }

  async #reserve(route: string, everyMs: number, signal: AbortSignal): Promise<void> {
    if (everyMs === 0) return
    const ms = (await this.#turns.reserve(route, everyMs)) - this.#clock.now()
    if (ms > 0) await waitOn(this.#clock, ms, signal)
  }
}

/** Rejects as soon as the signal aborts, though the work goes on. */
async function endWith(work: Promise<void>, signal: AbortSignal): Promise<void> {
  let stop = (): void => {}
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as Error)
    signal.addEventListener('abort', stop, { once: true })
  })
  try {
    await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

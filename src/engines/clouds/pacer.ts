/** Keeps the requests of one account apart, so that the vendor's rate limit is not reached. First come, first served. */

const MAX_WAITING = 200

export class Pacer {
  readonly #everyMs: number
  readonly #routes: Readonly<Record<string, number>>
  readonly #nextAt = new Map<string, number>()
  #waiting = 0

  constructor(pace: { readonly everyMs: number; readonly routes?: Readonly<Record<string, number>> }) {
    this.#everyMs = pace.everyMs
    this.#routes = pace.routes ?? {}
  }

  /** Resolves when the request may be sent. `route`: one with a limit of its own. */
  async turn(route: string | undefined, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const now = performance.now()
    const limited = route !== undefined && this.#routes[route] !== undefined ? route : undefined
    const at = Math.max(now, this.#nextAt.get('') ?? 0, limited === undefined ? 0 : (this.#nextAt.get(limited) ?? 0))
    if (this.#waiting >= MAX_WAITING) throw new Error('Too many requests wait for the rate limit of the cloud.')
    if (limited === undefined) this.#nextAt.set('', at + this.#everyMs)
    else {
      // A request that waits for its own limit must not hold up the others.
      this.#nextAt.set(limited, at + (this.#routes[limited] ?? 0))
      if (at - now <= this.#everyMs) this.#nextAt.set('', at + this.#everyMs)
    }
    await this.#until(at, signal)
  }

  /** The vendor asked for a pause. */
  pause(ms: number): void {
    this.#nextAt.set('', Math.max(this.#nextAt.get('') ?? 0, performance.now() + ms))
  }

  async #until(at: number, signal: AbortSignal): Promise<void> {
    const ms = at - performance.now()
    if (ms <= 0) return
    this.#waiting += 1
    try {
      await waitMs(ms, signal)
    } finally {
      this.#waiting -= 1
    }
  }
}

/** Rejects when the signal aborts. */
export function waitMs(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer)
      reject(signal.reason as Error)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop)
      resolve()
    }, ms)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
}

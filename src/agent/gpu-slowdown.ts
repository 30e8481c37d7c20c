/**
 * GPUs that their hardware slows down again and again: too hot, or with too little power. One slowdown is ordinary. A GPU
 * with one in more than six of the last ten minutes is not offered, because its tenants would pay for half a GPU.
 */
const MINUTE_MS = 60_000
const WINDOW_MINUTES = 10
const MAX_SLOW_MINUTES = 6

export const SLOWED_DOWN = `the hardware slowed it down in more than ${MAX_SLOW_MINUTES} of the last ${WINDOW_MINUTES} minutes`

export class Slowdowns {
  readonly #now: () => number
  /** The minutes with a slowdown, by the UUID of the GPU. */
  readonly #minutes = new Map<string, readonly number[]>()

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** These GPUs are slowed down now. */
  note(uuids: readonly string[]): void {
    const minute = this.#minute()
    for (const uuid of uuids) this.#minutes.set(uuid, [...new Set([...this.#recent(uuid), minute])])
  }

  isOften(uuid: string): boolean {
    return this.#recent(uuid).length > MAX_SLOW_MINUTES
  }

  #recent(uuid: string): readonly number[] {
    return (this.#minutes.get(uuid) ?? []).filter((minute) => minute > this.#minute() - WINDOW_MINUTES)
  }

  #minute(): number {
    return Math.floor(this.#now() / MINUTE_MS)
  }
}

/** Access tokens of a simulated vendor, which expire. */
import { addMs, type Clock, type Instant } from '../../../src/base/instant.ts'

export class SimTokens {
  readonly lifetimeMs: number
  readonly #clock: Clock
  readonly #prefix: string
  readonly #expiries = new Map<string, Instant>()
  #count = 0

  constructor(clock: Clock, prefix: string, lifetimeMs: number) {
    this.#clock = clock
    this.#prefix = prefix
    this.lifetimeMs = lifetimeMs
  }

  issue(): string {
    this.#count += 1
    const token = `${this.#prefix}-${this.#count}`
    this.#expiries.set(token, addMs(this.#clock.now(), this.lifetimeMs))
    return token
  }

  /** Whether the header has a token that has not expired. */
  accept(authorization: string | undefined): boolean {
    const expiry = this.#expiries.get((authorization ?? '').replace(/^Bearer /, ''))
    return expiry !== undefined && this.#clock.now() < expiry
  }

  /** No token is valid any more. */
  revokeAll(): void {
    this.#expiries.clear()
  }
}

/**
 * Memory budget for request bodies, in total and per account. A request reserves its announced length before its body is
 * read, so that a sender that has started can finish; a body of unknown length reserves as it arrives. Memory is
 * allocated only for bytes that have arrived. The reservation lasts until the response is complete, since retries and
 * records need the body. A body of up to 64 KiB needs no reservation: a connection may buffer that much anyway, so small
 * requests are answered while the budget is used up, and senders without an account get no more than that.
 */
import { fail, type Failure } from '../contract/result.ts'

export const FREE_BODY_BYTES = 65_536
const BLOCK_BYTES = 65_536
const RETRY_AFTER_MS = 1_000

export interface BodyBudgetOptions {
  readonly totalBytes: number
  readonly accountBytes: number
}

export class BodyBudget {
  readonly #options: BodyBudgetOptions
  readonly #usedByAccount = new Map<string, number>()
  #used = 0

  constructor(options: BodyBudgetOptions) {
    this.#options = options
  }

  get usedBytes(): number {
    return this.#used
  }

  open(accountId: string): BodyRoom {
    return new BodyRoom(this, accountId)
  }

  /** Reserves more bytes, or returns the reason and reserves nothing. */
  take(accountId: string, bytes: number): Failure | undefined {
    const refused = this.#refusal(accountId, bytes)
    if (refused === undefined) this.#add(accountId, bytes)
    return refused
  }

  giveBack(accountId: string, bytes: number): void {
    this.#add(accountId, -bytes)
  }

  #refusal(accountId: string, bytes: number): Failure | undefined {
    const { totalBytes, accountBytes } = this.#options
    const ofAccount = this.#usedByAccount.get(accountId) ?? 0
    if (ofAccount + bytes > accountBytes) {
      return busy({ usedBytes: ofAccount, limitBytes: accountBytes })
    }
    return this.#used + bytes > totalBytes ? busy(undefined) : undefined
  }

  #add(accountId: string, bytes: number): void {
    this.#used += bytes
    const ofAccount = (this.#usedByAccount.get(accountId) ?? 0) + bytes
    if (ofAccount === 0) this.#usedByAccount.delete(accountId)
    else this.#usedByAccount.set(accountId, ofAccount)
  }
}

/** The reservation of one request. */
export class BodyRoom {
  readonly #budget: BodyBudget
  readonly #accountId: string
  #bytes = 0
  #takenBytes = 0
  #isReleased = false

  constructor(budget: BodyBudget, accountId: string) {
    this.#budget = budget
    this.#accountId = accountId
  }

  /** Reserves more bytes, or returns the reason and reserves nothing. */
  grow(bytes: number): Failure | undefined {
    const all = this.#bytes + bytes
    if (all > FREE_BODY_BYTES && !this.#isReleased) {
      const refused = this.#budget.take(this.#accountId, all - this.#takenBytes)
      if (refused !== undefined) return refused
      this.#takenBytes = all
    }
    this.#bytes = all
    return undefined
  }

  /** Releases everything; later calls do nothing. */
  release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    if (this.#takenBytes > 0) this.#budget.giveBack(this.#accountId, this.#takenBytes)
  }
}

/**
 * Collects an arriving body in blocks: pieces of a single byte, which chunked encoding allows, would otherwise cost a
 * hundred bytes each.
 */
export class BodyBuffer {
  readonly #blocks: Buffer[] = []
  readonly #expectedBytes: number | undefined
  #last: Buffer | undefined
  #filledOfLast = 0
  #bytes = 0

  /** `expectedBytes`: undefined if the sender did not announce a length. */
  constructor(expectedBytes: number | undefined) {
    this.#expectedBytes = expectedBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  add(bytes: Buffer): void {
    for (let at = 0; at < bytes.length;) {
      if (this.#last === undefined || this.#filledOfLast === this.#last.length) {
        const expected = this.#expectedBytes === undefined ? BLOCK_BYTES : this.#expectedBytes - this.#bytes
        this.#last = Buffer.allocUnsafe(Math.min(BLOCK_BYTES, Math.max(expected, bytes.length - at)))
        this.#filledOfLast = 0
        this.#blocks.push(this.#last)
      }
      const copied = bytes.copy(this.#last, this.#filledOfLast, at)
      this.#filledOfLast += copied
      this.#bytes += copied
      at += copied
    }
  }

  /** All bytes so far in one piece. */
  whole(): Buffer {
    const [first] = this.#blocks
    if (first !== undefined && this.#blocks.length === 1) return first.subarray(0, this.#bytes)
    return Buffer.concat(this.#blocks, this.#bytes)
  }
}

function busy(account: { readonly usedBytes: number; readonly limitBytes: number } | undefined): Failure {
  return fail('server_busy', { account, retryAfterMs: RETRY_AFTER_MS })
}

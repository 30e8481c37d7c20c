/** An inference request in the gateway: the caller, the model, and the destination of the answer. */
import { randomUUID } from 'node:crypto'
import type { Failure } from '../contract/result.ts'
import type { NanoUsd } from '../base/money.ts'
import type { KeyClass } from '../contract/key-class.ts'
import type { PurseOwner } from '../domain/purse.ts'
import type { ServedModel } from './catalog.ts'

/** The caller, as inference needs it. One value per key, shared by all its requests. */
export interface Caller {
  readonly accountId: string
  readonly keyId: string
  /** The account's purse, or the key's own if it has a spending limit. */
  readonly purse: PurseOwner
  /** Requests of class batch wait while others do. */
  readonly class: KeyClass
  /** null: any model. */
  readonly allowedModels: readonly string[] | null
  readonly requestsPerMinute: number
  /** null: only the account's limit counts. */
  readonly tokensPerMinute: number | null
  readonly account: {
    readonly requestsPerMinute: number
    readonly tokensPerMinute: number
    /** Concurrent requests. */
    readonly streams: number
    readonly keepsBodies: boolean
    /** Whether `store` of a response has an effect. */
    readonly storesResponses: boolean
  }
}

/** How the calls of a caller wait. */
export function queueingOf({ accountId, class: keyClass }: Caller): { accountId: string; isBatch: boolean } {
  return { accountId, isBatch: keyClass === 'batch' }
}

export interface Call {
  readonly requestId: string
  readonly traceId: string
  readonly caller: Caller
  /** The operation as recorded. */
  readonly operation: string
  readonly model: ServedModel
  /** The most it can cost, held before it starts. */
  readonly worst: NanoUsd
  /** The text for the account's log. null: the account does not keep bodies. */
  readonly bodyText: string | null
}

/** The destination of an answer: a raw socket or node:http's response. Text is latin1, one character per byte. */
export interface Reply {
  /** A complete answer. */
  send(status: number, contentType: string, body: string): void
  /** The head of a stream with its first bytes. `contentType`: absent for events. */
  startStream(first: string, contentType?: string): boolean
  /** false: full, until `onDrain`. */
  write(text: string): boolean
  endStream(last: string): void
  /** Only before anything was sent. */
  refuse(failure: Failure): void
  /** Called once if the client goes away before the end. */
  onGone(listener: () => void): void
  onDrain(listener: () => void): void
  /** Closes the connection to the client. */
  abort(): void
}

/**
 * `req_` and 32 hex digits: twelve of the time in milliseconds, so that requests of one time lie side by side in the
 * database, then random ones. randomUUID draws its random bytes in bulk: 0.5 µs, where randomBytes takes 4.
 */
export function newRequestId(nowMs: number): string {
  const random = randomUUID()
  return `req_${nowMs.toString(16).padStart(12, '0')}${random.slice(0, 4)}${random.slice(19, 23)}${random.slice(24)}`
}

/** One inference request on its way through the gateway: who asks, for what, and where the answer goes. */
import { randomUUID } from 'node:crypto'
import type { Failure } from '../contract/result.ts'
import type { NanoUsd } from '../base/money.ts'
import type { PurseOwner } from '../domain/purse.ts'
import type { ServedModel } from './catalog.ts'

/** The caller as far as inference needs it. One value a key, shared by all its requests. */
export interface Caller {
  readonly accountId: string
  readonly keyId: string
  /** The account's purse, or the key's own where the key has a spending limit. */
  readonly purse: PurseOwner
  /** null: any model. */
  readonly allowedModels: readonly string[] | null
  readonly requestsPerMinute: number
  /** null: only the account's limit counts. */
  readonly tokensPerMinute: number | null
  readonly account: {
    readonly requestsPerMinute: number
    readonly tokensPerMinute: number
    /** Requests under way at once. */
    readonly streams: number
    readonly keepsBodies: boolean
  }
}

export type InferenceOperation = 'chat' | 'completion' | 'embedding' | 'image' | 'speech'

export interface Call {
  readonly requestId: string
  readonly traceId: string
  readonly caller: Caller
  readonly operation: InferenceOperation
  readonly model: ServedModel
  /** What it can cost at most, held before it starts. */
  readonly worst: NanoUsd
  /** For the account's log. null: the account does not keep bodies. */
  readonly bodyText: string | null
}

/** Where an answer goes: a raw socket or node:http's response. Text is latin1: one character a byte. */
export interface Reply {
  /** A whole answer. */
  send(status: number, contentType: string, body: string): void
  /** The head of a stream with its first bytes. */
  startStream(first: string): boolean
  /** false: full, until `onDrain`. */
  write(text: string): boolean
  endStream(last: string): void
  /** Nothing was sent yet. */
  refuse(failure: Failure): void
  /** Called once when the client is gone before the end. */
  onGone(listener: () => void): void
  onDrain(listener: () => void): void
  /** Ends the connection to the client. */
  abort(): void
}

/** `req_` and 32 hex digits. randomUUID draws its random bytes in bulk: 0.5 µs, where randomBytes(16) takes 4. */
export function newRequestId(): string {
  return `req_${randomUUID().replaceAll('-', '')}`
}

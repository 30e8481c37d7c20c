/**
 * Expected outcomes are values. A use case returns `ok(value)` or `fail(reason, details)`; a bug or a broken database is
 * an exception. The reason gives a failure its class and its text (contract/reason/reasons.ts).
 */
import type { Issue } from '../base/issue.ts'
import { textOf, type FailureKind, type ReasonEntry } from './reason/reason-entry.ts'
import { reasons, type Reason } from './reason/reasons.ts'

export interface Failure {
  readonly ok: false
  readonly kind: FailureKind
  /** A sentence for the customer. It never contains SQL, a path or another tenant's data. */
  readonly message: string
  readonly reason: Reason
  readonly issues?: readonly Issue[]
  readonly retryAfterMs?: number
}

export interface Ok<T> {
  readonly ok: true
  readonly value: T
}

export type Result<T> = Ok<T> | Failure

export function ok<T>(value: T): Ok<T> {
  return { ok: true, value }
}

interface FailureOptions {
  /** The invalid field. */
  readonly field?: Issue['path']
  readonly retryAfterMs?: number
  /** Overrides the class in the table. */
  readonly failureKind?: FailureKind
}

/** The details in the sentence. For several reasons: the details of any of them. */
export type DetailsOf<R extends Reason> = (
  R extends Reason
    ? (typeof reasons)[R]['sentence'] extends (details: infer Details) => string
      ? (details: Details & FailureOptions) => void
      : (details: FailureOptions) => void
    : never
) extends (details: infer All) => void
  ? All
  : never

type Given<R extends Reason> = object extends DetailsOf<R> ? [details?: DetailsOf<R>] : [details: DetailsOf<R>]

export function fail<R extends Reason>(reason: R, ...[details]: Given<R>): Failure {
  const { field, retryAfterMs, failureKind } = (details ?? {}) as FailureOptions
  const entry: ReasonEntry = reasons[reason]
  const sentence = textOf(entry.sentence, details ?? {})
  return {
    ok: false,
    kind: failureKind ?? entry.kind,
    message: entry.next === undefined ? sentence : `${sentence} ${textOf(entry.next, details ?? {})}`,
    reason,
    ...(field === undefined ? {} : { issues: [{ code: reason, path: field, message: sentence }] }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  }
}

/** A failure of one field of the input, in the same form as a validation failure. */
export function failField<R extends Reason>(field: Issue['path'], reason: R, ...[details]: Given<R>): Failure {
  const fieldDetails = { failureKind: 'invalid', ...(details as object | undefined), field }
  return fail(reason, ...([fieldDetails] as unknown as Given<R>))
}

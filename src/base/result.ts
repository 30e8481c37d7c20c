/**
 * Expected outcomes are values. A use case returns `ok(value)` or `fail(kind, message, …)`; a bug or a broken
 * database is an exception. `Failure.kind` is what the HTTP layer switches on, `reason` is what programs switch on.
 */

export interface Issue {
  readonly code: string
  readonly path: ReadonlyArray<string | number>
  readonly message: string
}

export type FailureKind =
  | 'invalid'
  | 'unauthenticated'
  | 'forbidden'
  | 'insufficient_balance'
  | 'no_capacity'
  | 'not_found'
  | 'conflict'
  | 'rate_limited'
  | 'unavailable'

export interface Failure {
  readonly ok: false
  readonly kind: FailureKind
  /** A sentence for the customer. It never holds SQL, a path or another tenant's data. */
  readonly message: string
  /** A stable snake_case word that programs switch on. */
  readonly reason?: string
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

export function fail(
  kind: FailureKind,
  message: string,
  more: { reason?: string; issues?: readonly Issue[]; retryAfterMs?: number } = {},
): Failure {
  return { ok: false, kind, message, ...more }
}

/** A failure that names the field at fault, in the same form as a validation failure. */
export function failField(path: ReadonlyArray<string | number>, message: string, reason?: string): Failure {
  return fail('invalid', message, {
    ...(reason === undefined ? {} : { reason }),
    issues: [{ code: reason ?? 'custom', path, message }],
  })
}

export function assertNever(value: never): never {
  throw new Error(`unhandled case: ${JSON.stringify(value)}`)
}

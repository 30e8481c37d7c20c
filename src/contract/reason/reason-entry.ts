/** One row in the table of reasons (contract/reason/reasons.ts): its class of failure, its sentence, and the next step. */

/** The HTTP layer chooses the status by this (server/http/error-page.ts). */
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

/** A sentence on what happened; a function if it contains details. */
export type Sentence = string | ((details: never) => string)

export interface ReasonEntry<S extends Sentence = Sentence> {
  readonly kind: FailureKind
  readonly sentence: S
  /** The next step for the reader; a function of the same details if it depends on them. */
  readonly next: string | S | undefined
  /** Set if the HTTP status does not follow from the kind. */
  readonly status?: number
}

function entriesOf(kind: FailureKind) {
  return <S extends Sentence>(sentence: S, next?: string | NoInfer<S>): ReasonEntry<S> => ({ kind, sentence, next })
}

export const invalid = entriesOf('invalid')
export const unauthenticated = entriesOf('unauthenticated')
export const forbidden = entriesOf('forbidden')
export const insufficientBalance = entriesOf('insufficient_balance')
export const noCapacity = entriesOf('no_capacity')
export const notFound = entriesOf('not_found')
export const conflict = entriesOf('conflict')
export const rateLimited = entriesOf('rate_limited')
export const unavailable = entriesOf('unavailable')

export function textOf(text: Sentence, details: object): string {
  return typeof text === 'string' ? text : text(details as never)
}

/** For a reason whose sentence is known only where it occurs: an engine's message, or a checker's finding. */
export function asGiven({ message }: { readonly message: string }): string {
  return message
}

/** Failures as HTTP. One exhaustive switch maps kinds to statuses; the form of the operation writes the body. */
import type { FastifyReply } from 'fastify'
import { assertNever } from '../../base/assert-never.ts'
import type { Failure } from '../../contract/result.ts'
import type { FailureKind } from '../../contract/reason/reason-entry.ts'
import { reasons } from '../../contract/reason/reasons.ts'
import type { ReasonEntry } from '../../contract/reason/reason-entry.ts'
import type { V2Status } from '../../contract/error.ts'
import { errorFormOf, errorForms, type ErrorPage, type Family } from '../../contract/error-form.ts'
import type { Endpoint } from '../../contract/endpoint.ts'

export function failurePage(endpoint: Endpoint, failure: Failure): ErrorPage {
  const byKind = endpoint.family === 'v1' ? v1Status(failure.kind) : v2Status(failure.kind, endpoint)
  return errorFormOf(endpoint).write({ ...failure, status: fixedStatus(failure) ?? byKind })
}

/** The text to send. */
export function writePage({ body }: ErrorPage, requestId: string): string {
  return JSON.stringify('request_id' in body ? { ...body, request_id: requestId } : body)
}

/** Returns the request id that a cost belongs to, if there is one. */
export function requestIdOf(reply: FastifyReply): string {
  return String(reply.getHeader('X-Inference-Request-Id') ?? reply.request.id)
}

/** Answers a failure before any operation is known. */
export function requestFailurePage(family: Family, failure: Failure): ErrorPage {
  return errorForms[family].write({ ...failure, status: fixedStatus(failure) ?? v1Status(failure.kind) })
}

function fixedStatus({ reason }: Failure): number | undefined {
  const entry: ReasonEntry = reasons[reason]
  return entry.status
}

function v2Status(kind: FailureKind, endpoint: Endpoint): V2Status {
  switch (kind) {
    case 'invalid':
    case 'no_capacity':
    case 'conflict':
      return 400
    case 'unauthenticated':
      return 401
    case 'forbidden':
    case 'insufficient_balance':
      return 403
    case 'not_found':
      // An operation answers only with the statuses that the contract lists.
      return endpoint.errors.includes(404) ? 404 : 400
    case 'rate_limited':
      return 429
    case 'unavailable':
      return 503
    default:
      return assertNever(kind)
  }
}

function v1Status(kind: FailureKind): number {
  switch (kind) {
    case 'invalid':
    case 'no_capacity':
    case 'conflict':
      return 400
    case 'unauthenticated':
      return 401
    case 'insufficient_balance':
      return 402
    case 'forbidden':
      return 403
    case 'not_found':
      return 404
    case 'rate_limited':
      return 429
    case 'unavailable':
      return 503
    default:
      return assertNever(kind)
  }
}

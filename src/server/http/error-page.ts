/** Failures as HTTP. One exhaustive switch maps kinds to statuses; v1 and v2 have their own error bodies. */
import { assertNever } from '../../base/assert-never.ts'
import type { Failure } from '../../contract/result.ts'
import type { FailureKind } from '../../contract/reason/reason-entry.ts'
import { reasons } from '../../contract/reason/reasons.ts'
import type { ReasonEntry } from '../../contract/reason/reason-entry.ts'
import { v2Codes, type V2Status } from '../../contract/error.ts'
import type { Endpoint, Family } from '../../contract/endpoint.ts'
import type { InputIssue } from './validation.ts'

export interface ErrorPage {
  readonly status: number
  readonly body: Record<string, unknown>
}

export function failurePage(endpoint: Endpoint, failure: Failure): ErrorPage {
  const byKind = endpoint.family === 'v1' ? v1Status(failure.kind) : v2Status(failure.kind, endpoint)
  return errorPage(endpoint.family, fixedStatus(failure) ?? byKind, failure)
}

/** For a failure before any operation is known. */
export function requestFailurePage(family: Family, failure: Failure): ErrorPage {
  return errorPage(family, fixedStatus(failure) ?? v1Status(failure.kind), failure)
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

const NO_SUCH_INSTANCE = 105

const v1Types: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'insufficient_balance',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'invalid_request_error',
  415: 'invalid_request_error',
  422: 'invalid_request_error',
  429: 'rate_limit_error',
  500: 'server_error',
  503: 'server_error',
}

type Fault = Pick<Failure, 'message' | 'issues'> & Partial<Pick<Failure, 'reason'>>

function errorPage(family: Family, status: number, fault: Fault): ErrorPage {
  const { message, reason, issues } = fault
  if (family === 'v2') {
    const code = v2Codes[status as V2Status] ?? 'INTERNAL_SERVER_ERROR'
    return {
      status,
      body: {
        message,
        code,
        ...(reason === undefined ? {} : { reason }),
        ...(issues === undefined ? {} : { issues: issues.map(({ code, path, message }) => ({ code, path, message })) }),
      },
    }
  }
  const type = v1Types[status] ?? 'server_error'
  const param = issues?.[0]?.path.join('.') ?? null
  const errorCode = reason === 'instance_not_found' ? NO_SUCH_INSTANCE : status
  return {
    status,
    body: {
      object: 'error',
      message,
      type,
      param,
      code: status,
      error_code: errorCode,
      // OpenAI clients look for this code and shorten their prompt.
      error: { message, type, param, code: reason === 'context_length_exceeded' ? reason : status },
      ...(reason === undefined ? {} : { reason }),
    },
  }
}

/** v2: 400 with all issues. v1: 422 with `detail` if a field is missing, mistyped or unknown; 400 if out of range. */
export function validationPage(
  family: Family,
  part: 'body' | 'query' | 'path',
  issues: readonly InputIssue[],
): ErrorPage {
  if (family === 'v2') return errorPage('v2', 400, { message: 'Input validation failed', issues })
  const malformed = issues.some((issue) => issue.malformed)
  const first = issues[0]
  const message = first === undefined ? 'Input validation failed' : `${first.path.join('.') || part}: ${first.message}`
  const page = errorPage('v1', malformed ? 422 : 400, { message, issues })
  const detail = issues.map((issue) => ({
    type: issue.message === 'Required' ? 'missing' : issue.code,
    loc: [part, ...issue.path],
    msg: issue.message,
    input: issue.input,
  }))
  return { ...page, body: { ...page.body, detail } }
}

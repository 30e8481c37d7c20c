/**
 * How a call can fail. `kind` shows the difference that matters to a caller: `api` means that the server rejected the
 * call; with every other kind it is unknown what the server did, or whether it was reached.
 */
import type { Issue } from '../base/issue.ts'
import type { Reason } from '../contract/reason/reasons.ts'

export type ClientError = ApiError | TransportError

export interface ApiErrorFields {
  readonly status: number
  /** `BAD_REQUEST` …, or the type of a v1 body such as `invalid_request_error`. */
  readonly code: string
  readonly reason?: string
  readonly issues: readonly Issue[]
  readonly requestId?: string
  readonly retryAfterMs?: number
}

/** An error response, the same for v1 and v2 bodies. */
export class ApiError extends Error {
  readonly kind = 'api'
  readonly status: number
  readonly code: string
  /** A `Reason` of the contract, unless the server is newer than this client. */
  readonly reason: string | undefined
  readonly issues: readonly Issue[]
  readonly requestId: string | undefined
  readonly retryAfterMs: number | undefined

  constructor(message: string, fields: ApiErrorFields) {
    super(message)
    this.name = 'ApiError'
    this.status = fields.status
    this.code = fields.code
    this.reason = fields.reason
    this.issues = fields.issues
    this.requestId = fields.requestId
    this.retryAfterMs = fields.retryAfterMs
  }
}

/** `garbled`: the response did not come from a Berth server. */
type TransportKind = 'unreachable' | 'timeout' | 'aborted' | 'garbled'

export class TransportError extends Error {
  readonly kind: TransportKind

  constructor(kind: TransportKind, message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause })
    this.name = 'TransportError'
    this.kind = kind
  }
}

export function isClientError(error: unknown): error is ClientError {
  return error instanceof ApiError || error instanceof TransportError
}

/** Whether the server rejected a call for this reason. */
export function isRefusal(error: unknown, reason: Reason): error is ApiError {
  return error instanceof ApiError && error.reason === reason
}

/** Whether the same request may succeed a moment later. */
export function isTransient(error: unknown): boolean {
  if (error instanceof ApiError) return error.status >= 502 && error.status <= 504
  return error instanceof TransportError && error.kind === 'unreachable'
}

/** `fetch` rejects with "fetch failed" and hides the reason in its cause. */
export function unreachable(url: string, error: unknown): TransportError {
  return new TransportError('unreachable', `Cannot reach ${url}: ${describeCause(error)}`, error)
}

const causes: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was closed',
  ENOTFOUND: 'host not found',
  EAI_AGAIN: 'the host name cannot be resolved',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'the network is unreachable',
  UND_ERR_SOCKET: 'the connection was closed',
}

function describeCause(error: unknown): string {
  const cause: unknown = error instanceof Error && error.cause !== undefined ? error.cause : error
  const code = typeof cause === 'object' && cause !== null && 'code' in cause ? String(cause.code) : ''
  return causes[code] ?? (cause instanceof Error && cause.message !== '' ? cause.message : 'no response')
}

/** Parses a v1 or v2 error body; uses the status alone if the body is neither. */
export function apiErrorOf(status: number, headers: Headers, text: string): ApiError {
  const body = parseObject(text)
  const issues = issuesOf(body)
  const message = textOf(body['message']) ?? `The server responded with status ${status}`
  const missing = issues.filter((issue) => !message.includes(issue.message))
  const details = missing.map((issue) => (issue.path.length === 0 ? '' : `${issue.path.join('.')}: `) + issue.message)
  const reason = textOf(body['reason'])
  const requestId = headers.get('x-request-id')
  const seconds = Number.parseInt(headers.get('retry-after') ?? '', 10)
  return new ApiError(details.length === 0 ? message : `${message}: ${details.join('; ')}`, {
    status,
    code: textOf(body['code']) ?? textOf(body['type']) ?? `HTTP_${status}`,
    issues,
    ...(reason === undefined ? {} : { reason }),
    ...(requestId === null ? {} : { requestId }),
    ...(Number.isNaN(seconds) ? {} : { retryAfterMs: seconds * 1_000 }),
  })
}

/** v2 calls them `issues`; v1 has `detail`, with paths that start with the part of the request. */
function issuesOf(body: Record<string, unknown>): Issue[] {
  if (Array.isArray(body['issues'])) return body['issues'] as Issue[]
  if (!Array.isArray(body['detail'])) return []
  const detail = body['detail'] as ReadonlyArray<{ type: string; loc: ReadonlyArray<string | number>; msg: string }>
  return detail.map(({ type, loc, msg }) => ({ code: type, path: loc.slice(1), message: msg }))
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

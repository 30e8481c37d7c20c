/** Decides what the answers and faults of an engine mean. */
import { assertNever } from '../../base/assert-never.ts'
import type { FaultKind } from '../upstream/connection.ts'
import type { UpstreamFailure } from '../upstream/upstream-call.ts'
import type { FaultClass } from './routing-target.ts'

export function kindOf(kind: FaultKind): UpstreamFailure['kind'] {
  switch (kind) {
    case 'connect':
    case 'connect_timeout':
      return 'unreachable'
    case 'first_byte_timeout':
    case 'quiet':
    case 'total':
      return 'timeout'
    case 'broken':
      return 'broken'
    default:
      return assertNever(kind)
  }
}

export function classOf(kind: FaultKind): FaultClass {
  const failure = kindOf(kind)
  if (failure === 'unreachable') return 'connect'
  return failure === 'timeout' ? 'timeout' : 'broken'
}

/** `Retry-After` is a number of seconds, or a date, which is compared with the engine's own Date header. */
export function readRetryAfter(headers: ReadonlyMap<string, string>): number | undefined {
  const value = headers.get('retry-after')
  if (value === undefined) return undefined
  if (/^[0-9]{1,9}$/.test(value)) return Number(value) * 1_000
  const ms = Date.parse(value) - Date.parse(headers.get('date') ?? '')
  return Number.isFinite(ms) && ms >= 0 ? ms : undefined
}

/**
 * Whether to pass the answer on: a success, or a fault of the request itself. Other errors are caused by the engine or
 * its operator (a revoked key, a missing model), so another engine may do better.
 */
export function isAnswer(status: number): boolean {
  if (status >= 200 && status < 300) return true
  return status >= 400 && status < 500 && ![401, 403, 404, 405, 407, 408, 429].includes(status)
}

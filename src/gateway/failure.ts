/** What went wrong at an engine, in words for the customer. Which engine it was, and its own words, stay inside. */
import { fail, type Failure } from '../contract/result.ts'
import type { UpstreamFailure } from './upstream-call.ts'
import { parseObject } from './usage.ts'

const RETRY_MS = 1_000

export function explainFailure(failure: UpstreamFailure, model: string): Failure {
  const retryAfterMs = failure.retryAfterMs ?? RETRY_MS
  switch (failure.kind) {
    case 'no_deployment':
      return fail('no_deployment', { model, retryAfterMs })
    case 'overloaded':
      return fail('overloaded', { model, retryAfterMs })
    case 'timeout':
      return fail('engine_timeout', { model, retryAfterMs })
    case 'unreachable':
    case 'broken':
    case 'status':
      return fail('engine_failed', { model, retryAfterMs })
  }
}

/** Statuses by which an engine says that the request itself was at fault. */
const clientFaults = new Set([400, 413, 422])

/** An engine refused: with a reason that is the client's to read, or for one that is the operator's to mend. */
export function explainRefusal(
  status: number,
  body: string,
  { name: model, contextTokens }: { readonly name: string; readonly contextTokens: number | null },
): Failure {
  if (!clientFaults.has(status)) {
    return fail('engine_refused', { model, retryAfterMs: RETRY_MS })
  }
  const answer = parseObject(Buffer.from(body, 'latin1').toString('utf8'))
  const error = (typeof answer?.['error'] === 'object' ? answer['error'] : answer) as
    | Record<string, unknown>
    | undefined
  const message = typeof error?.['message'] === 'string' ? error['message'] : 'The engine refused the request'
  const param = typeof error?.['param'] === 'string' ? error['param'] : undefined
  if (isOverflow(error, message)) return explainOverflow(message, contextTokens)
  return fail('refused_by_engine', {
    message: message.slice(0, 1_000),
    ...(param === undefined ? {} : { field: [param] }),
  })
}

/** Engines say it by a code, by a type, or only in words. */
function isOverflow(error: Readonly<Record<string, unknown>> | undefined, message: string): boolean {
  if (error?.['code'] === 'context_length_exceeded' || error?.['type'] === 'exceed_context_size_error') return true
  return /maximum context length|exceeds? the (available|maximum|model's) context/i.test(message)
}

/** By these words and this reason clients of the convention know that the prompt must be shorter. */
function explainOverflow(message: string, contextTokens: number | null): Failure {
  const phrase = "This model's maximum context length is "
  const at = message.indexOf(phrase)
  const known = contextTokens ?? /(\d+) tokens/.exec(message)?.[1] ?? 'smaller than the prompt needs in'
  const words = at === -1 ? `${phrase}${known} tokens. ${message}` : message.slice(at)
  return fail('context_length_exceeded', { message: words.slice(0, 1_000) })
}

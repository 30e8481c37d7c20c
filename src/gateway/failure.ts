/** Engine failures for customers. Which engine failed, and its own message, stay internal. */
import { fail, failField, type Failure } from '../contract/result.ts'
import type { UpstreamFailure } from './upstream/upstream-call.ts'
import { parseObject } from './dialect/usage.ts'

const RETRY_MS = 1_000

export function explainFailure(failure: UpstreamFailure, model: string): Failure {
  const retryAfterMs = failure.retryAfterMs ?? RETRY_MS
  switch (failure.kind) {
    case 'no_deployment':
      return fail('no_deployment', { model, retryAfterMs })
    case 'queue_full':
      return fail('model_queue_full', { model, retryAfterMs })
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

/** Statuses of faults in the request itself. */
const clientFaults = new Set([400, 413, 422])

/** An engine refused: for a reason of the request, which the client may read, or for one of the operator's. */
export function explainRefusal(
  status: number,
  body: string,
  { name: model, contextTokens }: { readonly name: string; readonly contextTokens: number | null },
): Failure {
  if (!clientFaults.has(status)) {
    return fail('upstream_error', { model, retryAfterMs: RETRY_MS })
  }
  const answer = parseObject(Buffer.from(body, 'latin1').toString('utf8'))
  const error = (typeof answer?.['error'] === 'object' ? answer['error'] : answer) as
    | Record<string, unknown>
    | undefined
  const message = typeof error?.['message'] === 'string' ? error['message'] : 'The engine refused the request'
  const param = typeof error?.['param'] === 'string' ? error['param'] : undefined
  if (error?.['code'] === 'sound_damaged') return failField(['file'], 'sound_damaged')
  if (isOverflow(error, message)) return explainOverflow(message, contextTokens)
  return fail('rejected_by_model', {
    message: message.slice(0, 1_000),
    ...(param === undefined ? {} : { field: [param] }),
  })
}

/** Engines report it as a code, a type, or only in the message. */
function isOverflow(error: Readonly<Record<string, unknown>> | undefined, message: string): boolean {
  if (error?.['code'] === 'context_length_exceeded' || error?.['type'] === 'exceed_context_size_error') return true
  return /maximum context length|exceeds? the (available|maximum|model's) context/i.test(message)
}

/** OpenAI clients recognize this phrase and reason, and shorten the prompt. */
function explainOverflow(message: string, contextTokens: number | null): Failure {
  const phrase = "This model's maximum context length is "
  const at = message.indexOf(phrase)
  const limitText = contextTokens ?? /(\d+) tokens/.exec(message)?.[1] ?? 'smaller than the prompt needs in'
  const text = at === -1 ? `${phrase}${limitText} tokens. ${message}` : message.slice(at)
  return fail('context_length_exceeded', { message: text.slice(0, 1_000) })
}

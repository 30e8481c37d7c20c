/** Errors of the Messages API, with the types and statuses that its clients have classes for. */
import { z } from 'zod'
import type { ErrorForm, ErrorPage, Fault } from './error-form.ts'

const messageError = z
  .object({
    type: z.literal('error'),
    error: z.object({ type: z.string(), message: z.string() }),
    request_id: z.string().nullable(),
    reason: z.string().optional(),
  })
  .meta({ id: 'MessageError' })

export const messageErrorForm: ErrorForm = {
  name: 'message',
  requestIdHeader: 'request-id',
  schemaOf: () => messageError,
  write: writeMessageError,
  writeInvalid: (part, issues) => {
    const faults = issues.map(({ path, message }) => `${path.join('.') || part}: ${message}`)
    return writeMessageError({ status: 400, message: faults.slice(0, MAX_FAULTS).join('; ') || 'Invalid input' })
  },
}

const MAX_FAULTS = 10

/** The statuses of reasons for which ours says less than clients want to know. */
const statuses: Readonly<Record<string, number>> = {
  model_not_found: 404,
  overloaded: 529,
  model_loading: 529,
  server_busy: 529,
  engine_timeout: 504,
}

const types: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  415: 'invalid_request_error',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
}

/** The type of an error by its reason alone, for errors within a stream. */
export function messageErrorType(reason: string): string {
  return types[statuses[reason] ?? 500] ?? 'api_error'
}

function writeMessageError({ status: ownStatus, message, reason }: Fault): ErrorPage {
  const status = statuses[reason ?? ''] ?? (ownStatus === 422 ? 400 : ownStatus)
  const isTooLong = reason === 'context_length_exceeded'
  return {
    status,
    body: {
      type: 'error',
      // Agents recognize these words and shorten the conversation.
      error: { type: types[status] ?? 'api_error', message: isTooLong ? `prompt is too long: ${message}` : message },
      request_id: null,
      ...(reason === undefined ? {} : { reason }),
    },
  }
}

/** Errors of the Responses API: one object, with the texts in `code` that its clients branch on. */
import type { Issue } from '../base/issue.ts'
import { z } from 'zod'
import { openaiForm, type ErrorForm, type ErrorPage, type Fault } from './error-form.ts'

const responseError = z
  .object({
    error: z.object({
      message: z.string(),
      type: z.string(),
      param: z.string().nullable(),
      code: z.string().nullable(),
    }),
    reason: z.string().optional(),
  })
  .meta({ id: 'ResponseError' })

export const responseErrorForm: ErrorForm = {
  name: 'response',
  schemaOf: () => responseError,
  write: writeResponseError,
  writeInvalid: (part, issues) => {
    const [first] = issues
    const faults = issues.map(({ path, message }) => `${paramOf(path) || part}: ${message}`)
    const message = faults.slice(0, MAX_FAULTS).join('; ') || 'Invalid input'
    return writeResponseError({ status: 400, message, ...(first === undefined ? {} : { issues: [first] }) })
  },
}

const MAX_FAULTS = 10

/** Codes of errors within a stream, where there is no status. */
const streamCodes = new Set(['context_length_exceeded', 'model_not_found'])

/** The code of an error by its reason alone, for errors within a stream. */
export function responseErrorCode(reason: string): string {
  return streamCodes.has(reason) ? reason : 'server_error'
}

/** The statuses of reasons for which ours says less than clients want to know. */
const statuses: Readonly<Record<string, number>> = { model_not_found: 404 }

function writeResponseError(fault: Fault): ErrorPage {
  const status = statuses[fault.reason ?? ''] ?? (fault.status === 422 ? 400 : fault.status)
  const page = openaiForm.write({ ...fault, status })
  const { error } = page.body as { error: { message: string; type: string; code: string | null } }
  const [issue] = fault.issues ?? []
  // The whole body has no name.
  const param = paramOf(issue?.path ?? [])
  return {
    status,
    body: {
      error: { ...error, param: param === '' ? null : param },
      ...(fault.reason === undefined ? {} : { reason: fault.reason }),
    },
  }
}

/** Positions in lists are in brackets: `input[3].type`. */
function paramOf(path: Issue['path']): string {
  return path.reduce<string>(
    (text, step) => (typeof step === 'number' ? `${text}[${step}]` : text === '' ? step : `${text}.${step}`),
    '',
  )
}

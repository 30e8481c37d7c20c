/** The forms of error bodies. An operation has the form of its family, unless its protocol has one of its own. */
import type { z } from 'zod'
import type { Issue } from '../base/issue.ts'
import { openaiError, v1Error, v2Codes, v2Error, type V2Status } from './error.ts'

/** v1 and v2 have different error bodies and statuses. */
export type Family = 'v1' | 'v2'

export interface ErrorForm {
  readonly name: string
  /** Clients of its protocol look for the request id in this header too. */
  readonly requestIdHeader?: string
  readonly schemaOf: (status: number) => z.ZodObject
  /** The body contains the reason as `reason`, in every form. */
  readonly write: (fault: Fault) => ErrorPage
  /** Writes the answer to input that the contract's schema rejects, with all faults. */
  readonly writeInvalid: (part: InputPart, issues: readonly InputIssue[]) => ErrorPage
}

export interface Fault {
  /** The status that v1 and v2 have for it. */
  readonly status: number
  readonly message: string
  readonly reason?: string | undefined
  readonly issues?: readonly Issue[] | undefined
}

export interface ErrorPage {
  readonly status: number
  /** A form with `request_id` in its body leaves it null: whoever sends the page knows it. */
  readonly body: Record<string, unknown>
}

export type InputPart = 'body' | 'query' | 'path'

export interface InputIssue extends Issue {
  /** Missing, mistyped or unknown, as opposed to out of range. */
  readonly malformed: boolean
  readonly input: unknown
}

export const v2Form: ErrorForm = {
  name: 'v2',
  schemaOf: v2Schema,
  write: writeV2,
  writeInvalid: (_part, issues) => writeV2({ status: 400, message: 'Input validation failed', issues }),
}

const v2Schemas = new Map<number, z.ZodObject>()

function v2Schema(status: number): z.ZodObject {
  if (!(status in v2Codes)) throw new Error(`v2 has no error with status ${status}`)
  const schema = v2Schemas.get(status) ?? v2Error(status as V2Status)
  v2Schemas.set(status, schema)
  return schema
}

function writeV2({ status, message, reason, issues }: Fault): ErrorPage {
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

export const v1Form: ErrorForm = {
  name: 'v1',
  schemaOf: () => v1Error,
  write: writeV1,
  /** 422 with `detail` if a field is missing, mistyped or unknown; 400 if out of range. */
  writeInvalid: (part, issues) => {
    const status = issues.some((issue) => issue.malformed) ? 422 : 400
    const page = writeV1({ status, message: describeFirst(part, issues), issues })
    const detail = issues.map((issue) => ({
      type: issue.message === 'Required' ? 'missing' : issue.code,
      loc: [part, ...issue.path],
      msg: issue.message,
      input: issue.input,
    }))
    return { ...page, body: { ...page.body, detail } }
  },
}

function describeFirst(part: InputPart, [first]: readonly InputIssue[]): string {
  return first === undefined ? 'Input validation failed' : `${first.path.join('.') || part}: ${first.message}`
}

/**
 * For operations of OpenAI's API that the published interface does not fix: its clients branch on the text in `error.code`.
 * The numbers stay beside it.
 */
export const openaiForm: ErrorForm = {
  name: 'openai',
  schemaOf: () => openaiError,
  write: (fault) => withTextCode(writeV1(fault), openaiCode(fault)),
  writeInvalid: (part, issues) => withTextCode(v1Form.writeInvalid(part, issues), null),
}

function withTextCode({ status, body }: ErrorPage, code: string | null): ErrorPage {
  return { status, body: { ...body, error: { ...(body['error'] as object), code } } }
}

const openaiCodes: Readonly<Record<number, string>> = {
  401: 'invalid_api_key',
  402: 'insufficient_quota',
  429: 'rate_limit_exceeded',
}

function openaiCode({ status, reason }: Pick<Fault, 'status' | 'reason'>): string | null {
  return openaiCodes[status] ?? (status >= 500 ? 'server_error' : (reason ?? null))
}

export const errorForms: Readonly<Record<Family, ErrorForm>> = { v1: v1Form, v2: v2Form }

/** Asked for by the server alone: its schemas would double what a command or the console loads first. */
export function errorFormOf({
  family,
  errorForm,
}: {
  readonly family: Family
  readonly errorForm?: ErrorForm
}): ErrorForm {
  return errorForm ?? errorForms[family]
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

function writeV1({ status, message, reason, issues }: Fault): ErrorPage {
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

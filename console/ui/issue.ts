/** What a server's refusal says about single fields of a form. */
import { ApiError, type ClientError } from '../../src/client/error.ts'

/** What is wrong with this field, if that is what the server said. */
export function issueOf(error: ClientError | null, field: string): string | undefined {
  if (!(error instanceof ApiError)) return undefined
  return error.issues.find((issue) => issue.path[0] === field)?.message
}

/** The refusal, unless it is told at one of these fields already. */
export function errorBeside(error: ClientError | null, fields: readonly string[]): ClientError | null {
  return fields.some((field) => issueOf(error, field) !== undefined) ? null : error
}

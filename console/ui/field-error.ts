/** What the server said about single fields of a form, so that it stands where one can mend it. */
import { ApiError, type ClientError } from '../../src/client/error.ts'

/** Of the field with this path in the body: `fieldError(error, 'hardware.cpuCores')`. */
export function fieldError(error: ClientError | null, path: string): string | undefined {
  if (!(error instanceof ApiError)) return undefined
  return error.issues.find((issue) => issue.path.join('.') === path)?.message
}

/** What no field of the form shows: the whole error, unless each of its issues has its place. */
export function errorBesideFields(error: ClientError | null, paths: readonly string[]): ClientError | null {
  if (!(error instanceof ApiError) || error.issues.length === 0) return error
  return error.issues.every((issue) => paths.includes(issue.path.join('.'))) ? null : error
}

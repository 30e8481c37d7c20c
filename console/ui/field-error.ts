/** What the server said about single fields of a form, so that it stands where one can mend it. */
import { ApiError, type ClientError } from '../../src/client/error.ts'

type Issue = ApiError['issues'][number]

/** Of the field with this path in the body, or of what is in it: `fieldError(error, 'hardware.cpuCores')`. */
export function fieldError(error: ClientError | null, path: string): string | undefined {
  if (!(error instanceof ApiError)) return undefined
  return error.issues.find((issue) => isAt(issue, path))?.message
}

/** What no field of the form shows: the whole error, unless each of its issues has its place. */
export function errorBesideFields(error: ClientError | null, paths: readonly string[]): ClientError | null {
  if (!(error instanceof ApiError) || error.issues.length === 0) return error
  return error.issues.every((issue) => paths.some((path) => isAt(issue, path))) ? null : error
}

/** A list has one field for all that is in it. */
function isAt(issue: Issue, path: string): boolean {
  const at = issue.path.join('.')
  return at === path || at.startsWith(`${path}.`)
}

/**
 * Listeners for what others send: tenants, hosts, vendors, browsers. Node ends the process when a listener throws, and
 * with it the work of everyone else; a contained listener ends only the connection that it belongs to. The error is a
 * defect all the same, so it is a warning of the process, which Node writes to standard error with its stack.
 */
import { makeLineLimit } from './line-limit.ts'

/** Outsiders can cause the same defect at will. */
const MAX_WARNINGS_PER_MINUTE = 12
const CONTAINED = 'BERTH_CONTAINED'
const warnings = makeLineLimit({ perMinute: MAX_WARNINGS_PER_MINUTE })

/**
 * Wraps a listener. `end` closes the connection and receives the listener's arguments; it must be safe to call at any
 * time.
 */
export function contained<Args extends unknown[]>(
  end: (error: Error, args: NoInfer<Args>) => unknown,
  listener: (...args: Args) => unknown,
): (...args: Args) => void {
  return (...args) => {
    try {
      listener(...args)
    } catch (thrown) {
      end(reportContained(thrown), args)
    }
  }
}

function reportContained(thrown: unknown): Error {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown))
  const more = warnings.take('')
  if (more !== undefined) {
    const detail = `${error.stack ?? error.message}${more.leftOut === undefined ? '' : `\n${more.leftOut} more before`}`
    process.emitWarning('a connection was closed after an error in its listener', { code: CONTAINED, detail })
  }
  return error
}

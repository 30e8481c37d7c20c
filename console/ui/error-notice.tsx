/** What went wrong, in the server's own sentence, and what to do about it. */
import { ApiError, isRefusal, type ClientError } from '../../src/client/error.ts'
import { Button } from './button.tsx'

interface ErrorNoticeProps {
  readonly error: ClientError
  readonly onRetry?: (() => void) | undefined
  /** It was a read, which goes on by itself. What was to be changed is not sent again by anybody. */
  readonly isRead?: boolean
}

export function ErrorNotice({ error, onRetry, isRead = false }: ErrorNoticeProps) {
  const requestId = shownRequestOf(error)
  const next = nextStep(error, isRead)
  return (
    <div role="alert" className="rounded-md border border-bad bg-bad-soft px-4 py-3 text-sm text-ink">
      <p className="font-medium text-bad">{sentenceOf(error)}</p>
      {next !== undefined && <p className="mt-1">{next}</p>}
      {requestId !== undefined && (
        <p className="mt-1 text-muted">
          Request <code className="font-mono">{requestId}</code>
        </p>
      )}
      {onRetry !== undefined && (
        <Button className="mt-2" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  )
}

/** What the operator can look up in the log. */
function shownRequestOf(error: ClientError): string | undefined {
  return error instanceof ApiError && error.status >= 500 ? error.requestId : undefined
}

/** What the server says of keys that nobody has seen would help nobody. */
function sentenceOf(error: ClientError): string {
  return isRefusal(error, 'idempotency_key_reused')
    ? 'Your first try went through, though its answer was lost.'
    : error.message
}

function nextStep(error: ClientError, isRead: boolean): string | undefined {
  if (error instanceof ApiError) {
    if (error.status === 429) return 'Wait a moment, then try again.'
    if (error.status >= 500) {
      return `If it keeps failing, tell the operator${error.requestId === undefined ? '' : ' the request below'}.`
    }
    return undefined
  }
  const again = isRead ? '; the page goes on by itself when it is back' : ', then try again'
  return error.kind === 'unreachable' || error.kind === 'timeout'
    ? `Look whether the server runs and your network is there${again}.`
    : undefined
}

/** An error: the server's sentence and the next step. */
import { ApiError, isRefusal, type ClientError } from '../../src/client/error.ts'
import { Button } from './button.tsx'

interface ErrorNoticeProps {
  readonly error: ClientError
  readonly onRetry?: (() => void) | undefined
  /** A read, which is repeated automatically. */
  readonly isRead?: boolean
}

export function ErrorNotice({ error, onRetry, isRead = false }: ErrorNoticeProps) {
  const requestId = shownRequestOf(error)
  const next = nextStep(error, isRead)
  return (
    <div role="alert" className="rounded-md border border-bad bg-bad-soft px-4 py-3 text-sm text-ink">
      <p className="font-medium text-bad">{sentenceOf(error)}</p>
      {next !== undefined && <p className="mt-1">{next}</p>}
      {isRefusal(error, 'terms_not_accepted') && (
        <p className="mt-1">
          {/* In another tab: this one keeps what was typed. The step-up dialog is outside of the router. */}
          <a href="/terms" target="_blank" rel="noopener" className="font-medium underline">
            Read and accept the terms
          </a>
        </p>
      )}
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

/** Returns the request id that helps the operator to find the error in the log. */
function shownRequestOf(error: ClientError): string | undefined {
  return error instanceof ApiError && error.status >= 500 ? error.requestId : undefined
}

/** Users do not know about idempotency keys. */
function sentenceOf(error: ClientError): string {
  return isRefusal(error, 'idempotency_key_reused')
    ? 'Your first attempt succeeded, but its response was lost.'
    : error.message
}

function nextStep(error: ClientError, isRead: boolean): string | undefined {
  if (error instanceof ApiError) {
    if (error.status === 429) return 'Wait a moment, then try again.'
    if (error.status >= 500) {
      return `If this keeps happening, contact the operator${error.requestId === undefined ? '' : ' and mention the request below'}.`
    }
    return undefined
  }
  const retryHint = isRead ? '. The page recovers automatically.' : ', then try again.'
  return error.kind === 'unreachable' || error.kind === 'timeout'
    ? `Check your network and whether the server is running${retryHint}`
    : undefined
}

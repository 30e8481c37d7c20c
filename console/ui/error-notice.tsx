/** What went wrong, in the server's own sentence, and what to do about it. */
import { ApiError, type ClientError } from '../../src/client/error.ts'
import { Button } from './button.tsx'

interface ErrorNoticeProps {
  readonly error: ClientError
  readonly onRetry?: (() => void) | undefined
}

export function ErrorNotice({ error, onRetry }: ErrorNoticeProps) {
  const next = nextStep(error)
  return (
    <div role="alert" className="rounded-md border border-bad bg-bad-soft px-4 py-3 text-sm text-ink">
      <p className="font-medium text-bad">{error.message}</p>
      {next !== undefined && <p className="mt-1">{next}</p>}
      {error instanceof ApiError && error.requestId !== undefined && error.status >= 500 && (
        <p className="mt-1 text-muted">
          Request <code className="font-mono">{error.requestId}</code>
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

const byReason: Readonly<Record<string, string>> = {
  missing_scope: 'Sign in with a key that has this scope, or ask an owner of the account to make one.',
  insufficient_balance: 'Add money to the account or end something that runs.',
  insufficient_funds: 'Add money to the account or end something that runs.',
  session_ended: 'Sign in again.',
  engine_failed: 'Try again. If it stays like this, tell the operator the request below.',
  model_loading: 'Wait a moment and try again: it is being downloaded or started.',
  no_deployment: 'Choose another model, or ask the operator to start a server for this one.',
  engine_timeout: 'Try again. If it stays like this, tell the operator the request below.',
}

function nextStep(error: ClientError): string | undefined {
  if (error instanceof ApiError) {
    if (error.reason !== undefined && byReason[error.reason] !== undefined) return byReason[error.reason]
    if (error.status === 402) return 'Add money to the account or end something that runs.'
    if (error.status === 429) return 'Wait a moment; it can be asked again soon.'
    if (error.status >= 500) return 'Nothing is lost. If it stays like this, tell the operator the request below.'
    return undefined
  }
  return error.kind === 'unreachable' || error.kind === 'timeout'
    ? 'Look whether the server runs and your network is there; the page goes on by itself when it is back.'
    : undefined
}

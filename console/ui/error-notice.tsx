/** What went wrong, in the server's own sentence, and what to do about it. */
import { ApiError, type ClientError } from '../../src/client/error.ts'
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

const byReason: Readonly<Record<string, string>> = {
  missing_scope: 'Sign in with a key that has this scope, or ask an owner of the account to make one.',
  insufficient_balance: 'Add money to the account or end something that runs.',
  insufficient_funds: 'Add money to the account or end something that runs.',
  session_ended: 'Sign in again.',
  idempotency_key_reused: 'Look at what is there before you try again: the next try makes another one.',
  account_suspended: 'You can sign in with a key of another account meanwhile.',
  model_loading: 'Wait a moment and try again: it is being downloaded or started.',
  no_deployment: 'Choose another model, or ask the operator to start a server for this one.',
}

/** What the server says of keys that nobody has seen would help nobody. */
function sentenceOf(error: ClientError): string {
  return error instanceof ApiError && error.reason === 'idempotency_key_reused'
    ? 'Your first try went through, though its answer was lost.'
    : error.message
}

function nextStep(error: ClientError, isRead: boolean): string | undefined {
  if (error instanceof ApiError) {
    const told = shownRequestOf(error) === undefined ? 'the operator' : 'the operator the request below'
    if (error.reason === 'engine_failed' || error.reason === 'engine_timeout') {
      return `Try again. If it stays like this, tell ${told}.`
    }
    if (error.reason !== undefined && byReason[error.reason] !== undefined) return byReason[error.reason]
    if (error.status === 402) return 'Add money to the account or end something that runs.'
    if (error.status === 429) return 'Wait a moment; it can be asked again soon.'
    if (error.status >= 500) return `Nothing is lost. If it stays like this, tell ${told}.`
    return undefined
  }
  const again = isRead ? '; the page goes on by itself when it is back' : ', then try again'
  return error.kind === 'unreachable' || error.kind === 'timeout'
    ? `Look whether the server runs and your network is there${again}.`
    : undefined
}

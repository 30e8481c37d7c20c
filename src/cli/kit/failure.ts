/** Errors as text for people: what happened, and the next step. One exhaustive switch covers the client's errors. */
import path from 'node:path'
import { assertNever } from '../../base/assert-never.ts'
import { ApiError, isClientError, isRefusal, type ClientError } from '../../client/error.ts'
import type { Reason } from '../../contract/reason/reasons.ts'
import { isLocal, type Session, type Who } from '../rental/session.ts'
import { paint, printable } from './screen.ts'
import { CliError, exitCodes, type ExitCode, type Shell } from './shell.ts'

/** Turns an error of the client into one with a next step. Others pass through. */
export function explain(error: unknown, session: Session): unknown {
  return isClientError(error) ? explainCall(error, session) : error
}

function explainCall(error: ClientError, session: Session): CliError {
  const { url } = session.client
  switch (error.kind) {
    case 'unreachable':
      return new CliError(exitCodes.unreachable, `${error.message}.`, howToReach(url))
    case 'timeout':
      return new CliError(exitCodes.unreachable, `${error.message}.`, ['To check the server: berth status'])
    case 'garbled':
      return new CliError(exitCodes.unreachable, `${error.message}.`, ['Check --url or BERTH_URL.'])
    case 'aborted':
      return new CliError(exitCodes.failed, `${error.message}.`)
    case 'api':
      return explainRefusal(error, session)
    default:
      return assertNever(error)
  }
}

function howToReach(url: string): string[] {
  const elsewhere = 'To use another server: --url or BERTH_URL.'
  return isLocal(url) ? ['To start a server: berth serve (in a checkout: npm start).', elsewhere] : [elsewhere]
}

function explainRefusal(error: ApiError, session: Session): CliError {
  const { message, status, requestId } = error
  if (status === 401) return refusalOf(error, exitCodes.refused, whereKeysAre(session))
  if (isRefusal(error, 'missing_scope')) return refusalOf(error, exitCodes.refused, whichKey(session, message))
  const steps = stepsFor(error, session.who)
  if (steps === undefined && status >= 500) return refusalOf(error, exitCodes.failed, [whereToLook(requestId)])
  return refusalOf(error, status === 403 && steps === undefined ? exitCodes.refused : exitCodes.failed, steps ?? [])
}

/** A proxy in front of the server sends no request id. */
function whereToLook(requestId: string | undefined): string {
  return requestId === undefined
    ? 'The response has no request id, so a proxy may have sent it: see its log and the server log.'
    : `See request ${requestId} in the server log.`
}

export function refusalOf(error: ApiError, exitCode: ExitCode, next: readonly string[]): CliError {
  const { message, status, code, reason, requestId } = error
  return new CliError(exitCode, sentence(message), next, { status, code, reason, requestId })
}

/** Commands that help after a refusal. The server's message already says what to do. */
const nextSteps: Readonly<Partial<Record<Reason, readonly string[]>>> = {
  insufficient_balance: [
    'To see the balance: berth balance',
    'The operator adds money with: berth operator credit ACCOUNT USD --reason TEXT',
  ],
  quota_exceeded: ['The operator raises a quota with: berth operator accounts set'],
  no_ssh_key: ['To add one: berth ssh-keys add ~/.ssh/id_ed25519.pub'],
  template_secrets_not_named: ['To let the template use a secret, add: --allow-secret NAME'],
  price_changed: ['To see the current prices: berth gpus ls'],
  simulated_machine: ['To try a real machine, offer this one: berth agent run --simulate-gpus rtx4090:2'],
  account_not_found: ['To list accounts: berth operator accounts ls'],
  supplier_not_found: ['To list accounts: berth operator accounts ls. A platform fee makes one a supplier.'],
  model_exists: [
    'To add a server that runs it: berth operator upstreams create',
    'To change its prices: berth models price',
  ],
  volume_attached: ['To detach it: berth volumes detach VOLUME'],
  budget_exceeded: ['To see the budgets: berth budgets ls', 'To raise one: berth budgets set BUDGET --monthly USD'],
  mail_not_configured: ['To see the mail server: berth operator mail status'],
  key_spending_limit: ['To see the limits of your keys: berth keys ls'],
}

/** Next steps for an operator, whose command may concern another account. */
const operatorSteps: typeof nextSteps = {
  insufficient_balance: ['To see the balance: berth operator accounts show ACCOUNT'],
}

export function stepsFor(error: ApiError, who: Who): readonly string[] | undefined {
  const reason = error.reason as Reason
  return (who === 'operator' ? operatorSteps[reason] : undefined) ?? nextSteps[reason]
}

/**
 * Runs a call that carries an idempotency key. If its outcome is unknown, the error shows how to repeat the command
 * safely. A refused connection counts as unknown too: it may have been the second attempt.
 */
export async function withRetryHint<T>(work: Promise<T>, session: Session, key: string, command: string): Promise<T> {
  return withCheckHint(work, session, `To retry without doing it twice: ${command} --idempotency-key ${key}`)
}

/** The same for a command without such a flag: `check` tells how to find out what happened. */
export async function withCheckHint<T>(work: Promise<T>, session: Session, check: string): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw afterUnknownOutcome(error, session, check)
  }
}

function afterUnknownOutcome(error: unknown, session: Session, hint: string): unknown {
  if (!isClientError(error) || (error instanceof ApiError && error.status < 500)) return error
  const { exitCode, message, next, detail } = explainCall(error, session)
  return new CliError(exitCode, message, [`It may have been done. ${hint}`, ...next], detail)
}

function whereKeysAre({ keyFrom, dataDir, client, profile }: Session): string[] {
  const keys = `${path.join(dataDir, 'operator.key')} and ${path.join(dataDir, 'demo.key')}`
  return [
    `The API key is from ${keyFrom ?? 'nowhere'}.`,
    ...(profile === undefined ? [] : [`To log in again: berth login --profile ${profile}`]),
    isLocal(client.url)
      ? `The keys of a local server are in ${keys}; each server has its own.`
      : 'Ask the operator of the server for an API key.',
  ]
}

function whichKey({ keyFrom, dataDir, client }: Session, message: string): string[] {
  const from = `The API key is from ${keyFrom ?? 'nowhere'}.`
  // Operators can run suppliers' commands too; a supplier's key lacks a different scope.
  return isLocal(client.url) && message.includes('operator')
    ? [`${from} This is an operator's command: add --key-file ${path.join(dataDir, 'operator.key')}`]
    : [`${from} Use a key with that scope.`]
}

export function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}

/** Prints the error and returns the exit code. */
export function report(shell: Shell, error: unknown, json: boolean): ExitCode {
  const cliError = error instanceof CliError ? error : unexpected(shell, error)
  const { message, next, detail } = cliError
  if (json) {
    shell.writeError(`${JSON.stringify({ error: { message, ...detail, next } })}\n`)
  } else {
    const label = paint(shell.color.error, 'red', 'error:')
    shell.writeError(
      `${[`${label} ${printable(message)}`, ...next.map((line) => `  ${printable(line)}`)].join('\n')}\n`,
    )
  }
  return cliError.exitCode
}

/** Most unexpected errors concern files and sockets, so the stack is shown only on request. */
function unexpected(shell: Shell, error: unknown): CliError {
  if ((shell.env['BERTH_DEBUG'] ?? '') !== '') throw error
  const message = error instanceof Error && error.message !== '' ? error.message : String(error)
  return new CliError(exitCodes.failed, sentence(message), ['To see the stack trace, set BERTH_DEBUG=1.'])
}

/** Failures in words: what is wrong, and the next step. One exhaustive switch over the kinds of the client's errors. */
import path from 'node:path'
import { assertNever } from '../base/assert-never.ts'
import { ApiError, isClientError, isRefusal, type ClientError } from '../client/error.ts'
import type { Reason } from '../contract/reasons.ts'
import { isLocal, type Session } from './session.ts'
import { paint, printable } from './screen.ts'
import { CliError, exitCodes, type ExitCode, type Shell } from './shell.ts'

/** What a command threw, as something to tell. Surprises pass through. */
export function explain(error: unknown, session: Session): unknown {
  return isClientError(error) ? explainCall(error, session) : error
}

function explainCall(error: ClientError, session: Session): CliError {
  const { url } = session.client
  switch (error.kind) {
    case 'unreachable':
      return new CliError(exitCodes.unreachable, `${error.message}.`, howToReach(url))
    case 'timeout':
      return new CliError(exitCodes.unreachable, `${error.message}.`, ['berth status says whether it is ready.'])
    case 'garbled':
      return new CliError(exitCodes.unreachable, `${error.message}.`, ['Is --url (or BERTH_URL) right?'])
    case 'aborted':
      return new CliError(exitCodes.failed, `${error.message}.`)
    case 'api':
      return explainRefusal(error, session)
    default:
      return assertNever(error)
  }
}

function howToReach(url: string): string[] {
  const elsewhere = 'Another server is named with --url or BERTH_URL.'
  return isLocal(url) ? ['Start one with: berth serve (in a checkout: npm start).', elsewhere] : [elsewhere]
}

function explainRefusal(error: ApiError, session: Session): CliError {
  const { message, status, requestId } = error
  const told = (exitCode: ExitCode, next: readonly string[]): CliError => refusalOf(error, exitCode, next)
  if (status === 401) return told(exitCodes.refused, whereKeysAre(session))
  if (isRefusal(error, 'missing_scope')) return told(exitCodes.refused, whichKey(session, message))
  const known = stepsFor(error, nextSteps)
  if (status === 403 && known === undefined) return told(exitCodes.refused, [])
  if (known !== undefined) return told(exitCodes.failed, known)
  if (status >= 500) return told(exitCodes.failed, [whereToLook(requestId)])
  return told(exitCodes.failed, [])
}

/** Something between here and the server may have answered, and has no request id. */
function whereToLook(requestId: string | undefined): string {
  return requestId === undefined
    ? 'The answer has no request id, so a proxy may have sent it: see its log and that of the server.'
    : `The server's log has more under the request id ${requestId}.`
}

/** What a refusal of the server becomes; `words` stand for its own. */
export function refusalOf(error: ApiError, exitCode: ExitCode, next: readonly string[], words?: string): CliError {
  const { message, status, code, reason, requestId } = error
  return new CliError(exitCode, words ?? sentence(message), next, { status, code, reason, requestId })
}

/** Commands that help after a refusal, by its reason. The server's message already says what to do. */
export type NextSteps = Readonly<Partial<Record<Reason, readonly string[]>>>

const nextSteps: NextSteps = {
  account_not_found: ['List the accounts with: berth operator accounts'],
  insufficient_balance: [
    'Show the balance with: berth balance',
    'The operator adds money with: berth operator credit ACCOUNT USD --reason TEXT',
  ],
  quota_exceeded: ['The operator raises a quota with: berth operator accounts change'],
  no_ssh_key: ['Add one with: berth ssh-keys add ~/.ssh/id_ed25519.pub'],
  price_changed: ['Show the current prices with: berth gpus'],
  simulated_machine: ['Offer this machine as a real one with: berth agent run --simulate-gpus rtx4090:2'],
  volume_attached: ['Detach it with: berth volumes detach VOLUME'],
}

function stepsFor(error: ApiError, steps: NextSteps): readonly string[] | undefined {
  return steps[error.reason as Reason]
}

/** Runs a call; a refusal for one of these reasons is told with a next step of the command's own. */
export async function withNextStep<T>(work: Promise<T>, next: NextSteps): Promise<T> {
  try {
    return await work
  } catch (error) {
    const steps = error instanceof ApiError ? stepsFor(error, next) : undefined
    if (!(error instanceof ApiError) || steps === undefined) throw error
    throw refusalOf(error, exitCodes.failed, steps)
  }
}

/**
 * Runs a call that carries an idempotency key. Where nobody knows what the server did, the error tells the way that
 * never does it twice: `again` says what to add to the same command, or where to look first. A refused connection is no
 * exception, since it may have been the second try.
 */
export async function withWayAgain<T>(work: Promise<T>, session: Session, again: string): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!isClientError(error) || (error instanceof ApiError && error.status < 500)) throw error
    const { exitCode, message, next, detail } = explainCall(error, session)
    throw new CliError(exitCode, message, [`It may have been done. ${again}`, ...next], detail)
  }
}

function whereKeysAre({ keyFrom, dataDir, client, profile }: Session): string[] {
  const keys = `${path.join(dataDir, 'operator.key')} and ${path.join(dataDir, 'demo.key')}`
  return [
    `The key came from ${keyFrom ?? 'nowhere'}.`,
    ...(profile === undefined ? [] : [`Log in again with: berth login --profile ${profile}`]),
    isLocal(client.url)
      ? `The keys of a server that was started here are in ${keys}; each server has its own.`
      : 'Ask the operator of that server for a key.',
  ]
}

function whichKey({ keyFrom, dataDir, who }: Session, message: string): string[] {
  const from = `The key came from ${keyFrom ?? 'nowhere'}.`
  // What suppliers do, the operator can do too; a supplier's key is missing something else.
  return who === 'operator' && message.includes('operator')
    ? [`${from} This is an operator's command: add --key-file ${path.join(dataDir, 'operator.key')}`]
    : [`${from} Use a key with that scope.`]
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}

/** Tells it on the error side, and gives the exit code. */
export function report(shell: Shell, error: unknown, json: boolean): ExitCode {
  const told = error instanceof CliError ? error : surprise(shell, error)
  const { message, next, detail } = told
  if (json) {
    shell.writeError(`${JSON.stringify({ error: { message, ...detail, next } })}\n`)
  } else {
    const label = paint(shell.colour.error, 'red', 'error:')
    shell.writeError(
      `${[`${label} ${printable(message)}`, ...next.map((line) => `  ${printable(line)}`)].join('\n')}\n`,
    )
  }
  return told.exitCode
}

/** What nothing above has words for. A stack is for those who ask for it: most of these are files and sockets. */
function surprise(shell: Shell, error: unknown): CliError {
  if ((shell.env['BERTH_DEBUG'] ?? '') !== '') throw error
  const message = error instanceof Error && error.message !== '' ? error.message : String(error)
  return new CliError(exitCodes.failed, sentence(message), [
    'With BERTH_DEBUG=1 the same command shows where it failed.',
  ])
}

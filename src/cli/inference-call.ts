/**
 * Calls of models, as `chat`, `image` and `speak` make them: the typed client hides the header that names a request,
 * and reads no streams but that of events. A refusal is told with the models that can be called instead.
 */
import { nanoUsdOf, type NanoUsd } from '../base/money.ts'
import { api } from '../contract/api.ts'
import type { Client, Reply } from '../client/client.ts'
import { ApiError, apiErrorOf, TransportError, unreachable } from '../client/error.ts'
import { pause } from '../client/pause.ts'
import type { Session } from './session.ts'
import { CliError, exitCodes } from './shell.ts'

/** A picture of the largest size travels as one line. */
const LINE_CHARS = 64 * 1_048_576
/** On another server than the one that has answered, a cost is known within a second. */
const COST_TRIES = 8
const COST_EVERY_MS = 250
/** Names in a sentence. */
const NAMES = 8

type ModelOperation = 'createChatCompletion' | 'generateImage' | 'generateAudio'
type ModelKind = NonNullable<Reply<'listModels'>['data'][number]['kind']>

export interface ModelCall {
  readonly operation: ModelOperation
  readonly body: Readonly<Record<string, unknown>>
  /** Calls of one conversation find their beginning in the same engine's cache. */
  readonly sessionId?: string
  readonly signal?: AbortSignal
}

export interface ModelAnswer {
  readonly requestId: string
  readonly response: Response
}

export async function callModel({ client, key }: Session, call: ModelCall): Promise<ModelAnswer> {
  const { operation, body, sessionId, signal } = call
  const { method, path } = api[operation]
  const headers = {
    Authorization: `Bearer ${key}`,
    'Content-Type': 'application/json',
    ...(sessionId === undefined ? {} : { 'X-Session-Id': sessionId }),
  }
  const init = { method, headers, body: JSON.stringify(body), ...(signal === undefined ? {} : { signal }) }
  const response = await fetch(`${client.url}${path}`, init).catch((error: unknown) => {
    throw cut(client, error, signal)
  })
  if (!response.ok) throw apiErrorOf(response.status, response.headers, await response.text())
  return { requestId: response.headers.get('x-inference-request-id') ?? '', response }
}

/** What each event of a stream holds, to its end. One that tells of an error ends it with that. */
export async function* readStream(
  { client }: Session,
  response: Response,
  signal?: AbortSignal,
): AsyncGenerator<unknown, void> {
  try {
    for await (const line of linesOf(response)) {
      const data = /^data: ?(.*)$/s.exec(line)?.[1]
      if (data === undefined) continue
      if (data === '[DONE]') return
      const value = JSON.parse(data) as { error?: { message: string; type: string; code: string | null } }
      if (value.error !== undefined && value.error !== null) throw broken(value.error)
      yield value
    }
  } catch (error) {
    if (error instanceof CliError) throw error
    throw cut(client, error, signal)
  }
  throw new TransportError('unreachable', 'The answer was cut')
}

async function* linesOf(response: Response): AsyncGenerator<string, void> {
  const decoder = new TextDecoder()
  let parts: string[] = []
  let chars = 0
  for await (const chunk of response.body ?? []) {
    const [first = '', ...lines] = decoder.decode(chunk, { stream: true }).split('\n')
    parts.push(first)
    chars += first.length
    for (const line of lines) {
      yield parts.join('').replace(/\r$/, '')
      parts = [line]
      chars = line.length
    }
    if (chars > LINE_CHARS) throw new RangeError('a line of the answer does not end')
  }
}

function broken({ message, type, code }: { message: string; type: string; code: string | null }): CliError {
  return new CliError(exitCodes.failed, sentence(message), ['Try it again.'], { code: type, reason: code })
}

function cut({ url }: Client, error: unknown, signal: AbortSignal | undefined): TransportError {
  return signal?.aborted === true
    ? new TransportError('aborted', 'The call was aborted', error)
    : unreachable(url, error)
}

/** undefined: it is not known yet; `berth cost` tells it later. */
export async function costOf(client: Client, requestId: string): Promise<NanoUsd | undefined> {
  const never = new AbortController().signal
  for (let attempt = 1; requestId !== '' && attempt <= COST_TRIES; attempt += 1) {
    const { requests } = await client.call('getRequestCost', { body: { requestIds: [requestId] } })
    const [known] = requests
    if (known !== undefined) return nanoUsdOf(BigInt(known.costNanoUsd))
    await pause(COST_EVERY_MS, never)
  }
  return undefined
}

/** The one that was named, else the favourite, else the first that can be called now, else the first. */
export async function chooseModel(
  client: Client,
  kind: ModelKind,
  { named, favourite }: { readonly named?: string | undefined; readonly favourite?: string },
): Promise<string> {
  if (named !== undefined) return named
  const models = await listOfKind(client, kind)
  const chosen =
    models.find(({ id }) => id === favourite) ?? models.find(({ status }) => status === 'ready') ?? models[0]
  if (chosen !== undefined) return chosen.id
  throw new CliError(exitCodes.failed, `No ${kind} model is on sale at ${client.url}.`, [
    'Its operator offers one with: berth models add',
  ])
}

async function listOfKind(client: Client, kind: ModelKind): Promise<Reply<'listModels'>['data']> {
  const { data } = await client.call('listModels')
  return data.filter((model) => model.kind === kind)
}

/** What makes a request cheaper: the most that it can cost is set aside before it begins. */
const cheaper: Readonly<Record<ModelKind, string>> = {
  chat: 'a shorter answer (--max-tokens) needs less',
  image: 'a smaller picture or fewer --steps need less',
  speech: 'a shorter text needs less',
  embedding: 'a shorter text needs less',
}

const nextSteps: Readonly<Record<string, readonly string[]>> = {
  model_loading: ['Try it again in a moment.'],
  key_spending_limit: ['berth keys ls shows the keys; another may spend more.'],
  rate_limited: ['Try it again in a moment.'],
}

/** Runs the work of a command; what the server refuses is told with the next step. */
export async function withModels<T>({ client }: Session, kind: ModelKind, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const { status, code, reason = '', requestId } = error
    const next = await nextStepOf(client, kind, reason)
    if (next === undefined) throw error
    const exitCode = status === 403 ? exitCodes.refused : exitCodes.failed
    throw new CliError(exitCode, sentence(error.message), next, { status, code, reason, requestId })
  }
}

async function nextStepOf(client: Client, kind: ModelKind, reason: string): Promise<readonly string[] | undefined> {
  if (['model_not_found', 'wrong_model_kind', 'model_not_allowed'].includes(reason)) return namesOf(client, kind)
  if (reason === 'insufficient_balance') return [`berth balance shows what is left; ${cheaper[kind]}.`]
  return nextSteps[reason]
}

async function namesOf(client: Client, kind: ModelKind): Promise<string[]> {
  const names = (await listOfKind(client, kind)).map(({ id }) => id)
  if (names.length === 0) return [`No ${kind} model is on sale here.`]
  const more = names.length > NAMES ? ', …' : ''
  return [`On sale for ${kind}: ${names.slice(0, NAMES).join(', ')}${more}. Name one with --model.`]
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`
}

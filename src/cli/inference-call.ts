/** What `chat`, `image` and `speak` have in common: which model is asked, and what to do where one refuses. */
import type { Client, Reply } from '../client/client.ts'
import { ApiError } from '../client/error.ts'
import type { Reason } from '../contract/reasons.ts'
import type { NextSteps } from './failure.ts'
import type { Session } from './session.ts'
import { CliError, exitCodes } from './shell.ts'

/** Names in a sentence. */
const NAMES = 8

type ModelKind = NonNullable<Reply<'listModels'>['data'][number]['kind']>

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

const nextSteps: NextSteps = {
  model_loading: ['Try again in a moment.'],
  key_spending_limit: ['List the keys with: berth keys ls'],
}

/** Runs the work of a command; what the server refuses is told with the next step. */
export async function withModels<T>({ client }: Session, kind: ModelKind, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const { status, code, reason = '', requestId } = error
    const isBroken = status === 502
    const next = (await nextStepOf(client, kind, reason)) ?? (isBroken ? ['Try it again.'] : undefined)
    if (next === undefined) throw error
    const exitCode = status === 403 ? exitCodes.refused : exitCodes.failed
    throw new CliError(exitCode, sentence(error.message), next, { status, code, reason, requestId })
  }
}

async function nextStepOf(client: Client, kind: ModelKind, reason: string): Promise<readonly string[] | undefined> {
  if (['model_not_found', 'wrong_model_kind', 'model_not_allowed'].includes(reason)) return namesOf(client, kind)
  if (reason === 'insufficient_balance') return [`berth balance shows what is left; ${cheaper[kind]}.`]
  return nextSteps[reason as Reason]
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

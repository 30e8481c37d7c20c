/** Shared by `chat`, `image`, `speak` and `embed`: the choice of a model, and the next step after an error. */
import type { Client, Reply } from '../../client/client.ts'
import { ApiError } from '../../client/error.ts'
import { refusalOf } from '../kit/failure.ts'
import type { Session } from '../rental/session.ts'
import { CliError, exitCodes } from '../kit/shell.ts'

/** Names in one sentence. */
const MAX_NAMES = 8

type ModelKind = NonNullable<Reply<'listModels'>['data'][number]['kind']>

/** The named one, or the favourite, or the first that is ready, or the first. */
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
    'The operator adds one with: berth models create',
  ])
}

async function listOfKind(client: Client, kind: ModelKind): Promise<Reply<'listModels'>['data']> {
  const { data } = await client.call('listModels')
  return data.filter((model) => model.kind === kind)
}

/** How to make a request cheaper: the most that it can cost is held before it starts. */
const cheaper: Readonly<Record<ModelKind, string>> = {
  chat: 'a shorter answer (--max-tokens)',
  image: 'a smaller image or fewer --steps',
  speech: 'a shorter text',
  embedding: 'a shorter text',
}

/** Runs a call to a model. Some errors get a next step that only the command knows. */
export async function withModels<T>({ client }: Session, kind: ModelKind, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const next = await nextStepOf(client, kind, error)
    if (next === undefined) throw error
    throw refusalOf(error, error.status === 403 ? exitCodes.refused : exitCodes.failed, next)
  }
}

async function nextStepOf(client: Client, kind: ModelKind, error: ApiError): Promise<readonly string[] | undefined> {
  const { reason = '', status } = error
  if (['model_not_found', 'wrong_model_kind', 'model_not_allowed'].includes(reason)) return namesOf(client, kind)
  if (reason === 'insufficient_balance') return [`To see the balance: berth balance. Cheaper: ${cheaper[kind]}.`]
  return status === 502 ? ['Try again.'] : undefined
}

async function namesOf(client: Client, kind: ModelKind): Promise<string[]> {
  const names = (await listOfKind(client, kind)).map(({ id }) => id)
  if (names.length === 0) return [`No ${kind} model is on sale here.`]
  const more = names.length > MAX_NAMES ? ', …' : ''
  return [`Available for ${kind}: ${names.slice(0, MAX_NAMES).join(', ')}${more}. Choose one with --model.`]
}

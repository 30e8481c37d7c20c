/** `chat`, `image`, `speak`, `transcribe` and `embed` share this: the choice of a model, and the next step after an error. */
import type { Client, Reply } from '../../client/client.ts'
import { ApiError } from '../../client/error.ts'
import { refusalOf } from '../kit/failure.ts'
import type { Session } from '../rental/session.ts'
import { CliError, exitCodes } from '../kit/shell.ts'

/** An error message lists at most this many models. */
const MAX_NAMES = 8

type ModelKind = NonNullable<Reply<'listModels'>['data'][number]['kind']>

/** Returns the model that the user named; else the preferred one, the first that is ready, or the first of all. */
export async function chooseModel(
  client: Client,
  kind: ModelKind,
  { name, preferred }: { readonly name?: string | undefined; readonly preferred?: string },
): Promise<string> {
  if (name !== undefined) return name
  const models = await listOfKind(client, kind)
  const model =
    models.find(({ id }) => id === preferred) ?? models.find(({ status }) => status === 'ready') ?? models[0]
  if (model !== undefined) return model.id
  throw new CliError(exitCodes.failed, `No ${kind} model is on sale at ${client.url}.`, [
    'The operator adds one with: berth models create',
  ])
}

async function listOfKind(client: Client, kind: ModelKind): Promise<Reply<'listModels'>['data']> {
  const { data } = await client.call('listModels')
  return data.filter((model) => model.kind === kind)
}

/** Ways to lower the maximum cost of a request. That amount must be available before the request starts. */
const cheaperRequests: Readonly<Record<ModelKind, string>> = {
  chat: 'a shorter answer (--max-tokens)',
  image: 'a smaller image or fewer --steps',
  speech: 'a shorter text',
  embedding: 'a shorter text',
  rerank: 'fewer or shorter documents',
  transcription: 'a shorter recording',
}

/** Waits for a call to a model, and adds to its errors the next step that only the command knows. */
export async function withNextStep<T>({ client }: Session, kind: ModelKind, call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    const nextStep = await nextStepOf(client, kind, error)
    if (nextStep === undefined) throw error
    throw refusalOf(error, error.status === 403 ? exitCodes.refused : exitCodes.failed, nextStep)
  }
}

async function nextStepOf(client: Client, kind: ModelKind, error: ApiError): Promise<readonly string[] | undefined> {
  const { reason = '', status } = error
  if (['model_not_found', 'wrong_model_kind', 'model_not_allowed'].includes(reason)) return listNames(client, kind)
  if (reason === 'insufficient_balance')
    return [`To see the balance: berth balance. Cheaper: ${cheaperRequests[kind]}.`]
  return status === 502 ? ['Try again.'] : undefined
}

async function listNames(client: Client, kind: ModelKind): Promise<string[]> {
  const names = (await listOfKind(client, kind)).map(({ id }) => id)
  if (names.length === 0) return [`No ${kind} model is on sale here.`]
  const more = names.length > MAX_NAMES ? ', …' : ''
  return [`Available for ${kind}: ${names.slice(0, MAX_NAMES).join(', ')}${more}. Choose one with --model.`]
}

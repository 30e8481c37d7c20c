/** Models: state, download progress, prices, and the health of deployments. */
import type { Reply } from '../client/client.ts'
import type { ModelPriceName } from '../contract/model.ts'
import { money } from './money.ts'
import { count, megabytes, number } from './number.ts'
import type { Tone } from './tone.ts'

export type Model = Reply<'listOperatedModels'>['models'][number]
export type Deployment = Model['deployments'][number]
export type LocalState = NonNullable<Model['local']>
type Kind = Model['kind']

export const modelKindLabels = {
  chat: 'Chat',
  embedding: 'Embeddings',
  rerank: 'Reranking',
  image: 'Images',
  speech: 'Speech',
  transcription: 'Transcription',
} as const satisfies Record<Kind, string>

interface State {
  readonly label: string
  readonly tone: Tone
  readonly detail?: string
}

/** Whether the model can answer now, and if not, why. */
export function modelState(model: Model): State {
  if (!model.enabled) return { label: 'disabled', tone: 'plain' }
  const local = isReplaced(model) ? null : model.local
  if (local?.state === 'ready' || model.deployments.some(isAnswering)) return { label: 'ready', tone: 'good' }
  if (local?.state === 'idle') return { label: 'idle', tone: 'plain', detail: 'Its first request starts it.' }
  if (local?.state === 'failed') return { label: 'failed', tone: 'bad', detail: local.message ?? 'no reason given' }
  if (local?.state === 'pulling') return { label: 'downloading', tone: 'info', detail: progressLabel(local) }
  if (local?.state === 'loading') return { label: 'starting', tone: 'info' }
  if (model.deployments.length > 0)
    return { label: 'no healthy deployment', tone: 'bad', detail: 'All its deployments are drained or failing.' }
  return model.engine === null
    ? { label: 'no deployment', tone: 'bad', detail: 'Add a deployment that runs it.' }
    : { label: 'no local engine', tone: 'warn', detail: 'Local engines are disabled on this server.' }
}

/** The built-in image engine gives way to deployments. */
function isReplaced({ engine, deployments }: Pick<Model, 'engine' | 'deployments'>): boolean {
  return engine === 'picture' && deployments.some(isInUse)
}

function isInUse({ drained, weight }: Deployment): boolean {
  return !drained && weight > 0
}

function isAnswering(deployment: Deployment): boolean {
  return isInUse(deployment) && (deployment.health?.breaker ?? 'closed') === 'closed'
}

/** The progress of a download: `42% of 323 MB`, or the bytes so far if the size is unknown. */
export function progressLabel(local: LocalState): string {
  const percent = percentOf(local)
  if (percent === undefined) return megabytes(local.doneBytes ?? 0)
  return `${percent}% of ${megabytes(local.totalBytes ?? 0)}`
}

/** The state of a model that this server runs itself. */
export function localLabel(local: LocalState): string {
  switch (local.state) {
    case 'idle':
      return 'idle until its first request'
    case 'pulling':
      return `downloading ${progressLabel(local)}`
    case 'loading':
      return 'starting'
    case 'ready':
      return 'ready'
    case 'failed':
      return `failed: ${local.message ?? 'no reason given'}`
  }
}

export function percentOf({ doneBytes, totalBytes }: LocalState): number | undefined {
  if (doneBytes === null || totalBytes === null || totalBytes <= 0) return undefined
  return Math.floor((Math.min(doneBytes, totalBytes) / totalBytes) * 100)
}

interface DeploymentState {
  readonly label: string
  readonly tone: Tone
  readonly hint?: string
}

export function deploymentState(deployment: Deployment): DeploymentState {
  if (deployment.drained) return { label: 'drained', tone: 'warn' }
  if (deployment.weight === 0) return { label: 'weight 0', tone: 'warn', hint: 'Receives no new requests.' }
  switch (deployment.health?.breaker) {
    case undefined:
      return { label: 'not used here', tone: 'plain', hint: 'This server does not use it.' }
    case 'closed':
      return { label: 'healthy', tone: 'good' }
    case 'half_open':
      return { label: 'recovering', tone: 'warn', hint: 'One request at a time tests whether it has recovered.' }
    case 'open':
      return { label: 'failing', tone: 'bad', hint: 'Takes no requests until a health check succeeds.' }
  }
}

/** `12 of 412 (auto)`: the limit is learned, below any maximum that the operator has set. */
export function deploymentBusy({ health, concurrency }: Pick<Deployment, 'health' | 'concurrency'>): string {
  if (health === null) return '—'
  const { inFlight, limit } = health
  return `${number(inFlight)} of ${number(limit)}${limit < concurrency ? ' (auto)' : ''}`
}

/** The prices of a kind of model, and the units they are for. */
export const pricesOfKind: Readonly<Record<Kind, ReadonlyArray<readonly [name: ModelPriceName, unit: string]>>> = {
  chat: [
    ['inputUsdPerMillion', 'million input tokens'],
    ['cachedUsdPerMillion', 'million cached input tokens'],
    ['outputUsdPerMillion', 'million output tokens'],
  ],
  embedding: [['inputUsdPerMillion', 'million tokens']],
  rerank: [['inputUsdPerMillion', 'million tokens']],
  image: [['pixelStepUsdPerMillion', 'megapixel per step']],
  speech: [['characterUsdPerMillion', 'million characters']],
  transcription: [['soundMsUsdPerMillion', '1,000 seconds of sound']],
}

export function modelPrice(model: Model): string {
  const { inputUsdPerMillion: input, cachedUsdPerMillion: cached, outputUsdPerMillion: output } = model
  switch (model.kind) {
    case 'chat':
      return `${money(input)} in${cached === input ? '' : `, ${money(cached)} cached`}, ${money(output)} out per million tokens`
    case 'embedding':
    case 'rerank':
      return `${money(input)} per million tokens`
    case 'image':
      return `${money(model.pixelStepUsdPerMillion)} per megapixel per step`
    case 'speech':
      return `${money(model.characterUsdPerMillion)} per million characters`
    case 'transcription':
      return `${money(model.soundMsUsdPerMillion)} per 1,000 seconds of sound`
  }
}

/** `local, 2 deployments, 1 drained` */
export function modelPlaces({ engine, deployments }: Model): string {
  const drained = deployments.filter((deployment) => !isInUse(deployment)).length
  return [
    ...(engine === null || isReplaced({ engine, deployments }) ? [] : ['local']),
    ...(deployments.length === 0 ? [] : [count(deployments.length, 'deployment')]),
    ...(drained === 0 ? [] : [`${drained} drained`]),
  ].join(', ')
}

/** Models and deployments as text: state, price, and where they run. */
import type { Reply } from '../client/client.ts'
import { count } from '../view/number.ts'
import { money } from '../view/money.ts'
import type { Cell } from './screen.ts'

export type Model = Reply<'listOperatedModels'>['models'][number]
export type Deployment = Model['deployments'][number]
export type LocalState = NonNullable<Model['local']>

export function isInUse({ drained, weight }: Deployment): boolean {
  return !drained && weight > 0
}

/** The built-in image engine is not used once a model has deployments. */
function isReplaced({ engine, deployments }: Pick<Model, 'engine' | 'deployments'>): boolean {
  return engine === 'picture' && deployments.some(isInUse)
}

export function stateCell(model: Model): Cell {
  if (!model.enabled) return { text: 'disabled', style: 'dim' }
  const local = isReplaced(model) ? null : model.local
  if (local?.state === 'ready' || model.deployments.some(isAnswering)) return { text: 'ready', style: 'green' }
  if (local?.state === 'failed') return { text: 'failed', style: 'red' }
  if (local !== null) return { text: localLabel(local), style: 'yellow' }
  if (model.engine !== null && model.deployments.length === 0)
    return { text: 'not run on this server', style: 'yellow' }
  return { text: model.deployments.length === 0 ? 'no deployment' : 'no healthy deployment', style: 'red' }
}

function isAnswering(deployment: Deployment): boolean {
  return isInUse(deployment) && deployment.health?.breaker !== 'open'
}

export function localLabel(local: LocalState): string {
  switch (local.state) {
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

/** `42% of 323 MB`, or the bytes so far where the size is unknown. */
export function progressLabel(local: LocalState): string {
  const percent = percentOf(local)
  if (percent === undefined) return megabytes(local.doneBytes ?? 0)
  return `${percent}% of ${megabytes(local.totalBytes ?? 0)}`
}

export function percentOf({ doneBytes, totalBytes }: LocalState): number | undefined {
  if (doneBytes === null || totalBytes === null || totalBytes <= 0) return undefined
  return Math.floor((Math.min(doneBytes, totalBytes) / totalBytes) * 100)
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6).toLocaleString('en-US')} MB`
}

/** Per million of the units that the kind of model is charged by. */
export function priceOf(model: Model): string {
  const { inputUsdPerMillion: input, cachedUsdPerMillion: cached, outputUsdPerMillion: output } = model
  switch (model.kind) {
    case 'chat': {
      const ofCached = cached === input ? '' : `, ${money(cached)} cached`
      return `${money(input)} in${ofCached}, ${money(output)} out`
    }
    case 'embedding':
      return `${money(input)} in`
    case 'image':
      return `${money(model.pixelStepUsdPerMillion)} pixel steps`
    case 'speech':
      return `${money(model.characterUsdPerMillion)} characters`
  }
}

export function placesOf({ engine, deployments }: Model): string {
  const drained = deployments.filter((deployment) => !isInUse(deployment)).length
  return [
    ...(engine === null || isReplaced({ engine, deployments }) ? [] : ['local']),
    ...(deployments.length === 0 ? [] : [count(deployments.length, 'deployment')]),
    ...(drained === 0 ? [] : [`${drained} drained`]),
  ].join(', ')
}

/** Models in words: how far one is, what it costs, whether its servers answer. */
import type { Reply } from '../../../src/client/client.ts'
import type { ModelPriceName } from '../../../src/contract/model.ts'
import { money } from '../../../src/view/money.ts'
import type { Tone } from '../../ui/badge.tsx'

export type Model = Reply<'listOperatedModels'>['models'][number]
export type Deployment = Model['deployments'][number]
type Kind = Model['kind']

interface State {
  readonly word: string
  readonly tone: Tone
  readonly detail?: string
}

/** Whether it can answer now, and if not, how far it is. */
export function stateOf(model: Model): State {
  if (!model.enabled) return { word: 'switched off', tone: 'plain' }
  // The picture engine, with its own small model, gives way to the servers that are named.
  const isReplaced = model.engine === 'picture' && model.deployments.some(isInUse)
  const local = isReplaced ? null : model.local
  const answers = model.deployments.some((one) => isInUse(one) && (one.health?.breaker ?? 'closed') === 'closed')
  if (local?.state === 'ready' || answers) return { word: 'ready', tone: 'good' }
  if (local?.state === 'failed') return { word: 'failed', tone: 'bad', detail: local.message ?? 'no reason given' }
  if (local?.state === 'pulling') return { word: 'downloading', tone: 'info', detail: downloadWords(local) }
  if (local?.state === 'loading') return { word: 'starting', tone: 'info' }
  if (model.engine !== null && model.deployments.length === 0) {
    return { word: 'not run here', tone: 'warn', detail: 'The engines of this server are switched off.' }
  }
  if (model.deployments.length === 0) return { word: 'no server', tone: 'bad', detail: 'Add a server that runs it.' }
  return { word: 'no server answers', tone: 'bad', detail: 'All of its servers are drained or fail.' }
}

function isInUse({ drained, weight }: Deployment): boolean {
  return !drained && weight > 0
}

/** undefined: nothing is downloaded now. */
export function downloadOf({ local }: Model): { readonly percent: number | undefined } | undefined {
  return local?.state === 'pulling' ? { percent: percentOf(local) } : undefined
}

type Local = NonNullable<Model['local']>

function percentOf({ doneBytes, totalBytes }: Local): number | undefined {
  if (doneBytes === null || totalBytes === null || totalBytes <= 0) return undefined
  return Math.floor((Math.min(doneBytes, totalBytes) / totalBytes) * 100)
}

function downloadWords(local: Local): string {
  const percent = percentOf(local)
  if (percent === undefined) return megabytes(local.doneBytes ?? 0)
  return `${percent} % of ${megabytes(local.totalBytes ?? 0)}`
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6).toLocaleString('en')} MB`
}

/** By which units a kind is paid. */
export const pricesOfKind: Readonly<Record<Kind, ReadonlyArray<readonly [ModelPriceName, string]>>> = {
  chat: [
    ['inputUsdPerMillion', 'USD a million tokens of the prompt'],
    ['cachedUsdPerMillion', 'USD a million cached tokens of the prompt'],
    ['outputUsdPerMillion', 'USD a million tokens of the answer'],
  ],
  embedding: [['inputUsdPerMillion', 'USD a million tokens']],
  image: [['pixelStepUsdPerMillion', 'USD a megapixel and step']],
  speech: [['characterUsdPerMillion', 'USD a million characters']],
}

export function priceWords(model: Model): string {
  const { inputUsdPerMillion: input, cachedUsdPerMillion: cached, outputUsdPerMillion: output } = model
  switch (model.kind) {
    case 'chat':
      return `${money(input)} in${cached === input ? '' : `, ${money(cached)} cached`}, ${money(output)} out, a million tokens`
    case 'embedding':
      return `${money(input)} a million tokens`
    case 'image':
      return `${money(model.pixelStepUsdPerMillion)} a megapixel and step`
    case 'speech':
      return `${money(model.characterUsdPerMillion)} a million characters`
  }
}

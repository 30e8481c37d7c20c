/** Managed deployments and their replicas, as people read them. */
import { nanoUsdOf, usd } from '../base/money.ts'
import type { Reply } from '../client/client.ts'
import type { RecipeName } from '../contract/recipe.ts'
import { gpusLabel } from './gpu.ts'
import { hourlyPrice } from './money.ts'
import { count } from './number.ts'
import { rentalReasonSentence } from './rental.ts'
import type { Tone } from './tone.ts'

export type ManagedDeployment = Reply<'getManagedDeployment'>
export type Replica = ManagedDeployment['replicas'][number]

export const deploymentStatusLabels = {
  idle: ['Idle', 'plain'],
  starting: ['Starting', 'info'],
  ready: ['Ready', 'good'],
  waiting: ['Waiting', 'warn'],
  failed: ['Failed', 'bad'],
  deleting: ['Deleting', 'info'],
} as const satisfies Record<ManagedDeployment['status'], readonly [string, Tone]>

const replicaStateLabels = {
  starting: ['Starting', 'info'],
  ready: ['Ready', 'good'],
  draining: ['Draining', 'warn'],
  ended: ['Ended', 'plain'],
} as const satisfies Record<Replica['state'], readonly [string, Tone]>

/** A replica that ended without ever answering has failed. */
export function replicaLabel({ state, readyAt }: Pick<Replica, 'state' | 'readyAt'>): readonly [string, Tone] {
  return state === 'ended' && readyAt === null ? ['Failed', 'bad'] : replicaStateLabels[state]
}

const scalingReasons: Readonly<Record<string, string>> = {
  steady: 'Steady',
  minimum: 'Minimum',
  maximum: 'Maximum reached',
  budget: 'Hourly budget reached',
  request_at_zero: 'First request at zero',
  load: 'More load',
  less_load: 'Less load',
  idle: 'No requests',
}

export function scalingReason(reason: string): string {
  return scalingReasons[reason] ?? reason.replaceAll('_', ' ')
}

const endReasons: Readonly<Record<string, string>> = {
  not_needed: 'No longer needed',
  replaced: 'Replaced by a newer version',
  deleted: 'Deployment deleted',
  drain_timed_out: 'Requests did not finish in time',
  contact_lost: 'Contact with its machine was lost',
  start_timed_out: 'Did not answer in time',
  stuck: 'Stopped producing output',
}

export function replicaReason(reason: string): string {
  return endReasons[reason] ?? rentalReasonSentence(reason)
}

/** `claim 0.2 s, pull 61.0 s, load 12.0 s, first token 0.5 s`; a phase that is not over is left out. */
export function coldStartText({
  claimSeconds,
  pullSeconds,
  loadSeconds,
  firstTokenSeconds,
}: Replica['coldStart']): string {
  const phases = { claim: claimSeconds, pull: pullSeconds, load: loadSeconds, 'first token': firstTokenSeconds }
  return Object.entries(phases)
    .flatMap(([phase, seconds]) => (seconds === null ? [] : [`${phase} ${seconds.toFixed(1)} s`]))
    .join(', ')
}

export const recipeLabels = {
  vllm: 'vLLM',
  'vllm-omni': 'vLLM-Omni',
  sglang: 'SGLang',
  'llama.cpp': 'llama.cpp',
  tei: 'Text Embeddings Inference',
  tgi: 'Text Generation Inference',
  diffusion: 'Diffusion server',
  kokoro: 'Kokoro',
  speech: 'Speech server',
  'berth-engine': 'Berth engine',
  custom: 'Your own image',
} as const satisfies Record<RecipeName, string>

export const recipeChoices = Object.entries(recipeLabels).map(([value, label]) => ({ value, label }))

/** `2 × H100 in us-east-1` */
export function specGpus({ gpus }: ManagedDeployment['spec']): string {
  const where = gpus.region === undefined ? '' : ` in ${gpus.region}`
  const memory = gpus.minMemoryGb === undefined ? '' : `, ${gpus.minMemoryGb} GB each`
  return `${gpusLabel(gpus.count, gpus.model ?? 'GPU')}${memory}${where}`
}

/** `1 → 3: More load` */
export function scaledText(data: Readonly<Record<string, unknown>>): string {
  const { from, to, reason } = data
  const why = typeof reason === 'string' ? `: ${scalingReason(reason)}` : ''
  return `${String(from)} → ${String(to)} replicas${why}`
}

/** The costs of a quote for a number of replicas. */
export function quotedCosts(
  {
    costPerHourUsd,
    freeStartMinutesLeft,
  }: Pick<Reply<'quoteManagedDeployment'>, 'costPerHourUsd' | 'freeStartMinutesLeft'>,
  { min, max }: { readonly min: number; readonly max: number },
): ReadonlyArray<readonly [label: string, value: string]> {
  const times = (replicas: number): string =>
    `${hourlyPrice(nanoUsdOf(usd(costPerHourUsd) * BigInt(replicas)))} for ${count(replicas, 'replica')}`
  return [
    ['One replica', hourlyPrice(costPerHourUsd)],
    ['At least', min === 0 ? '$0.00/hr when idle' : times(min)],
    ['At most', times(max)],
    ['Starts', startsText(freeStartMinutesLeft)],
  ]
}

function startsText(freeMinutes: number): string {
  const whole = Math.floor(freeMinutes)
  return whole === 0
    ? 'charged from the start of the machine'
    : `free until the first answer, ${count(whole, 'GPU-minute')} left today`
}

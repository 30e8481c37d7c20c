/** `berth deployments usage`, and what `berth deploy --dry-run` prints. */
import type { CallInput, Reply } from '../../client/client.ts'
import { quotedCosts } from '../../view/deployment.ts'
import { outstandingText, percent, rate, span, unitNoun } from '../../view/economics.ts'
import { gpusLabel, shortGpuLabel } from '../../view/gpu.ts'
import { money } from '../../view/money.ts'
import { number } from '../../view/number.ts'
import { parseDay, parseSince } from '../kit/day.ts'
import type { Content } from '../kit/screen.ts'
import type { Call } from '../kit/row-type.ts'

type Quoted = NonNullable<CallInput<'quoteManagedDeployment'>['body']>
type Summary = Reply<'listManagedDeployments'>['deployments'][number]

export const usageFlags = {
  from: { text: '--since <day>  first day: 2026-11-01, or 7d for a week (default: 30d)', parse: parseSince },
  to: { text: '--until <day>  last day (default: today)', parse: parseDay },
} as const

export function describeUsage(used: Reply<'getDeploymentUsage'>, { model, kind }: Summary): Content[] {
  const noun = unitNoun(kind)
  return [
    ['Model', model],
    ['Requests', number(used.requests)],
    [
      `${noun.charAt(0).toUpperCase()}${noun.slice(1)}s`,
      `${number(used.inputUnits)} in, ${number(used.outputUnits)} out`,
    ],
    ['GPU cost', money(used.gpuCostUsd)],
    ['GPU time', `${span(used.paidSeconds)} paid, ${span(used.busySeconds)} busy`],
    ['Utilization', percent(used.utilizationPercent)],
    ['Outstanding', `${outstandingText(used)} requests per replica`],
    ['Throughput', `${rate(used.unitsPerSecond)} ${noun}s per second and replica while busy`],
    ['Per dollar', `${rate(used.unitsPerUsd)} ${noun}s`],
    '',
    `From ${used.from} to ${used.to} (UTC)`,
  ]
}

/** Quotes the deployment that the command line describes. Nothing is created. */
export async function quoteDeployment({ client, screen, input }: Call): Promise<void> {
  const body = input.parts.body as Quoted & { readonly replicas?: { readonly min?: number; readonly max?: number } }
  const { kind, forEveryone, catalogModel, recipe, gpus, env } = body
  const quote = await client.call('quoteManagedDeployment', {
    body: { kind, forEveryone, catalogModel, recipe, gpus, env },
  })
  screen.show(quote, () => [
    ...quotedCosts(quote, { min: body.replicas?.min ?? 0, max: body.replicas?.max ?? 1 }),
    ['Machine', `${gpusLabel(quote.gpuCount, shortGpuLabel(quote.gpuModel))} in ${quote.region}`],
    ...(quote.kvTokens === null
      ? []
      : [['Context', `about ${number(quote.kvTokens)} tokens of all requests together`] as const]),
    '',
    'The cheapest machine that fits now. Nothing was created.',
  ])
}

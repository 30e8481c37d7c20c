/** `berth operator economics`: revenue, GPU cost and margin of models for everyone, and the price advisor. */
import {
  adviceText,
  costText,
  marginText,
  outstandingText,
  percent,
  rate,
  span,
  unitNoun,
} from '../../view/economics.ts'
import { money } from '../../view/money.ts'
import { number } from '../../view/number.ts'
import type { Reply } from '../../client/client.ts'
import { parseDay, parseSince } from '../kit/day.ts'
import { tableOf } from '../kit/record.ts'
import { show } from '../kit/row.ts'
import { toned, type Content } from '../kit/screen.ts'
import type { Row } from '../kit/row-type.ts'

type Economics = Reply<'getEconomics'>
type Model = Economics['models'][number]

export const rows: readonly Row[] = [
  show<'getEconomics'>('operator economics', 'getEconomics', 'show revenue, GPU cost and margin of models', {
    flags: {
      model: 'only this model, with price advice',
      from: { text: '--since <day>  first day: 2026-11-01, or 7d for a week (default: 30d)', parse: parseSince },
      to: { text: '--until <day>  last day (default: today)', parse: parseDay },
      utilizationPercent: '--utilization <percent>  advise prices for this utilization (default: the measured one)',
    },
    notes:
      'Models for everyone on rented GPUs. Amounts are sums of the ledger.\nUtilization is the busy part of the paid GPU time.',
    examples: [
      'berth operator economics --since 7d',
      'berth operator economics --model house/assistant --utilization 60',
    ],
    content: (economics) => describe(economics),
  }),
]

function describe(economics: Economics): Content[] {
  const { models, from, to, revenueUsd, gpuCostUsd, marginUsd } = economics
  if (models.length === 0) return [`No model for everyone had a replica from ${from} to ${to}.`]
  const [only] = models
  if (models.length === 1 && only !== undefined) return [...describeModel(only), '', `From ${from} to ${to} (UTC)`]
  return [
    tableOf(models, [
      'model',
      {
        REVENUE: ({ revenueUsd: revenue }) => money(revenue),
        'GPU COST': ({ gpuCostUsd: cost }) => money(cost),
        MARGIN: (one) => toned(isLoss(one) ? 'bad' : 'good', marginText(one)),
        UTILIZATION: ({ utilizationPercent }) => percent(utilizationPercent),
        'UNITS/S': ({ unitsPerSecond }) => rate(unitsPerSecond),
        'UNITS/$': ({ unitsPerUsd }) => rate(unitsPerUsd),
        'BREAK-EVEN': ({ advice }) => percent(advice?.breakEvenUtilizationPercent ?? null),
      },
    ]),
    '',
    `${money(revenueUsd)} revenue, ${money(gpuCostUsd)} GPU cost, ${money(marginUsd)} margin from ${from} to ${to} (UTC)`,
    'For price advice: berth operator economics --model MODEL',
  ]
}

function describeModel(one: Model): Content[] {
  const noun = unitNoun(one.kind)
  return [
    ['Model', one.model],
    ['Revenue', money(one.revenueUsd)],
    ['GPU cost', costText(one)],
    ['Margin', toned(isLoss(one) ? 'bad' : 'good', marginText(one))],
    ['Requests', number(one.requests)],
    [
      `${noun.charAt(0).toUpperCase()}${noun.slice(1)}s`,
      `${number(one.inputUnits)} in, ${number(one.outputUnits)} out`,
    ],
    ['GPU time', `${span(one.paidSeconds)} paid, ${span(one.busySeconds)} busy`],
    ['Utilization', percent(one.utilizationPercent)],
    ['Outstanding', `${outstandingText(one)} requests per replica`],
    ['Throughput', `${rate(one.unitsPerSecond)} ${noun}s per second and replica while busy`],
    ['Per dollar', `${rate(one.unitsPerUsd)} ${noun}s`],
    '',
    ...(one.advice === null ? ['The model was deleted.'] : adviceText(one.advice, one)),
  ]
}

function isLoss({ marginUsd }: Model): boolean {
  return marginUsd.startsWith('-')
}

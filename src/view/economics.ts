/** Economics of models on rented GPUs, as people read them. Shared by the CLI and the console. */
import { usd } from '../base/money.ts'
import type { Reply } from '../client/client.ts'
import { money, signedMoney } from './money.ts'
import { count, number } from './number.ts'

type Economics = Reply<'getEconomics'>['models'][number]
type Usage = Reply<'getDeploymentUsage'>
type Advice = NonNullable<Economics['advice']>

/** `42%`, or `–` if there is nothing to divide by. */
export function percent(value: number | null): string {
  return value === null ? '–' : `${number(Math.round(value * 10) / 10)}%`
}

/** `1,234`; below 10 with a decimal. */
export function rate(value: number | null): string {
  if (value === null) return '–'
  return number(value < 10 ? Math.round(value * 10) / 10 : Math.round(value))
}

/** `12 min`, `3.5 hr` */
export function span(seconds: number): string {
  if (seconds < 60) return `${number(Math.round(seconds))} s`
  if (seconds < 3_600) return `${number(Math.round(seconds / 60))} min`
  return `${number(Math.round(seconds / 360) / 10)} hr`
}

const unitNouns = {
  chat: 'token',
  embedding: 'token',
  rerank: 'token',
  image: 'pixel-step',
  speech: 'character',
  transcription: 'millisecond',
} as const satisfies Record<NonNullable<Economics['kind']>, string>

/** The noun for the units of a model. */
export function unitNoun(kind: Economics['kind'] | undefined): string {
  return unitNouns[kind ?? 'chat']
}

/** `0.8 of 4`: the requests per replica, and the target of the scaling. */
export function outstandingText({
  outstandingPerReplica,
  targetOutstanding,
}: Pick<Usage, 'outstandingPerReplica' | 'targetOutstanding'>): string {
  const now = rate(outstandingPerReplica)
  return targetOutstanding === null || outstandingPerReplica === null ? now : `${now} of ${number(targetOutstanding)}`
}

/** `$5.80 (37% of revenue)` */
export function marginText({ marginUsd, marginPercent }: Pick<Economics, 'marginUsd' | 'marginPercent'>): string {
  return marginPercent === null ? signedMoney(marginUsd) : `${signedMoney(marginUsd)} (${percent(marginPercent)})`
}

/** `$15.40, $9.60 of it to suppliers, $3.20 billed by other clouds` */
export function costText({
  gpuCostUsd,
  supplierUsd,
  vendorCostUsd,
  gpuCostBasis,
}: Pick<Economics, 'gpuCostUsd' | 'supplierUsd' | 'vendorCostUsd' | 'gpuCostBasis'>): string {
  if (gpuCostBasis === 'vendor_price') return `${money(gpuCostUsd)}, billed by other clouds`
  const vendor = gpuCostBasis === 'mixed' ? `, ${money(vendorCostUsd)} billed by other clouds` : ''
  return `${money(gpuCostUsd)}, ${money(supplierUsd)} of it to suppliers${vendor}`
}

/** The findings of the price advisor, one sentence each. */
export function adviceText(advice: Advice, { kind, prices }: Pick<Economics, 'kind' | 'prices'>): string[] {
  if (!advice.isMeasured) return [notMeasuredText(advice)]
  const noun = `${unitNoun(kind)}s`
  const blended = money(advice.blendedUsdPerMillion ?? '0')
  const cover = `At ${percent(advice.utilizationPercent)} utilization, ${blended} per million ${noun} covers the cost of GPUs.`
  return [cover, ...pricesText(advice), breakEvenText(advice, prices)]
}

function notMeasuredText({ neededRequests, neededBusySeconds }: Advice): string {
  const missing = [
    ...(neededRequests > 0 ? [count(neededRequests, 'request')] : []),
    ...(neededBusySeconds > 0 ? [`${span(neededBusySeconds)} of busy time`] : []),
  ]
  return missing.length === 0
    ? 'Too little was measured for advice.'
    : `Too little was measured for advice: ${missing.join(' and ')} more needed.`
}

function pricesText({ prices }: Advice): string[] {
  if (prices === null) return []
  const { inputUsdPerMillion: input, cachedUsdPerMillion: cached, outputUsdPerMillion: output } = prices
  const parts = { input, cached, output }
  const pricedParts = Object.entries(parts).filter(([, price]) => usd(price) > 0n)
  return [
    `With the current ratio of prices: ${pricedParts.map(([name, price]) => `${money(price)} ${name}`).join(', ')}.`,
  ]
}

function breakEvenText({ breakEvenUtilizationPercent: percentage }: Advice, prices: Economics['prices']): string {
  if (percentage === null || prices === null) return 'The model is free, so no utilization covers the cost.'
  if (percentage > 100) return 'Current prices do not cover the cost at any utilization.'
  return `Current prices cover the cost from ${percent(percentage)} utilization on.`
}

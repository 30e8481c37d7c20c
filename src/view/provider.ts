/** Accounts at other clouds and placement, as people read them. Shared by the CLI and the console. */
import type { Reply } from '../client/client.ts'
import { gpuHourPrice, money } from './money.ts'
import { number } from './number.ts'
import { span } from './time.ts'
import type { Tone } from './tone.ts'

export type Provider = Reply<'listProviders'>['providers'][number]
export type ProviderOffer = Reply<'listProviderOffers'>['offers'][number]
type Check = Reply<'checkProvider'>['checks'][number]
type Candidate = Reply<'explainPlacement'>['candidates'][number]
type Difference = Reply<'getProviderBill'>['differences'][number]
type Bill = Reply<'listProviderBills'>['bills'][number]
type Label = readonly [label: string, tone: Tone]

export const providerStateLabels = {
  healthy: ['healthy', 'good'],
  unknown: ['not asked yet', 'plain'],
  suspended: ['suspended', 'plain'],
  stale: ['does not answer', 'bad'],
  broken: ['rejects credentials', 'bad'],
} as const satisfies Record<Provider['state'], Label>

export const checkLabels = {
  passed: ['passed', 'good'],
  failed: ['failed', 'bad'],
  not_tried: ['not tried', 'plain'],
} as const satisfies Record<Check['result'], Label>

const unsoldLabels = {
  gpu_not_sold: 'not sold: GPU',
  region_not_mapped: 'not sold: region has no mapping',
  name_too_long: 'not sold: name too long',
  no_capacity: 'sold out',
} as const satisfies Record<NonNullable<ProviderOffer['unsold']>, string>

/** An offer is on sale only if its last report is fresh and it has a price. */
export function saleLabel({ unsold, sale }: Pick<ProviderOffer, 'unsold' | 'sale'>): Label {
  if (unsold !== null) return [unsoldLabels[unsold], 'plain']
  if (sale === null) return ['not listed yet', 'plain']
  if (sale.pricePerHourUsd === null) return ['has no price', 'warn']
  return sale.free === 0 ? ['none free', 'warn'] : ['on sale', 'good']
}

/** `cost + 20%`, `$2.49 per GPU-hour`, `price book` */
export function priceRule(account: Pick<Provider, 'fixedPerGpuHourUsd' | 'markupPercentage'>): string {
  const { fixedPerGpuHourUsd: fixed, markupPercentage: markup } = account
  if (fixed !== null) return gpuHourPrice(fixed)
  return markup === null ? 'price book' : `cost + ${number(markup)}%`
}

/** `2026-11-01 to 2026-11-30` */
export function billPeriod({ from, to }: Pick<Bill, 'from' | 'to'>): string {
  return from === null ? 'whole machines' : `${from} to ${to}`
}

/** Names the rental or volume for which the cloud was billing. undefined: not known here. */
export function describeGoods({ rentalId, volumeId }: Pick<Difference, 'rentalId' | 'volumeId'>): string | undefined {
  if (rentalId !== null) return `rental ${rentalId}`
  return volumeId === null ? undefined : `volume ${volumeId}`
}

export function billedText({ billedUsd }: Pick<Difference, 'billedUsd'>): string {
  return billedUsd === null ? 'not on the bill' : money(billedUsd)
}

export function recordedText({ recordedUsd }: Pick<Difference, 'recordedUsd'>): string {
  return recordedUsd === null ? 'not known' : money(recordedUsd)
}

/** Why a matching machine is tried at its rank. */
export const orderLabels = {
  first: 'tried first',
  real_first: 'later: simulated',
  own_first: 'later: not our own',
  preference: 'later: less preferred',
  price: 'later: costs more',
  no_capacity: 'later: often sold out',
  name: 'later: by name',
  fuller_first: 'later: emptier',
  same: 'later: equal',
} as const satisfies Record<Candidate['order'], string>

/** Orders of the last hour: `3 made, 1 sold out, 0 failed, starts in 2 minutes`; undefined: not known. */
export function historyText({ history }: Pick<Candidate, 'history'>): string | undefined {
  if (history === null) return undefined
  const { noCapacity, failed, startSeconds } = history
  const counts = `${number(history.made)} made, ${number(noCapacity)} sold out, ${number(failed)} failed`
  return startSeconds === null ? counts : `${counts}, starts in ${span(startSeconds * 1_000)}`
}

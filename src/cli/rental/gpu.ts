/** `berth gpus ls`: everything that can be rented, in one table. */
import { count } from '../../view/number.ts'
import { formatUsd, formatUsdForPeople } from '../../base/money.ts'
import { isFree, offerFilters, placeOf, readOffers, type Offer } from './offer.ts'
import { isMatch, type OfferFilter } from './offer-filter.ts'
import { custom } from '../kit/row.ts'
import { tableOf, type Columns } from '../kit/record.ts'
import { toned, type Content } from '../kit/screen.ts'
import { watch } from '../kit/watch.ts'
import type { Row } from '../kit/row-type.ts'

const REFRESH_S = 2

export const rows: readonly Row[] = [
  custom<OfferFilter & { all?: true }>('gpus ls', 'list GPUs you can rent, and their prices', {
    args: { '[model...]': 'GPU model or part of it, the same as --gpu' },
    options: { ...offerFilters, '--all': 'include offers that are fully rented' },
    canWatch: REFRESH_S,
    run: (call) =>
      watch(call, async () => {
        const { client } = call
        const options = withModel(call.options, (call.args[0] ?? []) as string[])
        const all = await readOffers(client)
        const offers = all.filter((offer) => isMatch(offer, options) && (options.all === true || isFree(offer)))
        return { onWire: offers.map(offerOnWire), content: describeOffers(offers) }
      }),
    examples: ['berth gpus ls h100 --count 8', 'berth gpus ls --kind container --max-price 0.40 --watch'],
  }),
]

function withModel<T extends OfferFilter>(options: T, words: readonly string[]): T {
  return words.length === 0 ? options : { ...options, gpu: words.join(' ') }
}

export const offerColumns: Columns<Offer, undefined> = [
  'gpu',
  { GPUS: ({ kind, gpuCount }) => (kind === 'container' && gpuCount > 1 ? `1-${gpuCount}` : String(gpuCount)) },
  'kind',
  'region',
  {
    '$/GPU': ({ pricePerGpu }) => formatUsdForPeople(pricePerGpu),
    FREE: ({ free }) => (free > 0 ? String(free) : toned('warn', 'none')),
    MACHINE: placeOf,
  },
]

function describeOffers(offers: readonly Offer[]): Content[] {
  if (offers.length === 0) return ['No free GPUs match.', 'To include rented ones: berth gpus ls --all']
  return [
    tableOf(offers, offerColumns),
    '',
    `${count(offers.length, 'offer')}, priced per GPU-hour. To rent one, use the same options: berth rent`,
  ]
}

function offerOnWire({ kind, gpu, gpuCount, region, pricePerGpu, free, machine, network }: Offer) {
  return {
    kind,
    gpu,
    gpuCount,
    region,
    pricePerGpuHourUsd: formatUsd(pricePerGpu),
    free,
    ...(machine === undefined ? {} : { machine }),
    ...(network === undefined ? {} : { network }),
  }
}

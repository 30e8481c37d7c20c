/** `berth gpus`: everything that can be rented, in one table. */
import { count } from '../view/number.ts'
import { formatUsd, formatUsdForPeople } from '../base/money.ts'
import { isFree, isMatch, offerFilters, placeOf, readOffers, type Offer, type OfferFilter } from './offer.ts'
import { custom } from './row.ts'
import { table, type Cell, type Screen } from './screen.ts'
import { watch } from './watch.ts'
import type { Row } from './row-type.ts'

const REFRESH_S = 2

export const rows: readonly Row[] = [
  custom<OfferFilter & { all?: true }>({
    command: 'gpus',
    description: 'list GPUs you can rent, and their prices',
    options: [...offerFilters, { flag: '--all', help: 'include offers that are fully rented' }],
    canWatch: REFRESH_S,
    run: (call) =>
      watch(call, async () => {
        const { client, screen, options } = call
        const found = await readOffers(client)
        const offers = found.filter((offer) => isMatch(offer, options) && (options.all === true || isFree(offer)))
        return { onWire: offers.map(offerOnWire), lines: offerLines(screen, offers) }
      }),
    examples: ['berth gpus --gpu h100 --count 8', 'berth gpus --kind container --max-price 0.40 --watch'],
  }),
]

export const offerColumns = [
  { title: 'GPU', shrink: true },
  { title: 'GPUS', right: true },
  { title: 'KIND' },
  { title: 'REGION' },
  { title: '$/GPU', right: true },
  { title: 'FREE', right: true },
  { title: 'MACHINE', shrink: true },
] as const

function offerLines(screen: Screen, offers: readonly Offer[]): string[] {
  if (offers.length === 0) return ['No free GPUs match.', 'To include rented ones: berth gpus --all']
  return [
    ...table(screen, offerColumns, offers.map(offerCells)),
    '',
    `${count(offers.length, 'offer')}, priced per GPU-hour. To rent one, use the same options: berth rent`,
  ]
}

export function offerCells(offer: Offer): Cell[] {
  const { kind, gpuCount, free } = offer
  return [
    offer.gpu,
    kind === 'container' && gpuCount > 1 ? `1-${gpuCount}` : String(gpuCount),
    kind,
    offer.region,
    formatUsdForPeople(offer.pricePerGpu),
    free > 0 ? String(free) : { text: 'none', style: 'yellow' },
    placeOf(offer),
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

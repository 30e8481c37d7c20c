/** `berth gpus`: everything that can be rented, in one table, and with --watch as it changes. */
import type { Command } from 'commander'
import { formatUsd, formatUsdForPeople } from '../base/money.ts'
import { count } from '../view/number.ts'
import { addOfferFilters, fits, isFree, readOffers, whereWords, type Offer, type OfferFilter } from './offer.ts'
import { table, type Cell, type Screen } from './screen.ts'
import type { Run } from './session.ts'
import type { Shell } from './shell.ts'
import { addWatchOptions, watch, type WatchOptions } from './watch.ts'

const EVERY_S = 2

interface GpuOptions extends OfferFilter, WatchOptions {
  readonly all?: true
}

export function addGpuCommands(program: Command, run: Run, shell: Shell): void {
  const gpus = addOfferFilters(program.command('gpus').description('what can be rented, and at which price'))
  addWatchOptions(gpus.option('--all', 'also what is taken'), EVERY_S)
  gpus.action(
    run('anyone', async (session) => {
      const options = gpus.opts<GpuOptions>()
      await watch(session, shell, options, async () => {
        const found = await readOffers(session.client)
        const offers = found.filter((offer) => fits(offer, options) && (options.all === true || isFree(offer)))
        return { onWire: offers.map(offerOnWire), lines: offerLines(session.screen, offers) }
      })
    }),
  )
}

/** Of `offerCells`. */
export const offerColumns = [
  { title: 'GPU', shrink: true },
  { title: 'GPUS', right: true },
  { title: 'KIND' },
  { title: 'REGION' },
  { title: '$/GPU', right: true },
  { title: 'FREE', right: true },
  { title: 'WHERE', shrink: true },
] as const

function offerLines(screen: Screen, offers: readonly Offer[]): string[] {
  if (offers.length === 0) {
    return ['Nothing of the kind is free.', 'berth gpus --all shows also what is taken; fewer options show more.']
  }
  return [
    ...table(screen, offerColumns, offers.map(offerCells)),
    '',
    `${count(offers.length, 'offer')}, at prices for a GPU and hour. berth rent takes the same options.`,
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
    whereWords(offer),
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

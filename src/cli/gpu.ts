/** `berth gpus`: everything that can be rented, in one table, and with --watch as it changes. */
import type { Command } from 'commander'
import { formatUsd, formatUsdForPeople } from '../base/money.ts'
import { pause } from '../client/pause.ts'
import { addOfferFilters, fits, isFree, readOffers, whereWords, type Offer, type OfferFilter } from './offer.ts'
import { table, type Cell, type Screen } from './screen.ts'
import type { Run } from './session.ts'
import type { Shell } from './shell.ts'
import { parseWhole } from './supply.ts'
import { count } from './wording.ts'

const LONGEST_WAIT_S = 3_600
/** Where the terminal begins again, and everything below it is gone. */
const FROM_THE_TOP = '\u001B[H\u001B[J'

interface GpuOptions extends OfferFilter {
  readonly all?: true
  readonly watch?: true
  readonly every: number
}

export function addGpuCommands(program: Command, run: Run, shell: Shell): void {
  const gpus = addOfferFilters(program.command('gpus').description('what can be rented, and at which price'))
    .option('--all', 'also what is taken')
    .option('-w, --watch', 'look again and again, until Ctrl-C')
    .option('--every <s>', 'with --watch: seconds between two looks', parseWhole(1, LONGEST_WAIT_S), 2)
  gpus.action(
    run('anyone', async ({ client, screen, json }) => {
      const { all, watch, every, ...filter } = gpus.opts<GpuOptions>()
      const look = async (): Promise<Offer[]> => {
        const offers = await readOffers(client)
        return offers.filter((offer) => fits(offer, filter) && (all === true || isFree(offer)))
      }
      if (watch !== true) {
        const offers = await look()
        screen.show(offers.map(offerOnWire), () => offerLines(screen, offers))
        return
      }
      const forEver = new AbortController().signal
      for (let before = ''; !forEver.aborted; await pause(every * 1_000, forEver)) {
        const offers = await look()
        const text = JSON.stringify(offers.map(offerOnWire))
        if (text === before) continue
        before = text
        if (shell.columns !== undefined && !json) shell.write(FROM_THE_TOP)
        screen.showLine(offers.map(offerOnWire), () => offerLines(screen, offers).join('\n'))
      }
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

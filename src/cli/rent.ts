/**
 * `berth rent`: the cheapest offer that fits what was asked for, or one of a list where somebody sits in front. The price
 * is shown and agreed to before anything is ordered, and the order says so: at a higher one it is refused. Then what
 * starts is followed until it runs.
 */
import { Option, type Command } from 'commander'
import { formatUsd, formatUsdForPeople, maxUsd, nanoUsdOf, usd, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { Client, Reply } from '../client/client.ts'
import { ApiError } from '../client/error.ts'
import type { NetworkType } from '../contract/shared.ts'
import { earlyEndRule } from '../domain/commitment.ts'
import { lastsWith } from '../domain/runway.ts'
import { quoteTerms, type TermQuote } from '../domain/term.ts'
import { span, utcTime } from '../view/time.ts'
import { hourlyPrice } from '../view/money.ts'
import { parseAmount } from './amount.ts'
import { withWayAgain } from './failure.ts'
import { offerCells, offerColumns } from './gpu.ts'
import { endAfter, parseHours } from './guard.ts'
import {
  addOfferFilters,
  fits,
  isFree,
  priceOf,
  readOffers,
  whereWords,
  type Offer,
  type OfferFilter,
} from './offer.ts'
import {
  callName,
  portWords,
  readDetail,
  simulationWords,
  sshText,
  type MachineDetail,
  type OwnMachine,
} from './own-machine.ts'
import { askFor, confirm, YES } from './question.ts'
import { placeOrder, waitUntilRunning, type Order, type OrderOptions } from './rent-order.ts'
import { fields, printable, table, type Cell, type Screen } from './screen.ts'
import type { Run, Session } from './session.ts'
import { CliError, exitCodes, type ExitCode, type Person, type Shell } from './shell.ts'
import { parseWhole } from './supply.ts'

const MAX_SHOWN = 20
const MAX_DAYS = 3_660
const PORTS = 65_535

interface RentOptions extends OfferFilter, OrderOptions {
  readonly machine?: string
  readonly network?: NetworkType
  readonly days?: number
  readonly thenEnd?: true
  readonly hours?: number
  readonly yes?: true
  readonly wait: boolean
}

export function addRentCommand(program: Command, run: Run, shell: Shell): void {
  const rent = addOfferFilters(program.command('rent').description('rent a machine; shows the price and asks'))
    .option('--machine <name>', 'this machine of the marketplace, as berth gpus shows it')
    .addOption(new Option('--network <type>', 'between machines').choices(['infiniband', 'ethernet']))
    .option('--image <image>', 'containers: what runs, such as debian:12')
    .option('--port <n...>', 'ports to reach from outside: containers, virtual machines', parsePorts)
    .option('--volume <id>', 'bare metal: attach this storage volume', parseWhole(1, 999_999_999))
    .option('--label <text>', 'a name of your own for it')
    .option('--days <n>', 'reserve it for a term, which costs less; not containers', parseWhole(1, MAX_DAYS))
    .option('--then-end', 'with --days: end it with its term, rather than go on')
    .option('--hours <n>', 'end it by itself after so many hours', parseHours)
    .option('--limit <usd>', 'end it by itself when it has cost this much', parseAmount)
    .option('--no-wait', 'do not wait until it runs')
    .option(...YES)
  rent.action(
    run('customer', async (session) => {
      const options = rent.opts<RentOptions>()
      const order = await chooseOrder(session, shell, options)
      const balance = await readBalance(session.client)
      const about = orderLines(session.screen, order, balance)
      if (options.yes === true) for (const line of about) session.screen.remark(line)
      await confirm(shell, 'Rent it?', options.yes === true, about)
      const ordered = placeOrder(session.client, order)
      const id = await withWayAgain(ordered, session, 'berth ls shows whether it is there.')
      return follow(session, order, id, options.wait)
    }),
  )
}

/** An order, and what one should know before it is placed. */
interface Offered extends Order {
  readonly listPrice: NanoUsd
  readonly terms: readonly TermQuote[]
}

async function chooseOrder(session: Session, shell: Shell, options: RentOptions): Promise<Offered> {
  const { machine, network, hours, yes, count, gpu, kind } = options
  const asks = yes === true ? undefined : shell.person
  if (asks === undefined && machine === undefined && gpu === undefined && kind === undefined) {
    throw new CliError(exitCodes.usage, 'Say what to rent.', [
      'With --gpu, --kind or --machine, such as: berth rent --gpu h100 --count 1',
      'berth gpus shows what there is.',
    ])
  }
  const all = await readOffers(session.client)
  const offers = all.filter(
    (offer) =>
      isFree(offer) &&
      fits(offer, options) &&
      (machine === undefined || offer.machine?.node === machine) &&
      (network === undefined || offer.network === network),
  )
  const [cheapest] = offers
  if (cheapest === undefined) {
    throw new CliError(exitCodes.failed, 'Nothing of the kind is free.', [
      'berth gpus --all shows also what is taken; fewer options fit more.',
    ])
  }
  const offer =
    asks === undefined || offers.length === 1 ? cheapest : await chooseOffer(session.screen, shell, asks, offers)
  const gpuCount = await chooseCount(asks, offer, count)
  const label = options.label ?? (asks === undefined ? '' : await askFor(asks, 'Label, if you like', (text) => text))
  checkOptions(offer, options)
  const listPrice = priceOf(offer, gpuCount)
  const terms = offer.kind === 'container' ? [] : await readTerms(session.client, listPrice)
  const term = chooseTerm(terms, options)
  return {
    offer,
    gpuCount,
    pricePerHour: term?.perHour ?? listPrice,
    listPrice,
    term,
    terms,
    ...options,
    label: label === '' ? undefined : label,
    endsAt: hours === undefined ? undefined : endAfter(hours),
  }
}

/** What would be silently left out is refused. */
function checkOptions({ kind }: Offer, { image, volume, port, days, thenEnd }: RentOptions): void {
  if (thenEnd === true && days === undefined) {
    throw new CliError(exitCodes.usage, '--then-end says what follows a term.', ['--days reserves for one.'])
  }
  const misplaced = [
    days !== undefined && kind === 'container' ? '--days is for virtual machines and bare metal' : undefined,
    image !== undefined && kind !== 'container' ? '--image is for containers' : undefined,
    volume !== undefined && kind !== 'metal' ? '--volume is for bare metal' : undefined,
    port !== undefined && kind === 'metal' ? '--port is not for bare metal, whose ports are all open' : undefined,
  ].find((words) => words !== undefined)
  if (misplaced !== undefined) {
    throw new CliError(exitCodes.usage, `${misplaced}, and this is a ${kind} offer.`, ['--kind chooses another.'])
  }
}

async function readTerms(client: Client, listPrice: NanoUsd): Promise<TermQuote[]> {
  return quoteTerms(await client.call('listReserveOptions'), listPrice)
}

function chooseTerm(terms: readonly TermQuote[], { days }: RentOptions): TermQuote | undefined {
  if (days === undefined) return undefined
  const term = terms.find((one) => one.days === days)
  if (term !== undefined) return term
  throw new CliError(exitCodes.usage, `There is no term of ${days} days.`, [
    terms.length === 0 ? 'This server has none: without --days it is on demand.' : `There are: ${termsWords(terms)}`,
  ])
}

/** `--days 30 (−10 %), 90 (−20 %)` */
function termsWords(terms: readonly TermQuote[]): string {
  return `--days ${terms.map(({ days, percentage }) => `${days} (−${percentage} %)`).join(', ')}`
}

async function chooseOffer(screen: Screen, shell: Shell, person: Person, offers: readonly Offer[]): Promise<Offer> {
  const shown = offers.slice(0, MAX_SHOWN)
  const columns = [{ title: '#', right: true }, ...offerColumns] as const
  const rows = shown.map((offer, index) => [String(index + 1), ...offerCells(offer)])
  for (const line of table(screen, columns, rows)) shell.writeError(`${line}\n`)
  const left = offers.length - shown.length
  if (left > 0) shell.writeError(`… and ${left} that cost more: --gpu, --region, --count and --kind choose.\n`)
  return askFor(person, `Which one, 1 to ${shown.length}`, (text) => shown[wholeOf(text) - 1], '1')
}

async function chooseCount(asks: Person | undefined, offer: Offer, count: number | undefined): Promise<number> {
  if (offer.kind !== 'container') return offer.gpuCount
  if (count !== undefined || asks === undefined || offer.gpuCount === 1) return count ?? 1
  const read = (text: string): number | undefined => {
    const n = wholeOf(text)
    return n >= 1 && n <= offer.gpuCount ? n : undefined
  }
  return askFor(asks, `How many GPUs, 1 to ${offer.gpuCount}`, read, '1')
}

const kindWords = { container: 'a container', vm: 'a virtual machine', metal: 'bare metal' } as const

function orderLines(screen: Screen, order: Offered, balance: Reply<'getCustomerBalance'> | undefined): string[] {
  const { offer, gpuCount, endsAt, limit, term, pricePerHour: price } = order
  const perDay = nanoUsdOf(price * 24n)
  return [
    ...fields(screen, [
      ['Rent', { text: `${gpuCount} ${offer.gpu} as ${kindWords[offer.kind]} in ${offer.region}`, style: 'bold' }],
      [offer.machine === undefined ? 'Network' : 'Machine', whereWords(offer)],
      ['Note', simulationWords(offer.simulated)],
      ['Price', `${hourlyPrice(price)}, ${formatUsdForPeople(perDay)} a day`],
      ['Term', termLine(order)],
      ['Hold', term === undefined ? undefined : `${formatUsdForPeople(term.total)}, the price of the whole term`],
      ['Early end', term === undefined ? undefined : earlyEndRule(term)],
      ['Balance', balance === undefined ? 'not for this key to see' : balanceLine(balance, order)],
      ['Ends', endsAt === undefined ? undefined : `at ${utcTime(endsAt)}`],
      ['Limit', limit === undefined ? undefined : `ends when it has cost ${formatUsdForPeople(usd(limit))}`],
    ]),
    '',
  ]
}

function termLine({ term, terms, listPrice, thenEnd }: Offered): string | undefined {
  if (term === undefined) return terms.length === 0 ? undefined : `on demand; for less: ${termsWords(terms)}`
  const then = thenEnd === true ? 'then it ends' : `then ${hourlyPrice(listPrice)}`
  return `${term.days} days at −${term.percentage} %, ${formatUsdForPeople(term.total)} in all; ${then}`
}

/** A reserved order takes its hold from what is available; on demand, the balance lasts for some time. */
function balanceLine(balance: Reply<'getCustomerBalance'>, { term, pricePerHour }: Offered): string {
  if (term === undefined) return lastingWords(balance, pricePerHour)
  const available = usd(balance.availableUsd)
  const credit = nanoUsdOf(usd(balance.creditLineUsd) - usd(balance.creditUsedUsd))
  const onCredit = credit > 0n ? `, and ${formatUsdForPeople(credit)} of credit` : ''
  const missing = nanoUsdOf(term.total - available - maxUsd(credit, zeroUsd))
  const short = missing > 0n ? `: ${formatUsdForPeople(missing)} too little` : ''
  return `${formatUsdForPeople(available)} available${onCredit}${short}`
}

/** With everything that runs already. */
function lastingWords({ balanceUsd, runway }: Reply<'getCustomerBalance'>, price: NanoUsd): string {
  const spending = usd(runway.hourlySpendUsd)
  const lasts = lastsWith({ funds: usd(runway.fundsUsd), hourlySpend: spending }, price)
  const also = spending > 0n ? `, with the ${hourlyPrice(spending)} that runs` : ''
  const words = Number.isFinite(lasts) ? `lasts ${span(lasts)}` : 'lasts for ever'
  return `${formatUsdForPeople(usd(balanceUsd))} ${words}${also}`
}

async function readBalance(client: Client): Promise<Reply<'getCustomerBalance'> | undefined> {
  try {
    return await client.call('getCustomerBalance')
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return undefined
    throw error
  }
}

async function follow(session: Session, order: Order, id: string, wait: boolean): Promise<ExitCode> {
  const { client, screen } = session
  const { kind } = order.offer
  const say = (machine: OwnMachine): void =>
    screen.remark(`${printable(callName(machine))}: ${printable(machine.message ?? machine.status)}`)
  const { machine, raw } = await waitUntilRunning(client, { kind, id }, { wait, say })
  const detail = await readDetail(client, machine)
  const name = callName(machine)
  // What can be pasted into a shell as it stands: a label may hold anything.
  const word = /^[\w.-]+$/.test(name) ? name : machine.name
  const told = {
    id: machine.id,
    name: machine.name,
    kind,
    status: machine.status,
    pricePerHourUsd: formatUsd(machine.pricePerHour),
    sshCommand: sshText(machine),
    simulated: detail.simulated,
    portMappings: detail.portMappings,
    rental: raw,
  }
  screen.show(told, () =>
    wait
      ? [
          '',
          ...fields(screen, [
            ['Name', name === machine.name ? name : `${printable(name)} (${machine.name})`],
            ...loginRows(detail, machine, word),
            ...portWords(detail).map((words) => ['Port', words] as const),
            ['End it', `berth terminate ${word}`],
          ]),
        ]
      : [
          `Ordered: ${printable(name)}. berth ls shows when it runs.`,
          ...[simulationWords(detail.simulated)].flatMap((words) => (words === undefined ? [] : [`Note: ${words}.`])),
        ],
  )
  return exitCodes.ok
}

/** Nobody is told to log in where nobody can. */
function loginRows(
  { simulated }: MachineDetail,
  machine: OwnMachine,
  word: string,
): Array<readonly [name: string, value: Cell]> {
  const note = simulationWords(simulated)
  const noteRows = note === undefined ? [] : [['Note', note] as const]
  if (simulated === 'machine') return noteRows
  return [['Log in', { text: `berth ssh ${word}`, style: 'bold' }], ['Or', sshText(machine)], ...noteRows]
}

function wholeOf(text: string): number {
  return /^\d{1,4}$/.test(text) ? Number.parseInt(text, 10) : 0
}

function parsePorts(text: string, before: readonly number[] = []): number[] {
  return [...before, parseWhole(1, PORTS)(text)]
}

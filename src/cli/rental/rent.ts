/**
 * `berth rent`: the cheapest matching offer, or one chosen from a list at a terminal. The price is confirmed first and
 * sent with the order, which is rejected at a higher price. Then the machine is followed until it runs.
 */
import { span, utcTime } from '../../view/time.ts'
import { formatUsd, formatUsdForPeople, maxUsd, nanoUsdOf, usd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { Client, Reply } from '../../client/client.ts'
import { ApiError } from '../../client/error.ts'
import { MAX_WAIT_SECONDS } from '../../contract/interruption.ts'
import { earlyEndRule } from '../../domain/commitment.ts'
import { lastsWith } from '../../domain/runway.ts'
import { quoteDisk, quoteTerms, type DiskOffer, type TermQuote } from '../../domain/term.ts'
import { secretsIn } from '../../domain/workload.ts'
import { displayName, machineOf, type OwnMachine } from '../../view/own-machine.ts'
import { withCheckHint } from '../kit/failure.ts'
import { parseWhole } from '../kit/flag.ts'
import { offerColumns } from './gpu.ts'
import { isFree, offerFilters, placeOf, priceOf, readDiskOffer, readOffers, type Offer } from './offer.ts'
import { isMatch, noneFree, type OfferFilter } from './offer-filter.ts'
import { loginFacts, portFacts, simulationNote, typedName } from './own-machine.ts'
import { interruptionLine, readInterruptionOffers, waitLine } from './interruptible-offer.ts'
import { askFor, confirm } from '../kit/question.ts'
import { parseHours, timeAfter } from './rental-change.ts'
import { readLike } from './rent-like.ts'
import type { WorkloadFields } from '../../view/ordered.ts'
import { idleText } from '../../view/rental.ts'
import { withVolumeIds, workloadFields, workloadOptions, type WorkloadFlags } from './rent-option.ts'
import { bodyOf, placeOrder, waitUntilRunning, type Order, type OrderOptions } from './rent-order.ts'
import { custom } from '../kit/row.ts'
import { tableOf } from '../kit/record.ts'
import { bold, type Content, type Screen } from '../kit/screen.ts'
import type { Session } from './session.ts'
import { CliError, exitCodes, type ExitCode, type Person, type Shell } from '../kit/shell.ts'
import type { Row } from '../kit/row-type.ts'

const OFFERS_SHOWN = 20
const MAX_DAYS = 3_660

interface RentOptions extends OfferFilter, OrderOptions, WorkloadFlags {
  readonly like?: string
  readonly days?: number
  readonly terminateAfterTerm?: true
  readonly hours?: number
  readonly yes?: true
  readonly dryRun?: true
  readonly wait: boolean
}

export const rows: readonly Row[] = [
  custom<RentOptions>('rent', 'rent a machine; shows the price and asks first', {
    operation: 'createRental',
    only: ['spendingLimitUsd'],
    flags: { spendingLimitUsd: 'terminate it when its cost reaches this amount' },
    options: {
      ...offerFilters,
      '--machine <name>': 'this marketplace machine, as shown by berth gpus ls',
      '--network <type>': { help: 'network between machines', choices: ['infiniband', 'ethernet'] },
      '--image <image>': 'containers: image to run, such as debian:12',
      ...workloadOptions,
      '--like <name>': 'with the settings of this machine of yours, also an ended one',
      '--volume <id>': { help: 'bare metal: storage volume to attach', parse: parseWhole(1, 999_999_999) },
      '--label <text>': 'your own name for it',
      '--days <n>': {
        help: 'reserve it for this many days at a discount; not for containers',
        parse: parseWhole(1, MAX_DAYS),
      },
      '--terminate-after-term': 'with --days: terminate it when the term ends',
      '--interruptible': 'containers: at the lower price, where an order at the full price may take its GPUs',
      '--after-interruption <action>': { help: 'with --interruptible', choices: ['start', 'terminate'] },
      '--max-wait <seconds>': {
        help: 'containers: if no GPUs are free, wait so long for those of interruptible rentals',
        parse: parseWhole(1, MAX_WAIT_SECONDS),
      },
      '--hours <n>': { help: 'terminate it after this many hours', parse: parseHours },
      '--no-wait': 'do not wait until it is running',
      '--dry-run': 'show the machine and its price, and rent nothing',
    },
    confirms: true,
    run: async (call) => {
      const { session, shell, options } = call
      const order = await chooseOrder(session, shell, await completeOptions(session.client, shell, options))
      const about = describeOrder(order, await readBalance(session.client))
      if (options.dryRun === true) {
        const onWire = { order: bodyOf(order), pricePerHourUsd: formatUsd(order.pricePerHour), dryRun: true }
        session.screen.show(onWire, () => [...about, 'Nothing was rented. To rent it, leave out --dry-run.'])
        return exitCodes.ok
      }
      if (options.yes === true) session.screen.remark(...about)
      await confirm(call, 'Rent it?', about)
      const id = await withCheckHint(
        placeOrder(session.client, order),
        session,
        'To see whether it was ordered: berth ls',
      )
      return follow(session, id, options.wait)
    },
    examples: [
      'berth rent',
      'berth rent --gpu 4090 --image debian:12 --port 8080 --label web',
      'berth rent --template tpl_jupyter --gpu a100 --idle 30:stop',
      'berth rent --gpu h100 --dry-run',
      'berth rent --gpu h100 --mount datasets:/data --mount models:/models:ro',
      'berth rent --like web --label web-2',
      'berth rent --gpu 4090 --interruptible --after-interruption terminate',
      'berth rent --gpu h100 --max-wait 300',
      'berth rent --kind vm --gpu h100 --count 2 --hours 8 --yes',
      'berth rent --kind metal --gpu h100 --network infiniband --volume 1',
      'berth rent --kind vm --gpu h100 --days 30 --terminate-after-term',
    ],
  }),
]

/** An order, and what one should know before it is placed. */
interface Offered extends Order {
  readonly chosenTemplate: Template | undefined
  readonly listPrice: NanoUsd
  readonly terms: readonly TermQuote[]
  readonly diskOffer: DiskOffer | undefined
}

/** The options, and the fields of the order that they stand for; those of `--like` where nothing else is said. */
interface Completed extends RentOptions {
  readonly workload: WorkloadFields
  readonly chosenTemplate: Template | undefined
}
type Template = Reply<'getTemplate'>

async function completeOptions(client: Client, shell: Shell, typed: RentOptions): Promise<Completed> {
  const options = await withVolumeIds(client, typed)
  const { template: id } = options
  const chosenTemplate = id === undefined ? undefined : await client.call('getTemplate', { params: { id } })
  // The version that is shown is the one that is ordered.
  const pinned = chosenTemplate === undefined ? {} : { templateId: `${chosenTemplate.id}@${chosenTemplate.version}` }
  const workloadOptions = { ...workloadFields(shell, options), ...pinned }
  if (options.like === undefined) return { ...options, workload: workloadOptions, chosenTemplate }
  const like = await readLike(client, options.like)
  const { workload, ...choices } = like
  // Another machine may be chosen for the same settings.
  const isElsewhere = [options.gpu, options.machine, options.region].some((one) => one !== undefined)
  const { machine: _, gpu: __, region: ___, ...settings } = choices
  return {
    ...(isElsewhere ? settings : choices),
    ...options,
    workload: { ...workload, ...workloadOptions },
    chosenTemplate,
  }
}

async function chooseOrder(session: Session, shell: Shell, options: Completed): Promise<Offered> {
  const { machine, hours, yes, dryRun, count, gpu, kind } = options
  const asks = yes === true || dryRun === true ? undefined : shell.person
  if (asks === undefined && machine === undefined && gpu === undefined && kind === undefined) {
    throw new CliError(exitCodes.usage, 'Choose what to rent with --gpu, --kind or --machine.', [
      'Example: berth rent --gpu h100 --count 1',
      'To see what you can rent: berth gpus ls',
    ])
  }
  const all = await readOffersFor(session.client, options)
  const offers = all.filter((offer) => isFree(offer) && isMatch(offer, options))
  const [cheapest] = offers
  if (cheapest === undefined) throw noneFree(all, options)
  const offer =
    asks === undefined || offers.length === 1 ? cheapest : await chooseOffer(session.screen, shell, asks, offers)
  const gpuCount = await chooseCount(asks, offer, count)
  const label = options.label ?? (asks === undefined ? '' : await askFor(asks, 'Label (optional)', (text) => text))
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
    diskOffer: await readDiskOffer(session.client, offer, gpuCount),
    ...options,
    label: label === '' ? undefined : label,
    endsAt: hours === undefined ? undefined : timeAfter(hours),
  }
}

/** Only containers can be interrupted, or wait for others that can. */
async function readOffersFor(
  client: Client,
  { interruptible, maxWait, afterInterruption }: RentOptions,
): Promise<Offer[]> {
  if (interruptible === true && maxWait !== undefined)
    throw new CliError(exitCodes.usage, '--max-wait is not for --interruptible: such a rental interrupts no others.')
  if (afterInterruption !== undefined && interruptible !== true)
    throw new CliError(exitCodes.usage, '--after-interruption needs --interruptible.')
  if (interruptible === undefined && maxWait === undefined) return readOffers(client)
  return readInterruptionOffers(client, {
    ...(interruptible === undefined ? {} : { interruptible }),
    ...(maxWait === undefined ? {} : { maxWait }),
  })
}

/** Rejects options that the chosen kind would ignore. */
function checkOptions({ kind }: Offer, { image, volume, port, days, terminateAfterTerm }: RentOptions): void {
  if (terminateAfterTerm === true && days === undefined) {
    throw new CliError(exitCodes.usage, '--terminate-after-term needs --days.')
  }
  const misplaced = [
    days !== undefined && kind === 'container' ? '--days is for virtual machines and bare metal' : undefined,
    image !== undefined && kind !== 'container' ? '--image is for containers' : undefined,
    volume !== undefined && kind !== 'metal' ? '--volume is for bare metal; use --mount' : undefined,
    port !== undefined && kind === 'metal' ? '--port is not for bare metal, where all ports are open' : undefined,
  ].find((words) => words !== undefined)
  if (misplaced !== undefined) {
    throw new CliError(exitCodes.usage, `${misplaced}, and this offer is a ${kind}.`, [
      'To choose another kind, add --kind.',
    ])
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
    terms.length === 0
      ? 'This server has no terms. Without --days the rental is on demand.'
      : `Terms: ${termsText(terms)}`,
  ])
}

/** `--days 30 (-10%), 90 (-20%)` */
function termsText(terms: readonly TermQuote[]): string {
  return `--days ${terms.map(({ days, percentage }) => `${days} (-${percentage}%)`).join(', ')}`
}

async function chooseOffer(screen: Screen, shell: Shell, person: Person, offers: readonly Offer[]): Promise<Offer> {
  const cheapest = offers.slice(0, OFFERS_SHOWN)
  const hiddenCount = offers.length - cheapest.length
  const about = [
    tableOf(cheapest, [{ '#': (offer) => String(cheapest.indexOf(offer) + 1) }, ...offerColumns]),
    hiddenCount > 0
      ? `… and ${hiddenCount} more expensive ones. Narrow the list with --gpu, --region, --count or --kind.`
      : undefined,
  ]
  for (const line of screen.render(about)) shell.writeError(`${line}\n`)
  return askFor(person, `Offer (1 to ${cheapest.length})`, (text) => cheapest[wholeOf(text) - 1], '1')
}

async function chooseCount(asks: Person | undefined, offer: Offer, count: number | undefined): Promise<number> {
  if (offer.kind !== 'container') return offer.gpuCount
  if (count !== undefined || asks === undefined || offer.gpuCount === 1) return count ?? 1
  const read = (text: string): number | undefined => {
    const n = wholeOf(text)
    return n >= 1 && n <= offer.gpuCount ? n : undefined
  }
  return askFor(asks, `GPUs (1 to ${offer.gpuCount})`, read, '1')
}

const kindNames = { container: 'a container', vm: 'a virtual machine', metal: 'bare metal' } as const

function describeOrder(order: Offered, balance: Reply<'getCustomerBalance'> | undefined): Content[] {
  const { offer, gpuCount, endsAt, spendingLimit, term, pricePerHour: price } = order
  const { idle, stopAt } = order.workload
  const perDay = nanoUsdOf(price * 24n)
  return [
    ['Rent', bold(`${gpuCount} ${offer.gpu} as ${kindNames[offer.kind]} in ${offer.region}`)],
    [offer.machine === undefined ? 'Network' : 'Machine', placeOf(offer)],
    ['Note', simulationNote(offer.simulated)],
    ['Template', order.chosenTemplate && templateText(order.chosenTemplate)],
    ['Secrets', order.chosenTemplate && secretsText(order.chosenTemplate, order.workload)],
    ['Price', `${formatUsdForPeople(price)}/hr, ${formatUsdForPeople(perDay)} per day`],
    ['While stopped', stoppedLine(order)],
    ['Interruption', interruptionLine(offer, { ...order, after: order.afterInterruption ?? 'start' })],
    ['Wait', waitLine(offer, gpuCount)],
    ['Term', termLine(order)],
    ['Hold', term === undefined ? undefined : `${formatUsdForPeople(term.total)}, the price of the whole term`],
    ['Early end', term === undefined ? undefined : earlyEndRule(term)],
    ['Balance', balance === undefined ? 'not visible to this API key' : balanceLine(balance, order)],
    ['Terminates', endsAt === undefined ? undefined : `at ${utcTime(endsAt)}`],
    ['Stops', stopAt === undefined ? undefined : `at ${utcTime(stopAt)}`],
    ['Idle', idle && idleText(idle)],
    ['Spending limit', spendingLimit === undefined ? undefined : formatUsdForPeople(usd(spendingLimit))],
    '',
  ]
}

const authors = { account: '', operator: ', from the operator', other: ', from another account' } as const

function templateText({ name, id, version, owner }: Template): string {
  return `${name} (${id}, version ${version})${authors[owner]}`
}

/** The secrets that the template asks for, and whether it gets them. undefined: none. */
function secretsText({ secrets, owner }: Template, workload: WorkloadFields): string | undefined {
  if (secrets.length === 0) return undefined
  if (owner === 'account') return `uses ${secrets.join(', ')}`
  // A secret that the order refers to itself is in the template's reach anyway.
  const allowed = [...(workload.secrets ?? []), ...secretsIn(JSON.stringify(workload))]
  const state = (name: string): string => (allowed.includes(name) ? 'allowed' : 'not allowed')
  return `asks for ${secrets.map((name) => `${name} (${state(name)})`).join(', ')}`
}

/** undefined: the machine cannot be stopped. */
function stoppedLine({ diskOffer: disk, term, listPrice, workload, chosenTemplate }: Offered): string | undefined {
  if (disk === undefined || term !== undefined) return undefined
  const { gb, stoppedPrice } = quoteDisk(disk, workload.diskGb ?? chosenTemplate?.diskGb ?? null, listPrice)
  return stoppedPrice === null ? undefined : `${formatUsdForPeople(stoppedPrice)}/hr for its disk of ${gb} GB`
}

function termLine({ term, terms, listPrice, terminateAfterTerm }: Offered): string | undefined {
  if (term === undefined) return terms.length === 0 ? undefined : `on demand; at a discount: ${termsText(terms)}`
  const then = terminateAfterTerm === true ? 'then it terminates' : `then ${formatUsdForPeople(listPrice)}/hr`
  return `${term.days} days at -${term.percentage}%, ${formatUsdForPeople(term.total)} in total; ${then}`
}

/** A reserved order needs its whole price available; on demand, the balance lasts for some time. */
function balanceLine(balance: Reply<'getCustomerBalance'>, { term, pricePerHour }: Offered): string {
  if (term === undefined) return lastingText(balance, pricePerHour)
  const available = usd(balance.availableUsd)
  const credit = nanoUsdOf(usd(balance.creditLineUsd) - usd(balance.creditUsedUsd))
  const onCredit = credit > 0n ? `, and ${formatUsdForPeople(credit)} of credit` : ''
  const missing = nanoUsdOf(term.total - available - maxUsd(credit, zeroUsd))
  const short = missing > 0n ? `: ${formatUsdForPeople(missing)} short` : ''
  return `${formatUsdForPeople(available)} available${onCredit}${short}`
}

/** Including current spend. */
function lastingText({ balanceUsd, runway }: Reply<'getCustomerBalance'>, price: NanoUsd): string {
  const spending = usd(runway.hourlySpendUsd)
  const lasts = lastsWith({ funds: usd(runway.fundsUsd), hourlySpend: spending }, price)
  const also = spending > 0n ? `, with the current ${formatUsdForPeople(spending)}/hr` : ''
  const words = Number.isFinite(lasts) ? `lasts ${span(lasts)}` : 'lasts indefinitely'
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

async function follow(session: Session, id: string, wait: boolean): Promise<ExitCode> {
  const { client, screen } = session
  const say = (machine: OwnMachine): void =>
    screen.remark(`${displayName(machine)}: ${machine.message ?? machine.status}`)
  const rental = await waitUntilRunning(client, id, { wait, say })
  const machine = machineOf(rental)
  const name = displayName(machine)
  const note = simulationNote(rental.simulated)
  const login = await loginFacts(client, rental)
  const typed = await typedName(client, machine)
  screen.show(rental, () =>
    wait
      ? [
          '',
          ['Name', name === machine.name ? name : `${name} (${machine.name})`],
          ...login,
          ['Note', note],
          ...portFacts(rental),
          ['Terminate', `berth terminate ${typed}`],
        ]
      : [`Ordered ${name}. To see when it runs: berth ls`, note === undefined ? undefined : `Note: ${note}.`],
  )
  return exitCodes.ok
}

function wholeOf(text: string): number {
  return /^\d{1,4}$/.test(text) ? Number.parseInt(text, 10) : 0
}

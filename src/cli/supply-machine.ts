/**
 * `berth supply machines`, `price`, `list` and `unlist`: what a supplier has on sale, and for how much. A machine and
 * the host that runs it have one name; the catalogue says how it is sold, the host whether it is heard or has left.
 */
import { InvalidArgumentError, type Command } from 'commander'
import { limits } from '../base/limits.ts'
import type { Client, Reply } from '../client/client.ts'
import { priceUsdText } from '../contract/shared.ts'
import { count } from '../view/number.ts'
import { gpuLabel } from '../view/gpu.ts'
import { money } from '../view/money.ts'
import { withNextStep, type NextSteps } from './failure.ts'
import type { OfferKind } from './offer.ts'
import { table, type Cell, type Screen, type Style } from './screen.ts'
import type { Run } from './session.ts'
import { moreOr, parseName, parseWhole, type HostRow } from './supply.ts'

const HOST_PAGES = 50
const WHICH = 'as berth supply machines shows it'

type Machine = Reply<'changeSuppliedMachine'>

interface Supplied {
  readonly machine: Machine
  /** undefined: an engine of the house runs it. */
  readonly host: HostRow | undefined
}

/** Under `berth supply`. */
export function addSupplyMachineCommands(supply: Command, run: Run): void {
  addMachines(supply, run)
  addPrice(supply, run)
  addListing(supply, run, 'list', true)
  addListing(supply, run, 'unlist', false)
}

interface ListOptions {
  readonly all?: true
  readonly limit: number
  readonly cursor?: string
}

function addMachines(supply: Command, run: Run): void {
  const machines = supply
    .command('machines')
    .description('your machines: price, and how much is rented')
    .option('--all', 'also those that have left')
    .option('-n, --limit <count>', 'how many', parseWhole(1, limits.pageRows), limits.pageRowsDefault)
    .option('--cursor <cursor>', 'go on where a long list was cut')
  machines.action(
    run('operator', async ({ client, screen, json }) => {
      const { all = false, limit, cursor } = machines.opts<ListOptions>()
      const query = { limit, ...(cursor === undefined ? {} : { cursor }) }
      const page = await client.call('listSuppliedMachines', { query })
      const hosts = json || page.machines.length === 0 ? new Map<string, HostRow>() : await readHosts(client)
      const supplied = page.machines.map((machine): Supplied => ({ machine, host: hosts.get(machine.id) }))
      screen.show(page, () => {
        if (supplied.length === 0) return noMachines
        const again = ['berth supply machines', ...(all ? ['--all'] : []), ...limitWords(limit)].join(' ')
        return [
          ...listLines(screen, supplied, all),
          '',
          moreOr(page.nextCursor, again, endWords(supplied)),
          ...leftWords(supplied, all),
        ]
      })
    }),
  )
}

const noMachines = [
  'You have no machines here.',
  'One joins with: berth supply token. Those that have just joined are in',
  'berth supply hosts; those of the house are in berth operator fleet.',
]

function limitWords(limit: number): string[] {
  return limit === limits.pageRowsDefault ? [] : [`--limit ${limit}`]
}

function listLines(screen: Screen, supplied: readonly Supplied[], all: boolean): string[] {
  const shown = supplied.filter((one) => all || !hasLeft(one))
  return shown.length === 0 ? ['None of these machines is here any more.'] : table(screen, columns, shown.map(cellsOf))
}

const columns = [
  { title: 'MACHINE' },
  { title: 'STATE' },
  { title: 'REGION', shrink: true },
  { title: 'GPUS', shrink: true },
  { title: 'RENTED', right: true },
  { title: '$/GPU', right: true },
  { title: 'KIND' },
  { title: 'AGENT', shrink: true },
] as const

function cellsOf(one: Supplied): Cell[] {
  const { id, region, gpuModel, gpusTotal, gpusInUse, gpusSick, offering } = one.machine
  const { word, style } = standingOf(one)
  const sick = gpusSick.length === 0 ? '' : `, ${gpusSick.length} sick`
  return [
    id,
    { text: word, style },
    region,
    `${gpusTotal} ${gpuLabel(gpuModel)}${sick}`,
    `${gpusInUse} of ${gpusTotal}`,
    priceWords(one.machine),
    kindWords[offering],
    one.host?.agentVersion ?? '',
  ]
}

const kindWords = {
  marketplace: 'container',
  'virtual-machine': 'vm',
  'bare-metal': 'metal',
} as const satisfies Record<Machine['offering'], OfferKind>

function priceWords({ offering, pricePerGpuHourUsd: price }: Machine): string {
  if (offering !== 'marketplace') return 'house'
  return price === null ? 'none' : money(price)
}

function endWords(supplied: readonly Supplied[]): string {
  const here = supplied.filter((one) => !hasLeft(one))
  const onSale = here.filter((one) => standingOf(one).word === ON_SALE).length
  const gpus = here.reduce((sum, { machine }) => sum + machine.gpusTotal, 0)
  const inUse = here.reduce((sum, { machine }) => sum + machine.gpusInUse, 0)
  const rented = `${inUse} of ${count(gpus, 'GPU')} rented`
  return `${count(here.length, 'machine')}, ${onSale} on sale; ${rented}. Prices are for a GPU and hour.`
}

function leftWords(supplied: readonly Supplied[], all: boolean): string[] {
  const left = supplied.filter(hasLeft).length
  if (left === 0) return []
  const words = `${left} more ${left === 1 ? 'has' : 'have'} left`
  return [all ? `${words}.` : `${words}: berth supply machines --all`]
}

const ON_SALE = 'on sale'

interface Standing {
  readonly word: string
  readonly style: Style
}

const statuses: Readonly<Record<string, Standing>> = {
  node_draining: { word: 'draining', style: 'yellow' },
  node_cleaning: { word: 'cleaning', style: 'yellow' },
  node_quarantined: { word: 'quarantine', style: 'red' },
  node_lost: { word: 'lost', style: 'red' },
}

function standingOf({ machine, host }: Supplied): Standing {
  if (host?.state === 'left') return { word: 'left', style: 'dim' }
  if (host?.isSilent === true && (host.state === 'ready' || host.state === 'draining')) {
    return { word: 'silent', style: 'red' }
  }
  const other = statuses[machine.status]
  if (other !== undefined) return other
  if (!machine.listed) return { word: 'off sale', style: 'yellow' }
  if (priceWords(machine) === 'none') return { word: 'no price', style: 'yellow' }
  return { word: ON_SALE, style: 'green' }
}

function hasLeft({ host }: Supplied): boolean {
  return host?.state === 'left'
}

/** By name. They are asked for what the catalogue does not say: who is silent, and who has left. */
async function readHosts(client: Client): Promise<Map<string, HostRow>> {
  const hosts = new Map<string, HostRow>()
  let cursor: string | undefined
  for (let n = 0; n < HOST_PAGES; n += 1) {
    const query = { limit: limits.pageRows, ...(cursor === undefined ? {} : { cursor }) }
    const page = await client.call('listSuppliedHosts', { query })
    for (const host of page.hosts) hosts.set(host.id, host)
    if (page.nextCursor === null) break
    cursor = page.nextCursor
  }
  return hosts
}

function addPrice(supply: Command, run: Run): void {
  supply
    .command('price')
    .description('its price for new rentals, a GPU and hour')
    .argument('<machine>', WHICH, parseName)
    .argument('<usd>', 'from 0 to 1000, such as 1.20', parsePrice)
    .action(
      run('operator', async ({ client, screen }, id = '', price = '') => {
        const body = { pricePerGpuHourUsd: price }
        const machine = await withNextStep(client.call('changeSuppliedMachine', { params: { id }, body }), nextSteps)
        screen.show(machine, () => [
          `${machine.id} costs ${priceWords(machine)} a GPU and hour. What runs keeps its price.`,
          ...(machine.listed ? [] : [`It is off sale. Put it on sale with: berth supply list ${machine.id}`]),
        ])
      }),
    )
}

function addListing(supply: Command, run: Run, verb: 'list' | 'unlist', listed: boolean): void {
  supply
    .command(verb)
    .description(listed ? 'put it on sale again, after unlist' : 'take it off sale; what runs goes on')
    .argument('<machine>', WHICH, parseName)
    .action(
      run('operator', async ({ client, screen }, id = '') => {
        const call = client.call('changeSuppliedMachine', { params: { id }, body: { listed } })
        const machine = await withNextStep(call, nextSteps)
        screen.show(machine, () => [listed ? onSaleWords(machine) : offSaleWords(machine)])
      }),
    )
}

function onSaleWords(machine: Machine): string {
  const { id } = machine
  const { word } = standingOf({ machine, host: undefined })
  const price = priceWords(machine)
  if (price === 'none') return `${id} has no price yet. It is on sale with: berth supply price ${id} USD`
  if (word !== ON_SALE) return `${id} is on sale again when it is no longer ${word}.`
  return `${id} is on sale at ${price === 'house' ? 'the house price' : `${price} a GPU and hour`}.`
}

function offSaleWords({ id, gpusInUse }: Machine): string {
  const stay =
    gpusInUse === 0 ? 'Nothing runs on it now.' : `What runs on it (${count(gpusInUse, 'GPU')}) goes on at its price.`
  return `${id} is off sale. ${stay}`
}

/** By the reason of a refusal. */
const nextSteps: NextSteps = {
  machine_not_found: ['berth supply machines lists yours.'],
  priced_by_the_book: ['Virtual machines and bare metal are sold at the price book of the operator.'],
}

export function parsePrice(text: string): string {
  if (!priceUsdText.safeParse(text).success) throw new InvalidArgumentError('A price from 0 to 1000, such as 1.20.')
  return text
}

/** `berth supply`: join tokens, hosts, machines and earnings of a supplier. With an operator's key, those of the house. */
import { money } from '../view/money.ts'
import { gpuLabel } from '../view/gpu.ts'
import { count } from '../view/number.ts'
import { utcTime } from '../view/time.ts'
import { systemClock } from '../base/instant.ts'
import { parseUsd } from '../base/money.ts'
import type { Client, Reply } from '../client/client.ts'
import { hostColumns, tenants, type Host } from './host.ts'
import { act, list, show } from './row.ts'
import { fields, table, toneStyles, type Cell, type Screen } from './screen.ts'
import { limits } from '../base/limits.ts'
import { ON_SALE, standingOf } from '../view/supply.ts'
import type { Row } from './row-type.ts'

type Machine = Reply<'changeSuppliedMachine'>
type Earnings = Reply<'getEarnings'>

const HOST = { name: '<host>', help: 'name, as shown by berth supply hosts', field: 'id' }
const MACHINE = { name: '<machine>', help: 'name, as shown by berth supply machines', field: 'id' }
const MAX_HOST_PAGES = 50
/** Longer periods show only the days with sales. */
const MAX_EMPTY_DAYS = 31

const tokenRows: readonly Row[] = [
  act({
    command: 'supply token',
    operation: 'createJoinToken',
    description: 'create a join token',
    flags: {
      uses: { help: 'how many machines can join with it' },
      expiresInHours: { flag: '--hours <n>', help: 'hours until it expires' },
    },
    // The server may have another name over there; this is the one that has just worked.
    onWire: (made, { client }) => ({ ...made, command: joinCommand(client, made.token) }),
    done: (made, { screen, client }) => [
      ...fields(screen, [
        ['Token', { text: made.token, style: 'bold' }],
        ['Valid for', `${count(made.usesLeft, 'machine')}, until ${utcTime(made.expiresAt)}`],
        ['Owner', made.supplierId ?? 'the operator'],
      ]),
      '',
      'Save it now: it is not shown again. On the machine that joins, run:',
      `  ${joinCommand(client, made.token)}`,
    ],
    examples: ['berth supply token --uses 4 --hours 2'],
  }),
  list({
    command: 'supply tokens',
    operation: 'listJoinTokens',
    rows: 'tokens',
    description: 'list active join tokens',
    noun: 'token',
    empty: ['There are no active join tokens.', 'To create one: berth supply token'],
    columns: [
      { title: 'ID', of: (one) => one.id },
      { title: 'USES LEFT', right: true, of: (one) => String(one.usesLeft) },
      { title: 'CREATED', of: (one) => utcTime(one.createdAt) },
      { title: 'EXPIRES', of: (one) => utcTime(one.expiresAt) },
    ],
    hint: 'To revoke one: berth supply tokens revoke ID',
    examples: ['berth supply tokens'],
  }),
  act({
    command: 'supply tokens revoke',
    operation: 'revokeJoinToken',
    description: 'revoke a join token; machines that have joined stay',
    args: [{ name: '<id>', help: 'id, as shown by berth supply tokens', field: 'id' }],
    done: (_, { args }) => `Revoked ${String(args[0])}. No more machines can join with it.`,
    examples: ['berth supply tokens revoke ID'],
  }),
]

function joinCommand({ url }: Client, token: string): string {
  return `npx berth agent join --server ${url} --token ${token}`
}

const hostRows: readonly Row[] = [
  list({
    command: 'supply hosts',
    operation: 'listSuppliedHosts',
    rows: 'hosts',
    description: 'list your hosts and their health',
    noun: 'host',
    empty: ['There are no hosts.', 'To add one, create a join token: berth supply token'],
    columns: hostColumns,
    examples: ['berth supply hosts'],
  }),
  moveRow('drain', 'draining', 'stop accepting new tenants on a host'),
  moveRow('resume', 'ready', 'accept tenants on a host again'),
  moveRow('leave', 'left', 'permanently remove an empty host'),
]

function moveRow(verb: string, state: Host['state'], description: string): Row {
  return act({
    command: `supply ${verb}`,
    operation: 'changeSuppliedHost',
    description,
    args: [HOST],
    fixed: { state },
    done: (host) => `${host.id} ${host.state === 'left' ? 'has left' : `is ${host.state}`}${tenants(host)}.`,
    examples: [`berth supply ${verb} calm-ivory-horse`],
  })
}

type Hosts = ReadonlyMap<string, Host>

const machineRows: readonly Row[] = [
  list<'listSuppliedMachines', 'machines', Hosts, { includeLeft?: true }>({
    command: 'supply machines',
    operation: 'listSuppliedMachines',
    rows: 'machines',
    description: 'list your machines: state, price and use',
    noun: 'machine',
    empty: [
      'You have no machines here.',
      'To add one, create a join token: berth supply token. Machines that have just',
      'joined are in berth supply hosts, those of the operator in berth operator fleet.',
    ],
    options: [{ flag: '--include-left', help: 'include machines that have left' }],
    read: ({ client }) => readHosts(client),
    isShown: ({ id }, { includeLeft }, hosts) => includeLeft === true || hosts.get(id)?.state !== 'left',
    columns: [
      { title: 'MACHINE', of: (machine) => machine.id },
      { title: 'STATE', of: (machine, hosts) => stateCell(machine, hosts.get(machine.id)) },
      { title: 'REGION', shrink: true, of: (machine) => machine.region },
      {
        title: 'GPUS',
        shrink: true,
        of: ({ gpusTotal, gpuModel, gpusSick }) =>
          `${gpusTotal} ${gpuLabel(gpuModel)}${gpusSick.length === 0 ? '' : `, ${gpusSick.length} faulty`}`,
      },
      { title: 'RENTED', right: true, of: ({ gpusInUse, gpusTotal }) => `${gpusInUse} of ${gpusTotal}` },
      { title: '$/GPU', right: true, of: priceOf },
      { title: 'KIND', of: ({ offering }) => kinds[offering] },
      { title: 'AGENT', shrink: true, of: (machine, hosts) => hosts.get(machine.id)?.agentVersion ?? '' },
    ],
    hint: (machines, _, hosts) => {
      const now = systemClock.now()
      const onSale = machines.filter(
        (machine) => standingOf({ machine, host: hosts.get(machine.id) }, now) === ON_SALE,
      ).length
      const sum = (of: (one: Machine) => number): number => machines.reduce((total, one) => total + of(one), 0)
      return `${onSale} on sale; ${sum((one) => one.gpusInUse)} of ${count(
        sum((one) => one.gpusTotal),
        'GPU',
      )} rented. Prices are per GPU-hour.`
    },
    below: (machines, { options }, hosts) => {
      const left = machines.filter(({ id }) => hosts.get(id)?.state === 'left').length
      return left === 0 || options.includeLeft === true
        ? []
        : [`${count(left, 'removed machine')} not shown: berth supply machines --include-left`]
    },
    examples: ['berth supply machines', 'berth supply machines --include-left'],
  }),
  act({
    command: 'supply price',
    operation: 'changeSuppliedMachine',
    description: 'set the price per GPU-hour for new rentals',
    args: [MACHINE, { name: '<usd>', help: 'price from 0 to 1000, such as 1.20', field: 'pricePerGpuHourUsd' }],
    flags: { listed: false },
    done: (machine) => [
      `${machine.id} costs ${priceOf(machine)} per GPU-hour. Running rentals keep their price.`,
      ...(machine.listed ? [] : [`It is off sale. To put it on sale: berth supply list ${machine.id}`]),
    ],
    examples: ['berth supply price calm-ivory-horse 1.99'],
  }),
  listingRow('list', true),
  listingRow('unlist', false),
]

function listingRow(verb: string, listed: boolean): Row {
  return act({
    command: `supply ${verb}`,
    operation: 'changeSuppliedMachine',
    description: listed ? 'put a machine on sale' : 'take a machine off sale; running rentals continue',
    args: [MACHINE],
    flags: { pricePerGpuHourUsd: false },
    fixed: { listed },
    done: (machine) => (listed ? onSaleText(machine) : offSaleText(machine)),
    examples: [`berth supply ${verb} calm-ivory-horse`],
  })
}

const kinds = { marketplace: 'container', 'virtual-machine': 'vm', 'bare-metal': 'metal' } as const

function priceOf({ offering, pricePerGpuHourUsd: price }: Machine): string {
  if (offering !== 'marketplace') return 'book'
  return price === null ? 'none' : money(price)
}

function stateCell(machine: Machine, host: Host | undefined): Cell {
  const { label, tone } = standingOf({ machine, host }, systemClock.now())
  return { text: label.toLowerCase(), style: toneStyles[tone] }
}

function onSaleText(machine: Machine): string {
  const { id } = machine
  const standing = standingOf({ machine, host: undefined }, systemClock.now())
  const price = priceOf(machine)
  if (price === 'none') return `${id} has no price yet. To put it on sale: berth supply price ${id} USD`
  if (standing !== ON_SALE) return `${id} goes on sale when it is no longer ${standing.label.toLowerCase()}.`
  return `${id} is on sale at ${machine.offering === 'marketplace' ? `${price} per GPU-hour` : 'the price in the price book'}.`
}

function offSaleText({ id, gpusInUse }: Machine): string {
  const rest = gpusInUse === 0 ? 'Nothing runs on it.' : `Running rentals (${count(gpusInUse, 'GPU')}) continue.`
  return `${id} is off sale. ${rest}`
}

/** By name: a machine and the host that runs it share one. The host says whether it is offline or has left. */
async function readHosts(client: Client): Promise<Hosts> {
  const hosts = new Map<string, Host>()
  let cursor: string | undefined
  for (let n = 0; n < MAX_HOST_PAGES; n += 1) {
    const query = { limit: limits.pageRows, ...(cursor === undefined ? {} : { cursor }) }
    const page = await client.call('listSuppliedHosts', { query })
    for (const host of page.hosts) hosts.set(host.id, host)
    if (page.nextCursor === null) break
    cursor = page.nextCursor
  }
  return hosts
}

const earningsRow = show<'getEarnings', { by: 'day' | 'machine' }>({
  command: 'supply earnings',
  operation: 'getEarnings',
  description: 'show earnings by day or machine, and payouts',
  flags: { days: { help: 'number of days, including today' } },
  options: [{ flag: '--by <group>', help: 'group by', choices: ['day', 'machine'], default: 'day' }],
  lines: (earnings, { screen, options }) => [
    ...sumLines(screen, earnings),
    '',
    ...(options.by === 'day' ? dayLines(screen, earnings) : machineLines(screen, earnings)),
  ],
  examples: ['berth supply earnings --days 7', 'berth supply earnings --by machine'],
})

function sumLines(screen: Screen, earnings: Earnings): string[] {
  const { byMachine, from, to } = earnings
  const sold = byMachine.reduce((sum, sale) => sum + sale.gpuHoursSold, 0)
  const offered = byMachine.reduce((sum, sale) => sum + (sale.gpuHours ?? 0), 0)
  return fields(screen, [
    ['Unpaid', `${money(earnings.unpaidUsd)}; the operator pays it out`],
    ['Paid out', `${money(earnings.paidOutUsd)} in total`],
    ['Earned', `${money(earnings.earnedUsd)} from ${from} to ${to} (UTC)`],
    ['Occupancy', offered === 0 ? undefined : `${percent((sold / offered) * 100)} of the GPU-hours in that time`],
    ['Platform fee', `${percent(earnings.platformFeePercentage)}, already deducted`],
  ])
}

function dayLines(screen: Screen, { byDay }: Earnings): string[] {
  if (!byDay.some(hasSales)) return NOTHING_EARNED
  const shown = byDay.length <= MAX_EMPTY_DAYS ? byDay : byDay.filter(hasSales)
  return table(
    screen,
    [{ title: 'DAY' }, { title: 'GPU-HOURS', right: true }, { title: 'EARNED', right: true }],
    shown.map((row) => [row.day, hours(row.gpuHoursSold), money(row.earnedUsd)]),
  )
}

function hasSales({ earnedUsd, gpuHoursSold }: Earnings['byDay'][number]): boolean {
  return gpuHoursSold > 0 || parseUsd(earnedUsd) !== 0n
}

const NOTHING_EARNED = [
  'Nothing was earned in this time.',
  'A machine earns while a customer rents its GPUs. Yours: berth supply machines',
]

function machineLines(screen: Screen, { byMachine, machines }: Earnings): string[] {
  if (byMachine.length === 0) return NOTHING_EARNED
  const totals = new Map(machines.map(({ id, earnedUsd }) => [id, earnedUsd]))
  return [
    ...table(
      screen,
      [
        { title: 'MACHINE', shrink: true },
        { title: 'HOURS SOLD', right: true },
        { title: 'OF', right: true },
        { title: 'OCCUPANCY', right: true },
        { title: 'EARNED', right: true },
        { title: 'TOTAL', right: true },
      ],
      byMachine.map((sale): Cell[] => [
        sale.id,
        hours(sale.gpuHoursSold),
        sale.gpuHours === null ? 'not yours' : hours(sale.gpuHours),
        sale.occupancyPercentage === null ? '' : percent(sale.occupancyPercentage),
        money(sale.earnedUsd),
        money(totals.get(sale.id) ?? '0'),
      ]),
    ),
    '',
    `${count(byMachine.length, 'machine')}. Hours are GPU-hours. TOTAL is since the machine joined.`,
  ]
}

/** Less than an hour would be rounded to nothing. */
function hours(value: number): string {
  return value.toLocaleString('en-US', value < 1 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 2 })
}

function percent(value: number): string {
  return `${value.toLocaleString('en-US', { maximumFractionDigits: 2 })}%`
}

export const rows: readonly Row[] = [...tokenRows, ...hostRows, ...machineRows, earningsRow]

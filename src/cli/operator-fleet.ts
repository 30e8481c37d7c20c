/** `berth operator fleet` and `machine`: every machine that can be sold, whoever supplies it, and changes to one. */
import { InvalidArgumentError, Option, type Command } from 'commander'
import { limits } from '../base/limits.ts'
import type { CallInput, Client, Reply } from '../client/client.ts'
import { suppliedMachine } from '../contract/supply.ts'
import { count } from '../view/number.ts'
import { gpuLabel, shortGpuLabel } from '../view/gpu.ts'
import { gpuHourPrice, money } from '../view/money.ts'
import { utcTime } from '../view/time.ts'
import { withNextStep, type NextSteps } from './failure.ts'
import { withReason } from './operator-account.ts'
import { readStuck, stuckLines } from './operator-rental.ts'
import { fields, table, type Cell, type Screen, type Style } from './screen.ts'
import type { Run } from './session.ts'
import { CliError, exitCodes } from './shell.ts'
import { parsePrice } from './supply-machine.ts'
import { parseName, parseWhole } from './supply.ts'

const MAX_PAGES = 50
const LAST_GPU = 63
const NONE = 'none'

type FleetMachine = Reply<'listFleet'>['machines'][number]

/** Under `berth operator`. */
export function addOperatorFleetCommands(operator: Command, run: Run): void {
  addFleet(operator, run)
  addMachine(operator, run)
}

const statuses = ['ready', 'draining', 'cleaning', 'quarantined', 'lost'] as const

interface Filter {
  readonly find?: string
  readonly offering?: FleetMachine['offering']
  readonly status?: (typeof statuses)[number]
}

interface FleetOptions extends Filter {
  readonly wide?: true
  readonly limit: number
  readonly cursor?: string
}

function addFleet(operator: Command, run: Run): void {
  const fleet = operator
    .command('fleet')
    .description('every machine, whoever supplies it')
    .option('--find <text>', 'part of a name, cluster, region, GPU or engine')
    .addOption(new Option('--offering <kind>', 'offered as this only').choices(suppliedMachine.shape.offering.options))
    .addOption(new Option('--status <status>', 'in this state only').choices(statuses))
    .option('--wide', 'also what they are offered as, where, and their price')
    .option(
      '-n, --limit <count>',
      'how many; with a filter at least',
      parseWhole(1, limits.pageRows),
      limits.pageRowsDefault,
    )
    .option('--cursor <cursor>', 'go on where a long list was cut')
  fleet.action(
    run('operator', async ({ client, screen }) => {
      const options = fleet.opts<FleetOptions>()
      const [page, stuck] = await Promise.all([readFleet(client, options), readStuck(client)])
      screen.show(page, () => {
        const warning = stuckLines(screen, stuck)
        return [...fleetLines(screen, page, options), ...(warning.length === 0 ? [] : ['', ...warning])]
      })
    }),
  )
}

function isFiltered({ find, offering, status }: Filter): boolean {
  return [find, offering, status].some((one) => one !== undefined)
}

/**
 * The server has pages only, filters are ours: large pages are searched until enough is found. What is found in a page
 * is shown whole, since its cursor goes on behind it.
 */
async function readFleet(client: Client, options: FleetOptions): Promise<Reply<'listFleet'>> {
  const size = isFiltered(options) ? limits.pageRows : options.limit
  const machines: FleetMachine[] = []
  let { cursor } = options
  for (let n = 0; n < MAX_PAGES && machines.length < options.limit; n += 1) {
    const query = { limit: size, ...(cursor === undefined ? {} : { cursor }) }
    const page = await client.call('listFleet', { query })
    machines.push(...page.machines.filter((machine) => isLike(machine, options)))
    if (page.nextCursor === null) return { machines, nextCursor: null }
    cursor = page.nextCursor
  }
  return { machines, nextCursor: cursor ?? null }
}

function isLike(machine: FleetMachine, { find = '', offering, status }: Filter): boolean {
  const { id, clusterName, region, gpuModel, driver } = machine
  return (
    (offering === undefined || machine.offering === offering) &&
    (status === undefined || statusWord(machine) === status) &&
    [id, clusterName, region, gpuModel, driver].some((text) => text.toLowerCase().includes(find.trim().toLowerCase()))
  )
}

function fleetLines(screen: Screen, { machines, nextCursor }: Reply<'listFleet'>, options: FleetOptions): string[] {
  const more = nextCursor === null ? [] : [`There are more: the same with --cursor ${nextCursor}`]
  if (machines.length > 0) {
    const { wide = false } = options
    const rows = wide
      ? table({ ...screen, columns: undefined }, wideColumns, machines.map(wideCells))
      : table(screen, columns, machines.map(cells))
    return [...rows, '', ...(more.length > 0 ? more : [count(machines.length, 'machine')])]
  }
  if (more.length > 0) return ['No machine of those that were looked at is like that.', ...more]
  if (isFiltered(options)) return ['No machine is like that.', 'berth operator fleet shows all of them.']
  return [
    'There are no machines yet.',
    'They come from engines that are switched on (BERTH_ENGINES) and from hosts:',
    'berth supply token lets one join.',
  ]
}

const columns = [
  { title: 'MACHINE' },
  { title: 'STATUS' },
  { title: 'GPU', shrink: true },
  { title: 'USED', right: true },
  { title: 'SICK' },
  { title: 'ENGINE' },
  { title: 'SUPPLIER', shrink: true },
] as const

function cells(machine: FleetMachine): Cell[] {
  return [
    machine.id,
    statusCell(machine),
    shortGpuLabel(machine.gpuModel),
    `${machine.gpusInUse}/${machine.gpusTotal}`,
    machine.gpusSick.join(','),
    machine.driver,
    machine.supplierId ?? 'the house',
  ]
}

const wideColumns = [
  ...columns,
  { title: 'OFFERING' },
  { title: 'REGION' },
  { title: 'CLUSTER' },
  { title: '$/GPU-HOUR', right: true },
  { title: 'SEEN' },
] as const

function wideCells(machine: FleetMachine): Cell[] {
  return [
    ...cells(machine),
    machine.offering,
    machine.region,
    machine.clusterName,
    priceWord(machine),
    utcTime(machine.seenAt),
  ]
}

const styles: Readonly<Record<string, Style>> = {
  ready: 'green',
  draining: 'yellow',
  cleaning: 'yellow',
  quarantined: 'red',
  lost: 'red',
}

function statusCell(machine: FleetMachine): Cell {
  const word = statusWord(machine)
  return word === 'ready' && !machine.listed
    ? { text: 'off sale', style: 'dim' }
    : { text: word, style: styles[word] ?? 'dim' }
}

function statusWord({ status }: FleetMachine): string {
  return status.replace(/^node_/, '')
}

function priceWord({ pricePerGpuHourUsd }: FleetMachine): string {
  return pricePerGpuHourUsd === null ? 'book' : money(pricePerGpuHourUsd)
}

interface MachineOptions {
  readonly supplier?: string
  readonly list?: true
  readonly unlist?: true
  readonly drain?: true
  readonly resume?: true
  /** USD. */
  readonly price?: string
  readonly sick?: number[]
  readonly reason: string
}

type Change = Omit<CallInput<'changeMachine'>['body'], 'reason'>

function addMachine(operator: Command, run: Run): void {
  const machine = operator
    .command('machine')
    .description('change its supplier, price, sale or GPUs')
    .argument('<machine>', 'as berth operator fleet shows it', parseName)
    .option('--supplier <account>', `hand it to a supplier; ${NONE}: to the house`, parseName)
    .addOption(new Option('--list', 'put it on sale').conflicts('unlist'))
    .option('--unlist', 'take it off sale; what runs goes on')
    .addOption(new Option('--drain', 'take no more tenants on it; those it has stay').conflicts('resume'))
    .option('--resume', 'take tenants again')
    .option('--price <usd>', 'machines of the house: for a GPU and hour; what runs keeps its', parsePrice)
    .option('--sick <gpus>', `all GPUs that you withdraw from sale, such as 0,3; ${NONE}`, parseGpus)
  withReason(machine).action(
    run('operator', async ({ client, screen }, id = '') => {
      const options = machine.opts<MachineOptions>()
      const change = changeOf(options)
      if (Object.keys(change).length === 0) {
        throw new CliError(exitCodes.usage, 'Say what to change.', [
          `Such as: berth operator machine ${id} --drain --reason "new disks"`,
        ])
      }
      const { reason } = options
      const call = client.call('changeMachine', { params: { id }, body: { ...change, reason } })
      const changed = await withNextStep(call, nextSteps)
      screen.show(changed, () => machineLines(screen, changed))
    }),
  )
}

function changeOf({ supplier, list, unlist, drain, resume, price, sick }: MachineOptions): Change {
  return {
    ...(supplier === undefined ? {} : { supplierId: supplier === NONE ? null : supplier }),
    ...(list === undefined && unlist === undefined ? {} : { listed: list === true }),
    ...(drain === undefined && resume === undefined ? {} : { draining: drain === true }),
    ...(price === undefined ? {} : { pricePerGpuHourUsd: price }),
    ...(sick === undefined ? {} : { gpusSick: sick }),
  }
}

function machineLines(screen: Screen, machine: FleetMachine): string[] {
  const { gpusSick, gpusWithdrawn, gpusTotal, gpusInUse, gpuModel } = machine
  const byEngine = gpusSick.filter((gpu) => !gpusWithdrawn.includes(gpu))
  const sick = gpusSick.length === 0 ? 'none' : gpusSick.join(', ')
  return fields(screen, [
    ['Machine', { text: machine.id, style: 'bold' }],
    ['Status', statusCell({ ...machine, listed: true })],
    ['On sale', machine.listed ? 'yes' : 'no'],
    ['Supplier', machine.supplierId ?? 'the house'],
    ['Price', machine.pricePerGpuHourUsd === null ? undefined : gpuHourPrice(machine.pricePerGpuHourUsd)],
    ['GPUs', `${gpusTotal} ${gpuLabel(gpuModel)}, ${gpusInUse} in use`],
    ['Sick GPUs', byEngine.length === 0 ? sick : `${sick} (its engine says so of ${byEngine.join(', ')})`],
    ['Engine', machine.driver],
  ])
}

/** By the reason of a refusal. */
const nextSteps: NextSteps = {
  machine_not_found: ['berth operator fleet lists them.'],
  priced_by_its_supplier: ['You can take it off sale: --unlist'],
  priced_by_the_book: ['berth operator prices has the prices of virtual machines and bare metal.'],
  no_such_gpu: ['They are numbered from 0.'],
  supplier_not_found: ['berth operator accounts lists the accounts; a fee makes one a supplier.'],
}

function parseGpus(text: string): number[] {
  if (text === NONE) return []
  const gpus = text.split(',').map((gpu) => (/^\d{1,2}$/.test(gpu) ? Number.parseInt(gpu, 10) : Number.NaN))
  if (gpus.every((gpu) => gpu <= LAST_GPU)) return gpus
  throw new InvalidArgumentError(`Numbers from 0 to ${LAST_GPU}, such as 0,3. Or: ${NONE}.`)
}

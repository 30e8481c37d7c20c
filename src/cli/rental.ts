/** `berth ls`, `show` and `metrics`: rentals of all three kinds. Ended ones come from the events. */
import { gpuLabel, gpusLabel } from '../view/gpu.ts'
import { money } from '../view/money.ts'
import { count } from '../view/number.ts'
import { age, span, utcTime } from '../view/time.ts'
import { parseInstant, systemClock } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { formatUsdForPeople, sumUsd, usd } from '../base/money.ts'
import type { Client, Reply } from '../client/client.ts'
import { ApiError } from '../client/error.ts'
import type { EventRecord } from '../contract/event.ts'
import { displayName, type OwnMachine } from '../view/own-machine.ts'
import { rentalTones, shortRentalKinds } from '../view/rental.ts'
import type { RentalKind } from '../domain/rental.ts'
import { parseWhole } from './flag.ts'
import {
  findOwn,
  listOwn,
  machinesOf,
  NAME_HELP,
  noMachine,
  pickOwn,
  portWords,
  readDetail,
  readLists,
  simulationWords,
  sshText,
  type MachineDetail,
} from './own-machine.ts'
import { sameCommand } from './page.ts'
import { custom } from './row.ts'
import { fields, printable, table, toneStyles, type Cell, type Fact, type Screen } from './screen.ts'
import { CliError, exitCodes } from './shell.ts'
import { watch } from './watch.ts'
import type { Call, Row } from './row-type.ts'

const ENDED_SHOWN = 20
/** Each one takes a request of its own. */
const MAX_WIDE = 100
const CONCURRENT_CALLS = 8
const REFRESH_S = 5

interface ListOptions {
  readonly wide?: true
  readonly ended?: true
  readonly limit?: number
  readonly cursor?: string
}

export const rows: readonly Row[] = [
  custom<ListOptions>({
    command: 'ls',
    alias: 'rentals',
    who: 'customer',
    description: 'list your machines',
    options: [
      { flag: '--wide', help: 'show more columns: id, start time, SSH command, ports' },
      { flag: '--ended', help: 'list ended machines, newest first; --wide adds costs' },
      {
        flag: '-n, --limit <n>',
        help: `with --ended: rows to show (default: ${ENDED_SHOWN})`,
        parse: parseWhole(1, limits.pageRows),
      },
      { flag: '--cursor <cursor>', help: 'with --ended: continue after the previous page' },
    ],
    canWatch: REFRESH_S,
    run: (call) => {
      const { ended, limit, cursor } = call.options
      if (ended !== true && (limit !== undefined || cursor !== undefined)) {
        throw new CliError(exitCodes.usage, '--limit and --cursor need --ended.', [
          'Machines that have not ended are all listed: berth ls',
        ])
      }
      return watch(call, () => (ended === true ? lookAtEnded(call) : lookAtCurrent(call)))
    },
    examples: ['berth ls', 'berth ls --wide', 'berth ls --ended --wide'],
  }),
  custom({
    command: 'show',
    who: 'customer',
    description: 'show a machine: status, cost, how to log in',
    args: [{ name: '<name>', help: NAME_HELP }],
    canWatch: REFRESH_S,
    run: (call) =>
      watch(call, async () => {
        const { machine, detail } = await findAny(call.client, String(call.args[0]))
        return { onWire: detail, lines: detailLines(call.screen, machine, detail) }
      }),
    examples: ['berth show web', 'berth show web --json'],
  }),
  custom({
    command: 'metrics',
    who: 'customer',
    description: 'show GPU metrics of a machine',
    args: [{ name: '<name>', help: NAME_HELP }],
    canWatch: REFRESH_S,
    run: (call) =>
      watch(call, async () => {
        const { id } = await findOwn(call.client, String(call.args[0]))
        const metrics = await call.client.call('getRentalMetrics', { params: { id } })
        return { onWire: metrics, lines: metricLines(call.screen, metrics) }
      }),
    examples: ['berth metrics web', 'berth metrics web --watch'],
  }),
]

async function lookAtCurrent({ client, screen, options: { wide } }: Call<ListOptions>) {
  const lists = await readLists(client)
  const machines = machinesOf(lists)
  if (machines.length === 0) {
    return {
      onWire: lists,
      lines: ['You have no machines.', 'To see what you can rent: berth gpus. To rent: berth rent'],
    }
  }
  // Only running machines are charged.
  const running = machines.filter(({ status }) => status === 'Running')
  const cost = formatUsdForPeople(sumUsd(running.map(({ pricePerHour }) => pricePerHour)))
  const shown = columns.filter((column) => wide === true || !('wide' in column))
  const cells = machines.map((machine) => shown.map(({ of }) => of(machine)))
  return {
    onWire: lists,
    lines: [
      ...table(screen, shown, cells),
      '',
      `${count(machines.length, 'rental')}, ${running.length} running at ${cost}/hr`,
    ],
  }
}

const columns = [
  { title: 'ID', wide: true, of: (machine: OwnMachine) => machine.id },
  { title: 'NAME', shrink: true, of: displayName },
  { title: 'KIND', of: (machine: OwnMachine) => shortRentalKinds[machine.kind] },
  {
    title: 'STATUS',
    of: (machine: OwnMachine): Cell => ({ text: machine.status, style: toneStyles[rentalTones[machine.status]] }),
  },
  { title: 'GPUS', shrink: true, of: (machine: OwnMachine) => machine.gpus },
  { title: '$/HR', right: true, of: (machine: OwnMachine) => formatUsdForPeople(machine.pricePerHour) },
  { title: 'AGE', of: (machine: OwnMachine) => age(machine.startedAt ?? machine.createdAt, systemClock.now()) },
  { title: 'REGION', shrink: true, of: (machine: OwnMachine) => machine.region },
  { title: 'SINCE', wide: true, of: (machine: OwnMachine) => utcTime(machine.startedAt ?? machine.createdAt) },
  { title: 'SSH', wide: true, of: sshText },
  { title: 'PORTS', wide: true, of: (machine: OwnMachine) => machine.ports.join(' ') },
] as const

interface Ended {
  readonly id: string
  readonly kind: RentalKind
  readonly name: string
  readonly endedAt: string
  readonly reason: string
}

async function lookAtEnded(call: Call<ListOptions>) {
  const { client, screen, options, command } = call
  const { limit = ENDED_SHOWN, cursor, wide } = options
  if (wide === true && limit > MAX_WIDE) {
    throw new CliError(exitCodes.usage, `With --wide, --limit is at most ${MAX_WIDE}.`)
  }
  const query = { type: 'rental.terminated' as const, limit, ...(cursor === undefined ? {} : { cursor }) }
  const page = await client.call('listEvents', { query })
  const machines = page.events.map(endedOf)
  if (machines.length === 0)
    return { onWire: page, lines: ['No machine has ended yet.', 'To list your machines: berth ls'] }
  const details = wide === true ? await readDetails(client, machines) : undefined
  const total = count(machines.length, 'ended machine')
  return {
    onWire: details === undefined ? page : { ...page, rentals: details },
    lines: [
      ...table(
        screen,
        [...endedColumns, ...(details === undefined ? [] : endedWideColumns)],
        machines.map((one, i): Cell[] => [
          one.id,
          one.name,
          shortRentalKinds[one.kind],
          utcTime(one.endedAt),
          one.reason,
          ...wideCells(details?.[i]),
        ]),
      ),
      '',
      page.nextCursor === null
        ? `${total}${details === undefined ? '. With costs: berth ls --ended --wide' : ''}`
        : `There are more: ${sameCommand(command)} --cursor ${page.nextCursor}`,
    ],
  }
}

const endedColumns = [
  { title: 'ID', right: true },
  { title: 'NAME', shrink: true },
  { title: 'KIND' },
  { title: 'ENDED' },
  { title: 'REASON' },
] as const
const endedWideColumns = [{ title: 'GPUS' }, { title: 'RAN FOR', right: true }, { title: 'COST', right: true }] as const

function endedOf({ subject, at, data }: EventRecord): Ended {
  const { kind, name, label, reason } = data
  const called = typeof label === 'string' && label !== '' ? label : name
  return {
    id: subject.id,
    kind: typeof kind === 'string' && Object.hasOwn(shortRentalKinds, kind) ? (kind as RentalKind) : 'virtual-machine',
    name: typeof called === 'string' ? called : subject.id,
    endedAt: at,
    reason: typeof reason === 'string' ? (endReasons[reason] ?? reason.replaceAll('_', ' ')) : '',
  }
}

const endReasons: Readonly<Record<string, string>> = {
  customer_request: 'requested',
  auto_terminate: 'end time reached',
  term_expired: 'term ended',
  balance_empty: 'balance empty',
  spending_limit: 'spending limit reached',
}

async function readDetails(client: Client, machines: readonly Ended[]): Promise<MachineDetail[]> {
  const details: MachineDetail[] = []
  while (details.length < machines.length) {
    const some = machines.slice(details.length, details.length + CONCURRENT_CALLS)
    details.push(...(await Promise.all(some.map((one) => readDetail(client, one)))))
  }
  return details
}

function wideCells(detail: MachineDetail | undefined): Cell[] {
  if (detail === undefined) return []
  const gpu = 'machine' in detail ? gpuLabel(detail.machine.gpuModel) : detail.gpuType.toUpperCase()
  return [gpusLabel(detail.gpuCount, gpu), billedSpan(detail), money(detail.costSoFarUsd)]
}

/** From its start to the request that ended it. */
function billedSpan({ startedAt, terminateRequestedAt }: MachineDetail): string {
  const start = startedAt === null ? undefined : parseInstant(startedAt)
  const end = terminateRequestedAt === null ? undefined : parseInstant(terminateRequestedAt)
  return start === undefined || end === undefined ? 'never ran' : span(Math.max(0, end - start))
}

interface Found {
  /** undefined: it has ended, and is in no list. */
  readonly machine: OwnMachine | undefined
  readonly detail: MachineDetail
}

/** Ended machines are found by id, or by the name of an instance. */
async function findAny(client: Client, wanted: string): Promise<Found> {
  try {
    const machine = pickOwn(await listOwn(client), wanted)
    return { machine, detail: await readDetail(client, machine) }
  } catch (error) {
    if (!(error instanceof CliError) || !/^[\w-]+$/.test(wanted)) throw error
  }
  try {
    const kind = /^\d{1,9}$/.test(wanted) ? 'virtual-machine' : 'container'
    return { machine: undefined, detail: await readDetail(client, { kind, id: wanted }) }
  } catch (error) {
    throw error instanceof ApiError && error.status === 404 ? noMachine(wanted) : error
  }
}

function detailLines(screen: Screen, machine: OwnMachine | undefined, detail: MachineDetail): string[] {
  const { name, label, status, statusMessage, statusReason, spendingLimitUsd } = detail
  const reason = statusMessage ?? statusReason
  return fields(screen, [
    ['Name', label === null || label === '' ? (name ?? '') : `${label} (${name})`],
    ['Id', String(detail.rentalId)],
    ['Status', reason === null ? status : `${status}: ${reason}`],
    ['Note', simulationWords(detail.simulated)],
    ['GPUs', machine?.gpus ?? String(detail.gpuCount)],
    ['Region', 'region' in detail ? detail.region : detail.machine.region],
    ['Machine', 'machine' in detail ? detail.machine.nodeName : undefined],
    ['Price', machine === undefined ? undefined : `${formatUsdForPeople(machine.pricePerHour)}/hr`],
    ['Cost', money(detail.costSoFarUsd)],
    ['Created', utcTime(detail.createdAt)],
    ['Started', utcTime(detail.startedAt) || undefined],
    ['Ended', utcTime(detail.terminatedAt) || undefined],
    ['Terminates', utcTime(detail.autoTerminateAt) || undefined],
    ['Spending limit', spendingLimitUsd === null ? undefined : formatUsdForPeople(usd(spendingLimitUsd))],
    ...loginFacts(machine, detail),
    ...portWords(detail).map((words) => ['Port', words] as const),
  ])
}

/** How to log in, where anybody can. */
export function loginFacts(machine: OwnMachine | undefined, { simulated }: MachineDetail): Fact[] {
  if (machine?.ssh === undefined || simulated === 'machine') return []
  return [
    ['Log in', { text: `berth ssh ${typedName(machine)}`, style: 'bold' }],
    ['Or', sshText(machine)],
  ]
}

/** A name that can be pasted into a shell as it stands: a label may hold anything. */
export function typedName(machine: OwnMachine): string {
  const name = displayName(machine)
  return /^[\w.-]+$/.test(name) ? name : printable(machine.name)
}

function metricLines(screen: Screen, { gpus, reason }: Reply<'getRentalMetrics'>): string[] {
  if (gpus.length === 0) return [reason ?? 'There are no metrics yet.']
  return table(
    screen,
    [
      { title: 'MACHINE' },
      { title: 'GPU', right: true },
      { title: 'LOAD', right: true },
      { title: 'MEMORY', right: true },
      { title: 'TEMPERATURE', right: true },
      { title: 'POWER', right: true },
      { title: 'TIME' },
    ],
    gpus.map(metricCells),
  )
}

function metricCells(gpu: Reply<'getRentalMetrics'>['gpus'][number]): Cell[] {
  const value = (n: number | null, unit: string): string => (n === null ? '' : `${Math.round(n)}${unit}`)
  const { memoryUsedMib: used, memoryTotalMib: total } = gpu
  return [
    gpu.machineId,
    String(gpu.gpuIndex),
    value(gpu.utilizationPercent, '%'),
    used === null || total === null ? '' : `${Math.round(used)}/${Math.round(total)} MiB`,
    value(gpu.temperatureCelsius, ' °C'),
    value(gpu.powerWatts, ' W'),
    utcTime(gpu.at),
  ]
}

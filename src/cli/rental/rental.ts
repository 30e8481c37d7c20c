/** `berth ls` and `show`: rentals of all three kinds. Ended ones come from the events. */
import { parseInstant, systemClock } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { formatUsdForPeople, sumUsd } from '../../base/money.ts'
import type { Client } from '../../client/client.ts'
import type { EventRecord } from '../../contract/event.ts'
import { gpuLabel, gpusLabel } from '../../view/gpu.ts'
import { hourlyPrice, money } from '../../view/money.ts'
import { count } from '../../view/number.ts'
import { displayName, machineOfAny, type OwnMachine } from '../../view/own-machine.ts'
import { idleText, imageLabel, rentalReasonSentence, withoutGpusText } from '../../view/rental.ts'
import { age, span, utcTime } from '../../view/time.ts'
import type { RentalKind } from '../../domain/rental.ts'
import { anyMachine, findAny, namedIn } from './any-machine.ts'
import { parseWhole } from '../kit/flag.ts'
import { loginFacts, portFacts, readDetail, simulationNote, sshText, type MachineDetail } from './own-machine.ts'
import { sameCommand } from '../kit/page.ts'
import { factsOf, tableOf, type Columns } from '../kit/record.ts'
import { custom } from '../kit/row.ts'
import type { Content } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import { watch } from '../kit/watch.ts'
import type { Call, Row } from '../kit/row-type.ts'

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
  custom<ListOptions>('ls', 'list your machines', {
    alias: 'rentals',
    who: 'customer',
    options: {
      '--wide': 'show more columns: id, start time, SSH command, ports',
      '--ended': 'list ended machines, newest first; --wide adds costs',
      '-n, --limit <n>': {
        help: `with --ended: rows to show (default: ${ENDED_SHOWN})`,
        parse: parseWhole(1, limits.pageRows),
      },
      '--cursor <cursor>': 'with --ended: continue after the previous page',
    },
    canWatch: REFRESH_S,
    examples: ['berth ls', 'berth ls --wide', 'berth ls --ended --wide'],
    run: (call) => {
      const { ended, limit, cursor } = call.options
      if (ended !== true && (limit !== undefined || cursor !== undefined)) {
        throw new CliError(exitCodes.usage, '--limit and --cursor need --ended.', [
          'Machines that have not ended are all listed: berth ls',
        ])
      }
      return watch(call, () => (ended === true ? lookAtEnded(call) : lookAtCurrent(call)))
    },
  }),
  custom('show', 'show a machine: status, cost, how to log in', {
    who: 'customer',
    args: { '<name>': anyMachine.help },
    canWatch: REFRESH_S,
    examples: ['berth show web', 'berth show web --json'],
    run: (call) =>
      watch(call, async () => {
        const found = await findAny(call.client, String(call.args[0]))
        const detail = await readDetail(call.client, found)
        return { onWire: detail, content: await describeMachine(call.client, found.living, detail) }
      }),
  }),
]

async function lookAtCurrent({ client, options: { wide } }: Call<ListOptions>) {
  const list = await client.call('listAnyRentals')
  const machines = list.rentals.map(machineOfAny)
  if (machines.length === 0) {
    return {
      onWire: list,
      content: ['You have no machines.', 'To see what you can rent: berth gpus ls. To rent: berth rent'],
    }
  }
  const running = machines.filter(({ status }) => status === 'Running')
  const cost = formatUsdForPeople(sumUsd(machines.map(({ currentCostPerHour }) => currentCostPerHour)))
  const columns: Columns<OwnMachine, undefined> = wide === true ? ['id', ...current, ...currentWide] : current
  return {
    onWire: list,
    content: [
      tableOf(machines, columns),
      '',
      `${count(machines.length, 'rental')}, ${running.length} running; charged now: ${cost}/hr`,
    ],
  }
}

const current: Columns<OwnMachine, undefined> = [
  { NAME: displayName },
  'kind',
  'status',
  'gpus',
  {
    '$/HR': ({ pricePerHour }) => formatUsdForPeople(pricePerHour),
    AGE: ({ startedAt, createdAt }) => age(startedAt ?? createdAt, systemClock.now()),
  },
  'region',
]

const currentWide: Columns<OwnMachine, undefined> = [
  {
    SINCE: ({ startedAt, createdAt }) => utcTime(startedAt ?? createdAt),
    SSH: sshText,
    PORTS: ({ ports }) => ports.join(' '),
  },
]

interface Ended {
  readonly id: string
  readonly kind: RentalKind
  readonly name: string
  readonly endedAt: string
  readonly reason: string
  /** With --wide. */
  readonly detail?: MachineDetail | undefined
}

async function lookAtEnded({ client, options, command }: Call<ListOptions>) {
  const { limit = ENDED_SHOWN, cursor, wide } = options
  if (wide === true && limit > MAX_WIDE) {
    throw new CliError(exitCodes.usage, `With --wide, --limit is at most ${MAX_WIDE}.`)
  }
  const query = { type: 'rental.terminated' as const, limit, ...(cursor === undefined ? {} : { cursor }) }
  const page = await client.call('listEvents', { query })
  const machines = page.events.map(endedOf)
  if (machines.length === 0) {
    return { onWire: page, content: ['No machine has ended yet.', 'To list your machines: berth ls'] }
  }
  const details = wide === true ? await readDetails(client, machines) : undefined
  const total = count(machines.length, 'ended machine')
  return {
    onWire: details === undefined ? page : { ...page, rentals: details },
    content: [
      tableOf(
        machines.map((one, at) => ({ ...one, detail: details?.[at] })),
        details === undefined ? ended : [...ended, ...endedWide],
      ),
      '',
      page.nextCursor === null
        ? `${total}${details === undefined ? '. With costs: berth ls --ended --wide' : ''}`
        : `There are more: ${sameCommand(command)} --cursor ${page.nextCursor}`,
    ],
  }
}

const ended: Columns<Ended, undefined> = ['id', 'name', 'kind', 'endedAt', 'reason']

const endedWide: Columns<Ended, undefined> = [
  {
    GPUS: ({ detail }) => detail && gpusLabel(detail.gpuCount, gpuOf(detail)),
    'RAN FOR': ({ detail }) => detail && billedSpan(detail),
    COST: ({ detail }) => detail && money(detail.costSoFarUsd),
  },
]

function gpuOf(detail: MachineDetail): string {
  return 'machine' in detail ? gpuLabel(detail.machine.gpuModel) : detail.gpuType.toUpperCase()
}

function endedOf(event: EventRecord): Ended {
  const { id, kind, name, label } = namedIn(event)
  const { reason } = event.data
  return {
    id,
    kind,
    name: label ?? name,
    endedAt: event.at,
    reason: typeof reason === 'string' ? rentalReasonSentence(reason).replace(/\.$/, '') : '',
  }
}

async function readDetails(client: Client, machines: readonly Ended[]): Promise<MachineDetail[]> {
  const details: MachineDetail[] = []
  while (details.length < machines.length) {
    const some = machines.slice(details.length, details.length + CONCURRENT_CALLS)
    details.push(...(await Promise.all(some.map((one) => readDetail(client, one)))))
  }
  return details
}

/** From its start to the request that ended it. */
function billedSpan({ startedAt, terminateRequestedAt }: MachineDetail): string {
  const start = startedAt === null ? undefined : parseInstant(startedAt)
  const end = terminateRequestedAt === null ? undefined : parseInstant(terminateRequestedAt)
  return start === undefined || end === undefined ? 'never ran' : span(Math.max(0, end - start))
}

async function describeMachine(
  client: Client,
  machine: OwnMachine | undefined,
  detail: MachineDetail,
): Promise<Content[]> {
  return [
    ...factsOf(detail, [
      {
        Name: ({ name, label }) => (label === null || label === '' ? (name ?? '') : `${label} (${name})`),
        Id: ({ rentalId }) => String(rentalId),
        Status: ({ state, statusMessage, statusReason }) => {
          const reason = statusMessage ?? statusReason
          return reason === null ? state : `${state}: ${reason}`
        },
        Note: ({ simulated }) => simulationNote(simulated),
        GPUs: ({ gpuCount }) => machine?.gpus ?? String(gpuCount),
        Region: (one) => ('region' in one ? one.region : one.machine.region),
        Machine: (one) => ('machine' in one ? one.machine.nodeName : undefined),
        Image: (one) => ('image' in one ? imageLabel(one.image) : undefined),
        Price: () => (machine === undefined ? undefined : `${formatUsdForPeople(machine.pricePerHour)}/hr`),
      },
      'costSoFarUsd:Cost',
      'createdAt',
      'startedAt',
      'terminatedAt:Ended',
      'autoTerminateAt:Terminates',
      'stopAt:Stops',
      { Idle: ({ idle }) => idle && idleText(idle) },
      'startRequestedAt:Waits for GPUs since',
      {
        'While stopped': ({ stoppedCostPerHourUsd: price }) => (price === null ? undefined : hourlyPrice(price)),
        'Without GPUs': withoutGpusText,
      },
      'spendingLimitUsd',
    ]),
    ...(await loginFacts(client, machine, detail)),
    ...portFacts(detail),
  ]
}

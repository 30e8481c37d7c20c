/** `berth ls` and `show`: rentals of every kind, also ended ones. */
import { parseInstant, systemClock } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { formatUsdForPeople, sumUsd } from '../../base/money.ts'
import type { Client } from '../../client/client.ts'
import { hourlyPrice } from '../../view/money.ts'
import { count } from '../../view/number.ts'
import { displayName, machineOf, type OwnMachine } from '../../view/own-machine.ts'
import { idleText, imageLabel, rentalReasonSentence, withoutGpusText } from '../../view/rental.ts'
import { age, span, utcTime } from '../../view/time.ts'
import { parseWhole } from '../kit/flag.ts'
import {
  anyMachine,
  loginFacts,
  portFacts,
  readDetail,
  simulationNote,
  sshText,
  type MachineDetail,
} from './own-machine.ts'
import { sameCommand } from '../kit/page.ts'
import { factsOf, tableOf, type Columns } from '../kit/record.ts'
import { custom } from '../kit/row.ts'
import type { Content } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import { watch } from '../kit/watch.ts'
import type { Call, Row } from '../kit/row-type.ts'

const ENDED_SHOWN = 20
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
        const detail = await readDetail(call.client, await anyMachine.find(call.client, String(call.args[0])))
        return { onWire: detail, content: await describeMachine(call.client, detail) }
      }),
  }),
]

async function lookAtCurrent({ client, options: { wide } }: Call<ListOptions>) {
  const list = await client.call('listRentals')
  const machines = list.rentals.map(machineOf)
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

async function lookAtEnded({ client, options, command }: Call<ListOptions>) {
  const { limit = ENDED_SHOWN, cursor, wide } = options
  const query = { ended: 'only' as const, limit, ...(cursor === undefined ? {} : { cursor }) }
  // A machine that is being removed is in the other list, and its owner may look for it here.
  const [page, { rentals: others }] = await Promise.all([
    client.call('listRentals', { query }),
    client.call('listRentals'),
  ])
  const ending = others.filter(({ state }) => state === 'Terminating').length
  const note = ending === 0 ? undefined : `Still ending: ${count(ending, 'machine')}. To list your machines: berth ls`
  const machines = page.rentals.map(machineOf)
  if (machines.length === 0) {
    return { onWire: page, content: ['No machine has ended yet.', note ?? 'To list your machines: berth ls'] }
  }
  const total = count(machines.length, 'ended machine')
  return {
    onWire: page,
    content: [
      tableOf(machines, wide === true ? [...ended, ...endedWide] : ended),
      '',
      page.nextCursor === null
        ? `${total}${wide === true ? '' : '. With costs: berth ls --ended --wide'}`
        : `There are more: ${sameCommand(command)} --cursor ${page.nextCursor}`,
      note,
    ],
  }
}

const ended: Columns<OwnMachine, undefined> = [
  'id',
  { NAME: displayName },
  'kind',
  'terminatedAt:ENDED',
  { REASON: ({ reason }) => (reason === null ? '' : rentalReasonSentence(reason).replace(/\.$/, '')) },
]

const endedWide: Columns<OwnMachine, undefined> = [
  'gpus',
  { 'RAN FOR': billedSpan, COST: ({ costSoFar }) => formatUsdForPeople(costSoFar) },
]

/** The time from the start of a machine to the request that ended it. */
function billedSpan({ startedAt, terminateRequestedAt }: OwnMachine): string {
  const start = startedAt === null ? undefined : parseInstant(startedAt)
  const end = terminateRequestedAt === null ? undefined : parseInstant(terminateRequestedAt)
  return start === undefined || end === undefined ? 'never ran' : span(Math.max(0, end - start))
}

async function describeMachine(client: Client, detail: MachineDetail): Promise<Content[]> {
  const machine = machineOf(detail)
  return [
    ...factsOf(detail, [
      {
        Name: ({ name, label }) => (label === null || label === '' ? name : `${label} (${name})`),
        Id: ({ id }) => String(id),
        Status: ({ state, statusMessage, statusReason }) => {
          const reason = statusMessage ?? statusReason
          return reason === null ? state : `${state}: ${reason}`
        },
        'Exit code': ({ exitCode }) => (exitCode === null ? undefined : String(exitCode)),
        Note: ({ simulated }) => simulationNote(simulated),
        GPUs: () => machine.gpus,
        Region: ({ region }) => region,
        Machine: ({ machines }) => machines.map(({ id }) => id).join(', '),
        Image: ({ kind, image }) => (kind === 'container' ? imageLabel(image) : undefined),
        Price: () => `${formatUsdForPeople(machine.pricePerHour)}/hr`,
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
    ...(await loginFacts(client, detail)),
    ...portFacts(detail),
  ]
}

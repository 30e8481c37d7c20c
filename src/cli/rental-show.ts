/** `berth show`: one machine, whatever its kind and state. */
import type { Command } from 'commander'
import { formatUsdForPeople, usd } from '../base/money.ts'
import type { Client } from '../client/client.ts'
import { ApiError } from '../client/error.ts'
import { utcTime } from '../view/time.ts'
import { hourlyPrice } from '../view/money.ts'
import {
  callName,
  listOwn,
  NAME_HELP,
  noMachine,
  pickOwn,
  portWords,
  readDetail,
  simulationWords,
  sshText,
  type MachineDetail,
  type OwnMachine,
} from './own-machine.ts'
import { fields, printable, type Screen } from './screen.ts'
import type { Run } from './session.ts'
import { CliError } from './shell.ts'

export function addShowCommand(program: Command, run: Run): void {
  program
    .command('show')
    .description('show one machine: status, cost, how to reach it')
    .argument('<name>', NAME_HELP)
    .action(
      run('customer', async ({ client, screen }, name = '') => {
        const { machine, detail } = await findAny(client, name)
        screen.show(detail, () => lines(screen, machine, detail))
      }),
    )
}

interface Found {
  /** undefined: it has ended, and is in no list. */
  readonly machine: OwnMachine | undefined
  readonly detail: MachineDetail
}

/** Those that have ended are found by their id, or the name of an instance. */
async function findAny(client: Client, wanted: string): Promise<Found> {
  try {
    const machine = pickOwn(await listOwn(client), wanted)
    return { machine, detail: await readDetail(client, machine) }
  } catch (error) {
    if (!(error instanceof CliError) || !/^[\w-]+$/.test(wanted)) throw error
  }
  try {
    const kind = /^\d{1,9}$/.test(wanted) ? 'vm' : 'container'
    return { machine: undefined, detail: await readDetail(client, { kind, id: wanted }) }
  } catch (error) {
    throw error instanceof ApiError && error.status === 404 ? noMachine(wanted) : error
  }
}

function lines(screen: Screen, machine: OwnMachine | undefined, detail: MachineDetail): string[] {
  const { name, label, status, statusMessage, statusReason, costSoFarUsd, simulated } = detail
  const why = statusMessage ?? statusReason
  const price = machine === undefined ? undefined : hourlyPrice(machine.pricePerHour)
  return fields(screen, [
    ['Name', label === null || label === '' ? (name ?? '') : `${label} (${name})`],
    ['Id', String(detail.rentalId)],
    ['Status', why === null ? status : `${status}: ${why}`],
    ['Note', simulationWords(simulated)],
    ['GPUs', machine?.gpus ?? String(detail.gpuCount)],
    ['Region', 'region' in detail ? detail.region : detail.machine.region],
    ['Machine', 'machine' in detail ? detail.machine.nodeName : undefined],
    ['Price', price],
    ['Cost', formatUsdForPeople(usd(costSoFarUsd))],
    ['Created', utcTime(detail.createdAt)],
    ['Started', detail.startedAt === null ? undefined : utcTime(detail.startedAt)],
    ['Ended', detail.terminatedAt === null ? undefined : utcTime(detail.terminatedAt)],
    ['Ends', detail.autoTerminateAt === null ? undefined : utcTime(detail.autoTerminateAt)],
    ['Limit', detail.spendingLimitUsd === null ? undefined : formatUsdForPeople(usd(detail.spendingLimitUsd))],
    ...loginRows(machine, detail),
    ...portWords(detail).map((words) => ['Port', words] as const),
  ])
}

function loginRows(machine: OwnMachine | undefined, { simulated }: MachineDetail): Array<readonly [string, string]> {
  if (machine?.ssh === undefined || simulated === 'machine') return []
  const name = callName(machine)
  return [
    ['Log in', `berth ssh ${/^[\w.-]+$/.test(name) ? name : printable(machine.name)}`],
    ['Or', sshText(machine)],
  ]
}

/** `berth set` and `berth terminate`, for machines of every kind. */
import { money } from '../../view/money.ts'
import { utcTime } from '../../view/time.ts'
import { addMs, formatInstant, HOUR_MS, systemClock } from '../../base/instant.ts'
import { formatUsd, formatUsdForPeople, usd, type NanoUsd } from '../../base/money.ts'
import type { Client, Reply } from '../../client/client.ts'
import { ApiError } from '../../client/error.ts'
import { endNowText } from '../../domain/commitment.ts'
import { displayName, type OwnMachine } from '../../view/own-machine.ts'
import { NONE, parseWhole } from '../kit/flag.ts'
import { listOwn, NAME_HELP, ownMachine, pickOwn, readDetail, sshText } from './own-machine.ts'
import { confirm } from '../kit/question.ts'
import { custom } from '../kit/row.ts'
import { tableOf } from '../kit/record.ts'
import { bold, type Content } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Call, Row } from '../kit/row-type.ts'

const MAX_HOURS = 24 * 366

interface ChangeOptions {
  readonly label?: string
  readonly hours?: number | typeof NONE
  readonly spendingLimit?: string
  readonly afterTerm?: 'continue' | 'terminate'
  readonly yes?: true
}

export const rows: readonly Row[] = [
  custom<ChangeOptions, OwnMachine>('set', 'change the label, end time or spending limit', {
    target: ownMachine,
    operation: 'changeRental',
    only: ['spendingLimitUsd'],
    flags: { spendingLimitUsd: 'terminate it when its cost reaches this amount; none: no limit' },
    options: {
      '--label <text>': `your own name for it; '' removes it`,
      '--hours <n>': {
        help: 'terminate it this many hours from now; none: no end time',
        parse: (text) => (text === NONE ? NONE : parseHours(text)),
      },
      '--after-term <action>': { help: 'when its reserved term ends', choices: ['continue', 'terminate'] },
    },
    confirms: true,
    run: runChange,
    examples: ['berth set web --label front --hours 8', 'berth set front --spending-limit 25 --hours none'],
  }),
  custom<{ reason?: string; yes?: true }>('terminate', 'terminate machines; asks first, and shows what they cost', {
    operation: 'terminateVirtualMachineRental',
    only: ['reason'],
    flags: { reason: 'reason, recorded in the events; not for containers' },
    args: { '<name...>': NAME_HELP },
    confirms: true,
    run: runTerminate,
    examples: ['berth terminate web train', 'berth terminate web --yes'],
  }),
]

export function parseHours(text: string): number {
  return parseWhole(1, MAX_HOURS)(text)
}

/** So many hours from now, as the server takes it. */
export function timeAfter(hours: number): string {
  return formatInstant(addMs(systemClock.now(), hours * HOUR_MS))
}

async function runChange(call: Call<ChangeOptions, OwnMachine>): Promise<void> {
  const { client, screen, options, found: machine } = call
  const { label, hours, spendingLimit, afterTerm } = options
  if ([label, hours, spendingLimit, afterTerm].every((one) => one === undefined)) {
    throw new CliError(exitCodes.usage, 'No changes were given.', ['Example: berth set NAME --hours 8'])
  }
  if (spendingLimit !== undefined && spendingLimit !== NONE) {
    const cost = usd((await readDetail(client, machine)).costSoFarUsd)
    const question = `It has already cost ${formatUsdForPeople(cost)}: this terminates it now, with its disk. Continue?`
    if (cost >= usd(spendingLimit)) await confirm(call, question)
  }
  const body = {
    ...(label === undefined ? {} : { label: label.trim() === '' ? null : label }),
    ...(hours === undefined ? {} : { autoTerminateAt: hours === NONE ? null : timeAfter(hours) }),
    ...(spendingLimit === undefined ? {} : { spendingLimitUsd: spendingLimit === NONE ? null : spendingLimit }),
  }
  const changed = await changeMachine(client, machine, body, afterTerm)
  screen.show(changed, () => describeChange(changed))
}

type Changed = Reply<'changeRental'> | Reply<'changeInstance'>

async function changeMachine(
  client: Client,
  { kind, id }: OwnMachine,
  body: object,
  afterTerm: ChangeOptions['afterTerm'],
): Promise<Changed> {
  if (kind !== 'container') {
    const term = afterTerm === undefined ? {} : { convertToOnDemandOnExpiry: afterTerm === 'continue' }
    return client.call('changeRental', { params: { id: Number.parseInt(id, 10) }, body: { ...body, ...term } })
  }
  if (afterTerm === undefined) return client.call('changeInstance', { params: { id }, body })
  throw new CliError(exitCodes.usage, '--after-term is for virtual machines and bare metal.', [
    'Containers are always on demand.',
  ])
}

function describeChange(changed: Changed): Content[] {
  const { label, name, autoTerminateAt, spendingLimitUsd } = changed
  const term = 'currentTerm' in changed ? changed.currentTerm : undefined
  const continues = 'convertToOnDemandOnExpiry' in changed && changed.convertToOnDemandOnExpiry === true
  const then = continues ? 'continues on demand' : 'terminates'
  return [
    ['Name', bold(label ?? name ?? '')],
    ['Terminates', autoTerminateAt === null ? 'when you terminate it' : `at ${utcTime(autoTerminateAt)}`],
    ['Spending limit', spendingLimitUsd === null ? 'none' : money(spendingLimitUsd)],
    ['Term', term?.termType === 'reserved' ? `until ${utcTime(term.reservationEndsAt)}, then ${then}` : undefined],
  ]
}

async function runTerminate(call: Call<{ reason?: string; yes?: true }>): Promise<void> {
  const { client, screen, options, args } = call
  const machines = await listOwn(client)
  const ended = [...new Set((args[0] as string[]).map((wanted) => pickOwn(machines, wanted)))]
  await confirm(call, `Terminate ${ended.length === 1 ? 'it' : `these ${ended.length}`}?`, [
    tableOf(ended, [{ NAME: displayName }, 'kind', 'status', 'gpus', { SSH: sshText }]),
    ...(options.yes === true ? [] : await readEarlyEnds(client, ended)),
    'Local disks are deleted. Storage volumes stay.',
  ])
  const bills: Array<{ id: string; name: string; costUsd: string | null }> = []
  for (const machine of ended) {
    const cost = await terminate(client, machine, options.reason)
    bills.push({ id: machine.id, name: displayName(machine), costUsd: cost === undefined ? null : formatUsd(cost) })
  }
  screen.show(bills, () =>
    bills.map(({ name, costUsd }) => {
      const cost = costUsd === null ? '' : ` It cost ${money(costUsd)}.`
      return `Terminated ${name}. Billing has stopped.${cost}`
    }),
  )
}

/** Cost of ending reserved machines now. */
async function readEarlyEnds(client: Client, machines: readonly OwnMachine[]): Promise<string[]> {
  const lines: string[] = []
  for (const machine of machines) {
    if (machine.kind === 'container') continue
    const { commitment } = await client.call('getRental', { params: { id: Number.parseInt(machine.id, 10) } })
    if (!commitment?.endNow) continue
    lines.push(
      `${displayName(machine)} is reserved until ${utcTime(commitment.endsAt)}. ${endNowText(commitment.endNow)}`,
    )
  }
  return lines
}

/** Returns its cost. undefined: the key may not see money. */
async function terminate(
  client: Client,
  { kind, id }: OwnMachine,
  reason: string | undefined,
): Promise<NanoUsd | undefined> {
  if (kind === 'container') {
    // Instances are terminated by name, charges are listed by number.
    const { rentalId } = await client.call('getRentalMetrics', { params: { id } })
    await client.call('terminateInstance', { body: { id } })
    return readCharged(client, rentalId)
  }
  const rentalId = Number.parseInt(id, 10)
  const body = { rentalId, ...(reason === undefined ? {} : { reason }) }
  await client.call(kind === 'bare-metal' ? 'terminateBareMetalRental' : 'terminateVirtualMachineRental', { body })
  return usd((await client.call('getRental', { params: { id: rentalId } })).costSoFarUsd)
}

/** The last charge of a rental is made by the request that ends it, so the sum by rental has all of it. */
async function readCharged(client: Client, rentalId: number): Promise<NanoUsd | undefined> {
  try {
    const { rows: usage } = await client.call('getUsageSummary', { query: { by: 'rental' } })
    return usd(usage.find(({ group }) => group === String(rentalId))?.costUsd ?? '0')
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return undefined
    throw error
  }
}

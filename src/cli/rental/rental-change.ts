/** `berth set` and `berth terminate`, for machines of every kind. */
import { money } from '../../view/money.ts'
import { utcTime } from '../../view/time.ts'
import { addMs, formatInstant, HOUR_MS, systemClock } from '../../base/instant.ts'
import { formatUsdForPeople, usd } from '../../base/money.ts'
import type { Client, Reply } from '../../client/client.ts'
import { endNowText } from '../../domain/commitment.ts'
import { displayName, type OwnMachine } from '../../view/own-machine.ts'
import { NONE, parseWhole } from '../kit/flag.ts'
import { NAME_HELP, ownMachine, readDetail, sshText } from './own-machine.ts'
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
    operation: 'terminateRental',
    only: ['reason'],
    flags: { reason: 'reason, recorded in the events' },
    args: { '<name...>': NAME_HELP },
    confirms: true,
    run: runTerminate,
    examples: ['berth terminate web train', 'berth terminate web --yes'],
  }),
]

export function parseHours(text: string): number {
  return parseWhole(1, MAX_HOURS)(text)
}

/** The time that many hours from now, as the server takes it. */
export function timeAfter(hours: number): string {
  return formatInstant(addMs(systemClock.now(), hours * HOUR_MS))
}

async function runChange(call: Call<ChangeOptions, OwnMachine>): Promise<void> {
  const { client, screen, options, target: machine } = call
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
    ...(afterTerm === undefined ? {} : { convertToOnDemandOnExpiry: afterTerm === 'continue' }),
  }
  const changed = await client.call('changeRental', { params: { id: machine.id }, body })
  screen.show(changed, () => describeChange(changed))
}

function describeChange(changed: Reply<'changeRental'>): Content[] {
  const { autoTerminateAt, spendingLimitUsd, termEndsAt } = changed
  const then = changed.convertToOnDemandOnExpiry === true ? 'continues on demand' : 'terminates'
  return [
    ['Name', bold(displayName(changed))],
    ['Terminates', autoTerminateAt === null ? 'never' : `at ${utcTime(autoTerminateAt)}`],
    ['Spending limit', spendingLimitUsd === null ? 'none' : money(spendingLimitUsd)],
    ['Term', termEndsAt === null ? undefined : `until ${utcTime(termEndsAt)}, then ${then}`],
  ]
}

async function runTerminate(call: Call<{ reason?: string; yes?: true }>): Promise<void> {
  const { client, screen, options, args } = call
  const named = await Promise.all((args[0] as string[]).map((name) => ownMachine.find(client, name)))
  const machines = [...new Map(named.map((machine) => [machine.id, machine])).values()]
  await confirm(call, `Terminate ${machines.length === 1 ? 'it' : `these ${machines.length}`}?`, [
    tableOf(machines, [{ NAME: displayName }, 'kind', 'status', 'gpus', { SSH: sshText }]),
    ...(options.yes === true ? [] : await readEarlyEnds(client, machines)),
    'Local disks are deleted. Storage volumes stay.',
  ])
  const query = options.reason === undefined ? {} : { reason: options.reason }
  const ended: Array<Reply<'terminateRental'>> = []
  for (const { id } of machines) ended.push(await client.call('terminateRental', { params: { id }, query }))
  screen.show(ended, () =>
    ended.map((one) => `Terminated ${displayName(one)}. Billing has stopped. It cost ${money(one.costSoFarUsd)}.`),
  )
}

/** Cost of ending reserved machines now. */
async function readEarlyEnds(client: Client, machines: readonly OwnMachine[]): Promise<string[]> {
  const details = await Promise.all(machines.map((machine) => readDetail(client, machine)))
  return details.flatMap((detail) => {
    const { commitment } = detail
    if (!commitment?.endNow) return []
    return [`${displayName(detail)} is reserved until ${utcTime(commitment.endsAt)}. ${endNowText(commitment.endNow)}`]
  })
}

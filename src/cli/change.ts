/** `berth change`: what a machine is called, and when it ends by itself. What is not named stays as it is. */
import { InvalidArgumentError, Option, type Command } from 'commander'
import { formatUsdForPeople, usd, type NanoUsd } from '../base/money.ts'
import type { Client, Reply } from '../client/client.ts'
import { money } from '../view/money.ts'
import { utcTime } from '../view/time.ts'
import { parseAmount } from './amount.ts'
import { endAfter, parseHours } from './guard.ts'
import { findOwn, NAME_HELP, type OwnMachine } from './own-machine.ts'
import { confirm, YES } from './question.ts'
import { fields, printable, type Screen } from './screen.ts'
import type { Run } from './session.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'

const NONE = 'none'

interface ChangeOptions {
  readonly label?: string
  readonly hours?: number | typeof NONE
  /** USD. */
  readonly limit?: string
  readonly afterTerm?: 'go-on' | 'end'
}

type Changed = Reply<'changeRental'> | Reply<'changeInstance'>

export function addChangeCommand(program: Command, run: Run, shell: Shell): void {
  const change = program
    .command('change')
    .description('change its label, and when it ends by itself')
    .argument('<name>', NAME_HELP)
    .option('--label <text>', `a name of your own for it; '': its name`)
    .option('--hours <n>', 'end it by itself so many hours from now; none: not', orNone(parseHours))
    .option('--limit <usd>', 'end it when it has cost this much; none: no limit', orNone(parseAmount))
    .addOption(new Option('--after-term <what>', 'what follows its reserved term').choices(['go-on', 'end']))
    .option(...YES)
  change.action(
    run('customer', async ({ client, screen }, wanted = '') => {
      const { yes, ...options } = change.opts<ChangeOptions & { yes?: true }>()
      if (Object.keys(options).length === 0) {
        throw new CliError(exitCodes.usage, 'Say what to change.', ['Such as: berth change NAME --hours 8'])
      }
      const machine = await findOwn(client, wanted)
      if (options.limit !== undefined && options.limit !== NONE) {
        const cost = await costOf(client, machine)
        const words = `It has cost ${formatUsdForPeople(cost)} already: this ends it now, with its disk.`
        if (cost >= usd(options.limit)) await confirm(shell, `${words} Do it?`, yes === true)
      }
      const changed = await changeMachine(client, machine, options)
      screen.show(changed, () => linesOf(screen, changed))
    }),
  )
}

async function costOf(client: Client, { kind, id }: OwnMachine): Promise<NanoUsd> {
  const { costSoFarUsd } =
    kind === 'container'
      ? await client.call('getInstance', { params: { id } })
      : await client.call('getRental', { params: { id: Number.parseInt(id, 10) } })
  return usd(costSoFarUsd)
}

async function changeMachine(client: Client, machine: OwnMachine, options: ChangeOptions): Promise<Changed> {
  const { label, hours, limit, afterTerm } = options
  const body = {
    ...(label === undefined ? {} : { label: label.trim() === '' ? null : label }),
    ...(hours === undefined ? {} : { autoTerminateAt: hours === NONE ? null : endAfter(hours) }),
    ...(limit === undefined ? {} : { spendingLimitUsd: limit === NONE ? null : limit }),
  }
  if (machine.kind === 'container') {
    if (afterTerm === undefined) return client.call('changeInstance', { params: { id: machine.id }, body })
    throw new CliError(exitCodes.usage, '--after-term is for virtual machines and bare metal.', [
      'Containers are always on demand.',
    ])
  }
  const goesOn = afterTerm === undefined ? {} : { convertToOnDemandOnExpiry: afterTerm === 'go-on' }
  return client.call('changeRental', { params: { id: Number.parseInt(machine.id, 10) }, body: { ...body, ...goesOn } })
}

function linesOf(screen: Screen, changed: Changed): string[] {
  const { label, name, autoTerminateAt, spendingLimitUsd } = changed
  const term = 'currentTerm' in changed ? changed.currentTerm : undefined
  const goesOn = 'convertToOnDemandOnExpiry' in changed && changed.convertToOnDemandOnExpiry === true
  return fields(screen, [
    ['Name', { text: printable(label ?? name ?? ''), style: 'bold' }],
    ['Ends', autoTerminateAt === null ? 'not by itself' : `at ${utcTime(autoTerminateAt)}`],
    ['Limit', spendingLimitUsd === null ? 'none but the balance' : `when it has cost ${money(spendingLimitUsd)}`],
    ['Term', term?.termType === 'reserved' ? termWords(term.reservationEndsAt, goesOn) : undefined],
  ])
}

function termWords(endsAt: string | null, goesOn: boolean): string {
  return `until ${utcTime(endsAt)}, then ${goesOn ? 'it goes on, on demand' : 'it ends'}`
}

function orNone<T>(parse: (text: string) => T): (text: string) => T | typeof NONE {
  return (text) => {
    if (text === NONE) return NONE
    try {
      return parse(text)
    } catch (error) {
      if (!(error instanceof InvalidArgumentError)) throw error
      throw new InvalidArgumentError(`${error.message} Or: ${NONE}.`)
    }
  }
}

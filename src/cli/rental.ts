/** `berth ls`: machines of all three kinds in one list. Those that have ended are in rental-ended.ts. */
import type { Command } from 'commander'
import { systemClock } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { formatUsdForPeople, sumUsd } from '../base/money.ts'
import { age, utcTime } from '../view/time.ts'
import { hourlyPrice } from '../view/money.ts'
import { count } from '../view/number.ts'
import { callName, hasFailed, isRunning, machinesOf, readLists, sshText, type OwnMachine } from './own-machine.ts'
import { showEnded, type EndedOptions } from './rental-ended.ts'
import { table, type Cell, type Style } from './screen.ts'
import type { Run } from './session.ts'
import { CliError, exitCodes } from './shell.ts'
import { parseWhole } from './supply.ts'

export function addRentalCommands(program: Command, run: Run): void {
  const list = program
    .command('ls')
    .alias('rentals')
    .description('your machines')
    .option('--wide', 'also their ids, since when they run, and their SSH commands')
    .option('--ended', 'those that have ended, newest first; with --wide also what they cost')
    .option('-n, --limit <count>', 'with --ended: how many (20)', parseWhole(1, limits.pageRows))
    .option('--cursor <cursor>', 'with --ended: go on where a long list was cut')
  list.action(
    run('customer', async (session) => {
      const { ended, ...options } = list.opts<EndedOptions & { ended?: true }>()
      if (ended === true) return showEnded(session, options)
      if (options.limit !== undefined || options.cursor !== undefined) {
        throw new CliError(
          exitCodes.usage,
          '--limit and --cursor are for --ended: what has not ended is listed whole.',
          ['berth ls --ended lists what has ended.'],
        )
      }
      const { client, screen } = session
      const { wide = false } = options
      const lists = await readLists(client)
      const machines = machinesOf(lists)
      screen.show(lists, () => {
        if (machines.length === 0) return ['Nothing is rented.', 'berth gpus shows what can be, berth rent rents it.']
        // Only what runs is paid for.
        const running = machines.filter(isRunning)
        const cost = hourlyPrice(sumUsd(running.map(({ pricePerHour }) => pricePerHour)))
        return [
          ...table(screen, wide ? wideColumns : columns, machines.map(wide ? wideCells : cells)),
          '',
          `${count(machines.length, 'rental')}, ${running.length} running at ${cost}`,
        ]
      })
    }),
  )
}

const columns = [
  { title: 'NAME', shrink: true },
  { title: 'KIND' },
  { title: 'STATUS' },
  { title: 'GPUS', shrink: true },
  { title: '$/HOUR', right: true },
  { title: 'AGE' },
  { title: 'REGION', shrink: true },
] as const

function cells(machine: OwnMachine): Cell[] {
  return [
    callName(machine),
    machine.kind,
    { text: machine.status, style: styleOf(machine) },
    machine.gpus,
    formatUsdForPeople(machine.pricePerHour),
    age(machine.startedAt ?? machine.createdAt, systemClock.now()),
    machine.region,
  ]
}

const wideColumns = [
  { title: 'ID' },
  ...columns,
  { title: 'SINCE' },
  { title: 'REACH IT' },
  { title: 'PORTS' },
] as const

function wideCells(machine: OwnMachine): Cell[] {
  return [
    machine.id,
    ...cells(machine),
    utcTime(machine.startedAt ?? machine.createdAt),
    sshText(machine),
    machine.ports.join(' '),
  ]
}

function styleOf(machine: OwnMachine): Style {
  if (isRunning(machine)) return 'green'
  return hasFailed(machine) ? 'red' : 'yellow'
}

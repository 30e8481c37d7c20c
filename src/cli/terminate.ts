/** `berth terminate`: ends machines of every kind, after asking once for all of them, and tells what each has cost. */
import type { Command } from 'commander'
import { formatUsd, formatUsdForPeople, usd, type NanoUsd } from '../base/money.ts'
import type { Client } from '../client/client.ts'
import { ApiError } from '../client/error.ts'
import { endNowWords } from '../domain/commitment.ts'
import { utcTime } from '../view/time.ts'
import { callName, listOwn, NAME_HELP, pickOwn, sshText, type OwnMachine } from './own-machine.ts'
import { confirm, YES } from './question.ts'
import { printable, table, type Cell } from './screen.ts'
import type { Run } from './session.ts'
import type { Shell } from './shell.ts'

export function addTerminateCommand(program: Command, run: Run, shell: Shell): void {
  const terminate = program
    .command('terminate')
    .description('end machines; asks, and tells what they cost')
    .argument('<name...>', NAME_HELP)
    .option('--reason <text>', 'why, for the events; not for containers')
    .option(...YES)
  terminate.action(
    run('customer', async ({ client, screen }) => {
      const { reason, yes } = terminate.opts<{ reason?: string; yes?: true }>()
      const machines = await listOwn(client)
      const ended = [...new Set(terminate.args.map((wanted) => pickOwn(machines, wanted)))]
      const rows = ended.map((one): Cell[] => [callName(one), one.kind, one.status, one.gpus, sshText(one)])
      const titles = ['NAME', 'KIND', 'STATUS', 'GPUS', 'REACHED BY'].map((title) => ({ title }))
      await confirm(shell, `End ${ended.length === 1 ? 'it' : `these ${ended.length}`}?`, yes === true, [
        ...table(screen, titles, rows),
        ...(yes === true ? [] : await readEndings(client, ended)),
        'Their disks go with them; storage volumes stay.',
      ])
      const bills: Array<{ id: string; name: string; costUsd: string | null }> = []
      for (const machine of ended) {
        const cost = await end(client, machine, reason)
        bills.push({ id: machine.id, name: callName(machine), costUsd: cost === undefined ? null : formatUsd(cost) })
      }
      screen.show(bills, () =>
        bills.map(({ name, costUsd }) => {
          const cost = costUsd === null ? '' : ` It has cost ${formatUsdForPeople(usd(costUsd))}.`
          return `${printable(name)} has ended, and its bill with it.${cost}`
        }),
      )
    }),
  )
}

/** What ending costs now, of those that are reserved. */
async function readEndings(client: Client, machines: readonly OwnMachine[]): Promise<string[]> {
  const lines: string[] = []
  for (const machine of machines) {
    if (machine.kind === 'container') continue
    const { commitment } = await client.call('getRental', { params: { id: Number.parseInt(machine.id, 10) } })
    if (!commitment?.endNow) continue
    lines.push(
      `${printable(callName(machine))} is reserved until ${utcTime(commitment.endsAt)}. ${endNowWords(commitment.endNow)}`,
    )
  }
  return lines
}

/** Gives what it has cost. undefined: the key may not see money. */
async function end(client: Client, { kind, id }: OwnMachine, reason: string | undefined): Promise<NanoUsd | undefined> {
  if (kind === 'container') {
    // Instances go by name, bills by number.
    const { rentalId } = await client.call('getRentalMetrics', { params: { id } })
    await client.call('terminateInstance', { body: { id } })
    return readCharged(client, rentalId)
  }
  const rentalId = Number.parseInt(id, 10)
  const body = { rentalId, ...(reason === undefined ? {} : { reason }) }
  await client.call(kind === 'metal' ? 'terminateBareMetalRental' : 'terminateVirtualMachineRental', { body })
  const { costSoFarUsd } = await client.call('getRental', { params: { id: rentalId } })
  return usd(costSoFarUsd)
}

/** The end of a rental is charged with the request that ends it, so the sum by rental has all of it. */
async function readCharged(client: Client, rentalId: number): Promise<NanoUsd | undefined> {
  try {
    const { rows } = await client.call('getUsageSummary', { query: { by: 'rental' } })
    return usd(rows.find(({ group }) => group === String(rentalId))?.costUsd ?? '0')
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return undefined
    throw error
  }
}

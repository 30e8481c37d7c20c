/** Finds the account's machines by id, name or label. */
import type { Client, Reply } from '../../client/client.ts'
import type { Simulation } from '../../contract/shared.ts'
import { portAddress, portLabel } from '../../view/port.ts'
import { displayName, machineOf, type OwnMachine } from '../../view/own-machine.ts'
import { bold, type Fact } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { TargetSpec } from '../kit/row-type.ts'

export const NAME_HELP = 'id, name or label, as shown by berth ls'
/** The longest text that the server searches for. */
const MAX_SEARCH_CHARS = 200

type Ended = 'exclude' | 'include'

/** The machine that the first argument names. */
export const ownMachine: TargetSpec<OwnMachine> = {
  arg: 'name',
  help: NAME_HELP,
  find: (client, name) => findMachine(client, name, 'exclude'),
  idOf: ({ id }) => id,
}

/** The machine that the first argument names, also an ended one. */
export const anyMachine: TargetSpec<OwnMachine> = {
  arg: 'name',
  help: `${NAME_HELP}; also of an ended one`,
  find: (client, name) => findMachine(client, name, 'include'),
  idOf: ({ id }) => id,
}

async function findMachine(client: Client, name: string, ended: Ended): Promise<OwnMachine> {
  const machine = matchOne(await searchMachines(client, name, ended), name)
  if (machine !== undefined) return machine
  throw new CliError(exitCodes.failed, `There is no machine ${name}.`, [
    'To list them: berth ls',
    'To list ended ones: berth ls --ended',
  ])
}

/** The machines whose id, name or label has the text, newest first. */
async function searchMachines(client: Client, text: string, ended: Ended): Promise<OwnMachine[]> {
  const q = text.trim().slice(0, MAX_SEARCH_CHARS)
  if (q === '') return []
  return (await client.call('listRentals', { query: { q, ended } })).rentals.map(machineOf)
}

/** Matches by id or name, else by label. An ending or ended machine may share its label with a newer one. */
function matchOne(machines: readonly OwnMachine[], name: string): OwnMachine | undefined {
  const exact = machines.find((machine) => machine.name === name || machine.id === name)
  if (exact !== undefined) return exact
  const labelled = machines.filter(({ label }) => label === name)
  const current = labelled.filter(({ status }) => status !== 'Terminating' && status !== 'Terminated')
  if (current.length > 1) {
    const names = current.map((machine) => machine.name).join(', ')
    throw new CliError(exitCodes.usage, `Several machines have the label ${name}.`, [`Name one of: ${names}`])
  }
  return current[0] ?? labelled[0]
}

export type MachineDetail = Reply<'getRental'>

export function readDetail(client: Client, { id }: Pick<OwnMachine, 'id'>): Promise<MachineDetail> {
  return client.call('getRental', { params: { id } })
}

/** A note on simulation before ordering or logging in. undefined: the machine is real. */
export function simulationNote(simulated: Simulation | null | undefined): string | undefined {
  if (simulated === 'machine') return 'simulated; you cannot log in to it'
  return simulated === 'gpus' ? 'its GPUs are simulated' : undefined
}

/** `8080/tcp → host:29001` */
export function portFacts({ ports }: MachineDetail): Fact[] {
  return ports.flatMap((one): Fact[] => {
    const address = portAddress(one)
    const state = one.healthy === false ? ' (not answering)' : ''
    return address === undefined ? [] : [['Port', `${portLabel(one)} → ${address}${state}`]]
  })
}

/** How to log in, where anybody can. */
export async function loginFacts(client: Client, detail: MachineDetail): Promise<Fact[]> {
  if (detail.state !== 'Running' || detail.simulated === 'machine') return []
  const machine = machineOf(detail)
  // Containers of a cluster have no SSH.
  if (machine.ssh === undefined) {
    return machine.kind === 'container' ? [['Log in', bold(`berth terminal ${await typedName(client, machine)}`)]] : []
  }
  return [
    ['Log in', bold(`berth ssh ${await typedName(client, machine)}`)],
    ['Or', sshText(machine)],
  ]
}

/** The label if it names only this machine and can be pasted into a shell as it stands, else the name. */
export async function typedName(client: Client, machine: OwnMachine): Promise<string> {
  const { name, id } = machine
  const label = displayName(machine)
  if (label === name || !/^[\w.-]+$/.test(label)) return name
  const others = (await searchMachines(client, label, 'exclude')).filter((one) => one.id !== id)
  return others.some((one) => [one.id, one.name, one.label].includes(label)) ? name : label
}

export function sshText({ ssh }: OwnMachine): string {
  return ssh === undefined ? '' : `ssh ${ssh.user}@${ssh.host} -p ${ssh.port}`
}

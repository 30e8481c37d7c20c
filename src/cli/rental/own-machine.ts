/** Finds the account's machines by id, name or label. */
import type { Client, Reply } from '../../client/client.ts'
import type { Simulation } from '../../contract/shared.ts'
import { portAddress, portLabel } from '../../view/port.ts'
import { displayName, machineOfAny, type CostedMachine, type OwnMachine } from '../../view/own-machine.ts'
import { bold, type Fact } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Target } from '../kit/row-type.ts'

export const NAME_HELP = 'id, name or label, as shown by berth ls'

export async function listOwn(client: Client): Promise<CostedMachine[]> {
  return (await client.call('listAnyRentals')).rentals.map(machineOfAny)
}

/** The machine that the first argument names. */
export const ownMachine: Target<OwnMachine> = {
  arg: 'name',
  help: NAME_HELP,
  find: async (client, wanted) => pickOwn(await listOwn(client), wanted),
  idOf: ({ id }) => id,
}

export function pickOwn(machines: readonly OwnMachine[], wanted: string): OwnMachine {
  const found = matchOwn(machines, wanted)
  if (found === undefined) throw noMachine(wanted)
  return found
}

/** undefined: none of them. Throws if several have the label. */
export function matchOwn(machines: readonly OwnMachine[], wanted: string): OwnMachine | undefined {
  const exact = machines.find(({ name, id }) => name === wanted || id === wanted)
  if (exact !== undefined) return exact
  const all = machines.filter(({ label }) => label === wanted)
  // The label of a machine on its way out may have been given to another.
  const current = all.filter(({ status }) => status !== 'Terminating')
  const labelled = current.length > 0 ? current : all
  if (labelled.length > 1) {
    const names = labelled.map(({ name }) => name).join(', ')
    throw new CliError(exitCodes.usage, `Several machines have the label ${wanted}.`, [`Name one of: ${names}`])
  }
  return labelled[0]
}

export function noMachine(name: string): CliError {
  return new CliError(exitCodes.failed, `There is no machine ${name}.`, [
    'To list them: berth ls',
    'To list ended ones: berth ls --ended',
  ])
}

/** Details of one machine that the lists of both APIs leave out. */
export type MachineDetail = Reply<'getRental'> | Reply<'getInstance'>

export async function readDetail(
  client: Client,
  { kind, id }: Pick<OwnMachine, 'kind' | 'id'>,
): Promise<MachineDetail> {
  return kind === 'container'
    ? client.call('getInstance', { params: { id } })
    : client.call('getRental', { params: { id: Number.parseInt(id, 10) } })
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
export async function loginFacts(
  client: Client,
  machine: OwnMachine | undefined,
  { simulated }: MachineDetail,
): Promise<Fact[]> {
  if (machine === undefined || machine.status !== 'Running' || simulated === 'machine') return []
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
  const others = (await listOwn(client)).filter((one) => one.id !== id)
  return others.some((one) => [one.id, one.name, one.label].includes(label)) ? name : label
}

export function sshText({ ssh }: OwnMachine): string {
  return ssh === undefined ? '' : `ssh ${ssh.user}@${ssh.host} -p ${ssh.port}`
}

/** Machines of one's own, of all three kinds as one kind of thing, found by what people call them. */
import { nanoUsdOf, usdFromNumber, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { Client, Reply } from '../client/client.ts'
import type { Simulation } from '../contract/shared.ts'
import { shortGpuLabel } from '../view/gpu.ts'
import type { OfferKind } from './offer.ts'
import { CliError, exitCodes } from './shell.ts'

export const NAME_HELP = 'id, name or label, as shown by berth ls'

export interface OwnMachine {
  readonly kind: OfferKind
  /** A number, or the name of an instance. */
  readonly id: string
  readonly name: string
  readonly label: string | null
  readonly status: string
  readonly gpus: string
  readonly region: string
  readonly pricePerHour: NanoUsd
  readonly createdAt: string
  readonly startedAt: string | null
  /** undefined: there is nothing to log into yet, or any more. */
  readonly ssh: { readonly user: string; readonly host: string; readonly port: number } | undefined
  /** Where its ports are reached, as far as lists tell. */
  readonly ports: readonly string[]
  /** What it is doing, where the server says. */
  readonly message: string | undefined
}

/** The lists as the server gives them. */
export type MachineLists = Awaited<ReturnType<typeof readLists>>

export async function readLists(client: Client) {
  const [virtualMachines, bareMetal, { instances }] = await Promise.all([
    client.call('listVirtualMachineRentals'),
    client.call('listBareMetalRentals'),
    client.call('listInstances'),
  ])
  return { virtualMachines, bareMetal, instances }
}

export function machinesOf({ virtualMachines, bareMetal, instances }: MachineLists): OwnMachine[] {
  return [...[...virtualMachines, ...bareMetal].map(machineOfRental), ...instances.map(machineOfInstance)]
}

export async function listOwn(client: Client): Promise<OwnMachine[]> {
  return machinesOf(await readLists(client))
}

export async function findOwn(client: Client, wanted: string): Promise<OwnMachine> {
  return pickOwn(await listOwn(client), wanted)
}

export function pickOwn(machines: readonly OwnMachine[], wanted: string): OwnMachine {
  const exact = machines.find(({ name, id }) => name === wanted || id === wanted)
  if (exact !== undefined) return exact
  const labelled = machines.filter(({ label }) => label === wanted)
  const [only] = labelled
  if (only === undefined) {
    throw noMachine(wanted)
  }
  if (labelled.length > 1) {
    const names = labelled.map(({ name }) => name).join(', ')
    throw new CliError(exitCodes.usage, `Several machines have the label ${wanted}.`, [`Name one of: ${names}`])
  }
  return only
}

export function noMachine(name: string): CliError {
  return new CliError(exitCodes.failed, `There is no machine ${name}.`, ['berth ls lists them.'])
}

/** What both interfaces tell of one machine beyond their lists. */
export type MachineDetail = Reply<'getRental'> | Reply<'getInstance'>

export async function readDetail(
  client: Client,
  { kind, id }: Pick<OwnMachine, 'kind' | 'id'>,
): Promise<MachineDetail> {
  return kind === 'container'
    ? client.call('getInstance', { params: { id } })
    : client.call('getRental', { params: { id: Number.parseInt(id, 10) } })
}

/** What to know of it before it is ordered or entered. undefined: it is real. */
export function simulationWords(simulated: Simulation | null | undefined): string | undefined {
  if (simulated === 'machine') return 'simulated: it can be rented, and nobody can log into it'
  return simulated === 'gpus' ? 'its GPUs are simulated' : undefined
}

/** `8080 → host:29001` */
export function portWords({ portMappings }: MachineDetail): string[] {
  return portMappings.map(({ port, host, publicPort }) => `${port} → ${host}:${publicPort}`)
}

/** Both interfaces have a word of their own for it. */
export function isRunning({ status }: OwnMachine): boolean {
  return status === 'Running' || status === 'online'
}

export function hasFailed({ status }: OwnMachine): boolean {
  return status === 'Failed' || status === 'failed'
}

/** What people call it. */
export function callName({ label, name }: OwnMachine): string {
  return label === null || label === '' ? name : label
}

export function sshText({ ssh }: OwnMachine): string {
  return ssh === undefined ? '' : `ssh ${ssh.user}@${ssh.host} -p ${ssh.port}`
}

type Rental = Reply<'listVirtualMachineRentals'>[number] | Reply<'listBareMetalRentals'>[number] | Reply<'getRental'>

export function machineOfRental(rental: Rental): OwnMachine {
  return {
    kind: rental.rentalType === 'bare-metal' ? 'metal' : 'vm',
    id: String(rental.id),
    name: rental.name ?? String(rental.id),
    label: rental.label,
    status: rental.status,
    gpus: `${rental.gpuCount} ${rental.gpuType.toUpperCase()}`,
    region: rental.region,
    pricePerHour: usdFromNumber(rental.currentTerm.costPerHour) ?? zeroUsd,
    createdAt: rental.createdAt,
    startedAt: rental.startedAt,
    ssh: rental.status === 'Running' ? checked(rental.providerData.sshNetworking?.[0]) : undefined,
    ports: [],
    message: 'statusMessage' in rental ? (rental.statusMessage ?? undefined) : undefined,
  }
}

export function machineOfInstance(one: Reply<'listInstances'>['instances'][number]): OwnMachine {
  const { id, userMetadata, instance, sshCommand } = one
  const [, user = '', host = '', port = ''] = /^ssh (\S+)@(\S+) -p (\d+)$/.exec(sshCommand) ?? []
  const perGpu = usdFromNumber(instance.pricing.price.amount) ?? zeroUsd
  return {
    kind: 'container',
    id,
    name: id,
    label: typeof userMetadata['label'] === 'string' ? userMetadata['label'] : null,
    status: instance.status,
    gpus: `${instance.gpu_count} ${shortGpuLabel(instance.hardware.gpus[0]?.model)}`,
    region: instance.location.region,
    pricePerHour: nanoUsdOf(perGpu * BigInt(instance.gpu_count)),
    createdAt: one.created,
    startedAt: one.start,
    ssh: user === '' ? undefined : checked({ user, host, port: Number.parseInt(port, 10) }),
    ports: one.portMappings.map(({ domain, port: publicPort }) => `${domain}:${publicPort}`),
    message: one.status_message,
  }
}

/** What becomes an argument of ssh must not look like an option of it. */
function checked(ssh: OwnMachine['ssh']): OwnMachine['ssh'] {
  if (ssh === undefined) return undefined
  const isPlain = /^[A-Za-z0-9_][\w.-]*$/.test(ssh.user) && /^[A-Za-z0-9:][\w.:-]*$/.test(ssh.host)
  return isPlain ? ssh : undefined
}

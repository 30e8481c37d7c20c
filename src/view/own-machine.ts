/**
 * An account's machines. The API lists virtual machines, bare metal and containers separately and names their states
 * differently; here they are one type, with the states of a rental.
 */
import { costOfSpan, usd, usdFromNumber, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { Reply } from '../client/client.ts'
import type { RentalAction, RentalState } from '../contract/rental.ts'
import type { RentalKind } from '../domain/rental.ts'
import { gpusLabel, shortGpuLabel } from './gpu.ts'
import { priceOfGpus } from './money.ts'

export interface Ssh {
  readonly user: string
  readonly host: string
  readonly port: number
}

export interface OwnMachine {
  readonly kind: RentalKind
  /** The number of a rental, or the name of an instance. */
  readonly id: string
  readonly name: string
  readonly label: string | null
  readonly status: RentalState
  readonly actions: readonly RentalAction[]
  /** `8 × H100` */
  readonly gpus: string
  readonly region: string
  readonly pricePerHour: NanoUsd
  readonly createdAt: string
  readonly startedAt: string | null
  /** undefined: not reachable yet, or no longer. */
  readonly ssh: Ssh | undefined
  /** Public addresses of its ports, where the list has them. */
  readonly ports: readonly string[]
  /** Progress, as reported by the server. */
  readonly message: string | undefined
}

type Rental = Reply<'listVirtualMachineRentals'>[number] | Reply<'listBareMetalRentals'>[number] | Reply<'getRental'>
type Instance = Reply<'listInstances'>['instances'][number]

export function machineOfRental(rental: Rental): OwnMachine {
  return {
    kind: rental.rentalType,
    id: String(rental.id),
    name: rental.name ?? String(rental.id),
    label: rental.label,
    status: rental.state,
    actions: rental.actions,
    gpus: gpusNow(rental, gpusLabel(rental.gpuCount, rental.gpuType.toUpperCase())),
    region: rental.region,
    pricePerHour: cpuOnlyPrice(rental) ?? usdFromNumber(rental.currentTerm.costPerHour) ?? zeroUsd,
    createdAt: rental.createdAt,
    startedAt: rental.startedAt,
    ssh: rental.state === 'Running' ? safeSsh(rental.providerData.sshNetworking?.[0]) : undefined,
    ports: [],
    message: 'statusMessage' in rental ? (rental.statusMessage ?? undefined) : undefined,
  }
}

export function machineOfInstance(one: Instance): OwnMachine {
  const { id, userMetadata, instance } = one
  return {
    kind: 'container',
    id,
    name: id,
    label: typeof userMetadata['label'] === 'string' ? userMetadata['label'] : null,
    status: one.state,
    actions: one.actions,
    gpus: gpusNow(one, gpusLabel(instance.gpu_count, shortGpuLabel(instance.hardware.gpus[0]?.model))),
    region: instance.location.region,
    pricePerHour: cpuOnlyPrice(one) ?? priceOfGpus(instance.pricing.price.amount, instance.gpu_count),
    createdAt: one.created,
    startedAt: one.start,
    ssh: parseSshCommand(one.sshCommand),
    ports: one.portMappings.map(({ domain, port }) => `${domain}:${port}`),
    message: one.status_message,
  }
}

type Powered = Pick<Instance, 'cpuOnly' | 'cpuOnlyCostPerHourUsd'>

/** `0 of 8 × H100` while it runs without them. */
function gpusNow({ cpuOnly }: Powered, gpus: string): string {
  return cpuOnly ? `0 of ${gpus}` : gpus
}

/** undefined: it has its GPUs. */
function cpuOnlyPrice({ cpuOnly, cpuOnlyCostPerHourUsd: price }: Powered): NanoUsd | undefined {
  return cpuOnly && price !== null ? usd(price) : undefined
}

/** The label, or the name if there is no label. */
export function displayName({ label, name }: Pick<OwnMachine, 'label' | 'name'>): string {
  return label === null || label === '' ? name : label
}

/** An upper bound: time in which the engine did not report the machine is free. undefined unless it runs. */
export function maxCost({ status, startedAt, pricePerHour }: OwnMachine, nowMs: number): NanoUsd | undefined {
  if (startedAt === null || status !== 'Running') return undefined
  return costOfSpan(pricePerHour, Math.max(0, Math.floor(nowMs - Date.parse(startedAt))))
}

/** As `berth ssh` runs it. The alias keeps host keys by machine, because addresses are reused. */
export function sshCommand(name: string, { user, host, port }: Ssh): string {
  return `ssh -p ${port} -o HostKeyAlias=berth-${name} -o StrictHostKeyChecking=accept-new ${user}@${host}`
}

/** The marketplace returns the command as one text. undefined: login is not possible. */
export function parseSshCommand(text: string): Ssh | undefined {
  const [, user, host, port] = /^ssh (\S+)@(\S+) -p (\d{1,5})$/.exec(text) ?? []
  if (user === undefined || host === undefined || port === undefined) return undefined
  return safeSsh({ user, host, port: Number.parseInt(port, 10) })
}

/** These become arguments of ssh, and must not be parsed as its options. */
function safeSsh(ssh: Ssh | undefined): Ssh | undefined {
  if (ssh === undefined) return undefined
  const isSafe = /^[A-Za-z0-9_][\w.-]*$/.test(ssh.user) && /^[A-Za-z0-9:][\w.:-]*$/.test(ssh.host)
  return isSafe ? ssh : undefined
}

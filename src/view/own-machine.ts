/**
 * An account's machines of every kind as one type, with the states of a rental.
 */
import { costOfSpan, nanoUsdOf, parseUsd, usd, usdFromNumber, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { Reply } from '../client/client.ts'
import type { RentalAction, RentalState } from '../contract/rental-state.ts'
import type { RentalKind } from '../domain/rental.ts'
import { gpusLabel, shortGpuLabel } from './gpu.ts'

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
type AnyRental = Reply<'listAnyRentals'>['rentals'][number]

export function machineOfRental(rental: Rental): OwnMachine {
  const powered: Powered = 'cpuOnly' in rental ? rental : {}
  return {
    kind: rental.rentalType,
    id: String(rental.id),
    name: rental.name ?? String(rental.id),
    label: rental.label,
    status: rental.state,
    actions: rental.actions,
    gpus: gpusNow(powered, gpusLabel(rental.gpuCount, rental.gpuType.toUpperCase())),
    region: rental.region,
    pricePerHour: cpuOnlyPrice(powered) ?? usdFromNumber(rental.currentTerm.costPerHour) ?? zeroUsd,
    createdAt: rental.createdAt,
    startedAt: rental.startedAt,
    ssh: rental.state === 'Running' ? safeSsh(rental.providerData.sshNetworking?.[0]) : undefined,
    ports: [],
    message: 'statusMessage' in rental ? (rental.statusMessage ?? undefined) : undefined,
  }
}

/** A machine as the list of every kind has it, with its cost when it was read. */
export interface CostedMachine extends OwnMachine {
  /** Charged per hour now, which may be less than its price. */
  readonly currentCostPerHour: NanoUsd
  readonly costSoFar: NanoUsd
}

export function machineOfAny(one: AnyRental): CostedMachine {
  const isContainer = one.kind === 'container'
  const gpu = one.gpuType === null || isContainer ? shortGpuLabel(one.gpuModel) : one.gpuType.toUpperCase()
  return {
    kind: one.kind,
    id: isContainer ? one.name : String(one.id),
    name: one.name,
    label: one.label,
    status: one.state,
    actions: one.actions,
    gpus: gpusNow(one, gpusLabel(one.gpuCount, gpu)),
    region: one.region,
    pricePerHour: cpuOnlyPrice(one) ?? parseUsd(one.pricePerHourUsd) ?? zeroUsd,
    createdAt: one.createdAt,
    startedAt: one.startedAt,
    ssh: safeSsh(one.ssh ?? undefined),
    ports: one.portMappings.map(({ host, publicPort }) => `${host}:${publicPort}`),
    message: one.statusMessage ?? undefined,
    currentCostPerHour: parseUsd(one.currentCostPerHourUsd) ?? zeroUsd,
    costSoFar: parseUsd(one.costSoFarUsd) ?? zeroUsd,
  }
}

/** The given lists do not have it. */
type Powered = Partial<Pick<AnyRental, 'cpuOnly' | 'cpuOnlyCostPerHourUsd'>>

/** `0 of 8 × H100` while it runs without them. */
function gpusNow({ cpuOnly = false }: Powered, gpus: string): string {
  return cpuOnly ? `0 of ${gpus}` : gpus
}

/** undefined: it has its GPUs. */
function cpuOnlyPrice({ cpuOnly = false, cpuOnlyCostPerHourUsd: price = null }: Powered): NanoUsd | undefined {
  return cpuOnly && price !== null ? usd(price) : undefined
}

/** The label, or the name if there is no label. */
export function displayName({ label, name }: Pick<OwnMachine, 'label' | 'name'>): string {
  return label === null || label === '' ? name : label
}

/** The cost of a machine that was read at `readMs`, as of now. */
export function costAt({ costSoFar, currentCostPerHour }: CostedMachine, readMs: number, nowMs: number): NanoUsd {
  return nanoUsdOf(costSoFar + costOfSpan(currentCostPerHour, Math.max(0, Math.floor(nowMs - readMs))))
}

/** The command that `berth ssh` runs. The alias keeps host keys by machine, because addresses are reused. */
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

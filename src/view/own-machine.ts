/** The account's rentals as people see them: names of GPUs, amounts of money, addresses that are safe to use. */
import { costOfSpan, nanoUsdOf, parseUsd, usd, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { RentalSummary } from '../contract/rental.ts'
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
  readonly id: string
  readonly name: string
  readonly label: string | null
  readonly status: RentalState
  readonly actions: readonly RentalAction[]
  /** `8 × H100` */
  readonly gpus: string
  readonly region: string
  readonly pricePerHour: NanoUsd
  /** Charged per hour now, which may be less than its price. */
  readonly currentCostPerHour: NanoUsd
  /** The cost at the time of the read. */
  readonly costSoFar: NanoUsd
  readonly createdAt: string
  readonly startedAt: string | null
  readonly terminateRequestedAt: string | null
  readonly terminatedAt: string | null
  /** undefined: not reachable yet, or no longer. */
  readonly ssh: Ssh | undefined
  /** Public addresses of its ports. */
  readonly ports: readonly string[]
  /** Progress, as reported by the server. */
  readonly message: string | undefined
  /** Why it is in its state; null: no reason is needed. */
  readonly reason: string | null
}

export function machineOf(rental: RentalSummary): OwnMachine {
  const { kind, gpuType, gpuModel } = rental
  const gpu = gpuType === null || kind === 'container' ? shortGpuLabel(gpuModel) : gpuType.toUpperCase()
  return {
    kind,
    id: String(rental.id),
    name: rental.name,
    label: rental.label,
    status: rental.state,
    actions: rental.actions,
    gpus: gpusNow(rental, gpusLabel(rental.gpuCount, gpu)),
    region: rental.region,
    pricePerHour: cpuOnlyPrice(rental) ?? parseUsd(rental.pricePerHourUsd) ?? zeroUsd,
    currentCostPerHour: parseUsd(rental.currentCostPerHourUsd) ?? zeroUsd,
    costSoFar: parseUsd(rental.costSoFarUsd) ?? zeroUsd,
    createdAt: rental.createdAt,
    startedAt: rental.startedAt,
    terminateRequestedAt: rental.terminateRequestedAt,
    terminatedAt: rental.terminatedAt,
    ssh: safeSsh(rental.ssh),
    ports: rental.portMappings.map(({ host, publicPort }) => `${host}:${publicPort}`),
    message: rental.statusMessage ?? undefined,
    reason: rental.statusReason,
  }
}

type Powered = Pick<RentalSummary, 'cpuOnly' | 'cpuOnlyCostPerHourUsd'>

/** `0 of 8 × H100` while it runs without them. */
function gpusNow({ cpuOnly }: Powered, gpus: string): string {
  return cpuOnly ? `0 of ${gpus}` : gpus
}

/** undefined: the machine has its GPUs. */
function cpuOnlyPrice({ cpuOnly, cpuOnlyCostPerHourUsd: price }: Powered): NanoUsd | undefined {
  return cpuOnly && price !== null ? usd(price) : undefined
}

/** The label, or the name if there is no label. */
export function displayName({ label, name }: Pick<OwnMachine, 'label' | 'name'>): string {
  return label === null || label === '' ? name : label
}

/** The cost of a machine that was read at `readMs`, as of now. */
export function costAt({ costSoFar, currentCostPerHour }: OwnMachine, readMs: number, nowMs: number): NanoUsd {
  return nanoUsdOf(costSoFar + costOfSpan(currentCostPerHour, Math.max(0, Math.floor(nowMs - readMs))))
}

/** The command that `berth ssh` runs. The alias keeps host keys by machine, because addresses are reused. */
export function sshCommand(name: string, { user, host, port }: Ssh): string {
  return `ssh -p ${port} -o HostKeyAlias=berth-${name} -o StrictHostKeyChecking=accept-new ${user}@${host}`
}

/** These become arguments of ssh, and must not be parsed as its options. */
function safeSsh(ssh: Ssh | null): Ssh | undefined {
  if (ssh === null) return undefined
  const isSafe = /^[A-Za-z0-9_][\w.-]*$/.test(ssh.user) && /^[A-Za-z0-9:][\w.:-]*$/.test(ssh.host)
  return isSafe ? ssh : undefined
}

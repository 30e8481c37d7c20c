/**
 * Machines of one's own. The interface has three lists with words of their own; here they are one kind of thing, with
 * the states of the domain.
 */
import type { UseQueryResult } from '@tanstack/react-query'
import { costOfSpan, nanoUsdOf, usdFromNumber, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import type { InstanceStatus } from '../../../src/contract/marketplace.ts'
import type { RentalStatus } from '../../../src/contract/rental.ts'
import type { RentalKind } from '../../../src/domain/rental.ts'
import { useCall } from '../../api/query.ts'

export interface Ssh {
  readonly user: string
  readonly host: string
  readonly port: number
}

export interface OwnMachine {
  readonly kind: RentalKind
  /** In its page's address: a number, or the name of an instance. */
  readonly id: string
  readonly name: string
  readonly label: string | null
  readonly status: RentalStatus
  readonly gpus: string
  readonly region: string
  readonly pricePerHour: NanoUsd
  readonly createdAt: string
  readonly startedAt: string | null
}

type Instance = Reply<'listInstances'>['instances'][number]
type Rental = Reply<'listVirtualMachineRentals'>[number] | Reply<'listBareMetalRentals'>[number] | Reply<'getRental'>

/** All three lists as one answer: it is there when each of them is, and an error of one is its error. */
export function useOwnMachines(): {
  readonly machines: readonly OwnMachine[] | undefined
  readonly failed: UseQueryResult<unknown, ClientError> | undefined
} {
  const virtual = useCall('listVirtualMachineRentals')
  const metal = useCall('listBareMetalRentals')
  const instances = useCall('listInstances')
  const failed = [virtual, metal, instances].find((one) => one.data === undefined && one.error !== null)
  if (virtual.data === undefined || metal.data === undefined || instances.data === undefined) {
    return { machines: undefined, failed }
  }
  const machines = [
    ...virtual.data.map(machineOfRental),
    ...metal.data.map(machineOfRental),
    ...instances.data.instances.map(machineOfInstance),
  ]
  return { machines: machines.toSorted((a, b) => b.createdAt.localeCompare(a.createdAt)), failed: undefined }
}

export function machineOfRental(rental: Rental): OwnMachine {
  return {
    kind: rental.rentalType,
    id: String(rental.id),
    name: rental.name ?? String(rental.id),
    label: rental.label,
    status: rental.status,
    gpus: `${rental.gpuCount} × ${rental.gpuType.toUpperCase()}`,
    region: rental.region,
    pricePerHour: usdFromNumber(rental.currentTerm.costPerHour) ?? zeroUsd,
    createdAt: rental.createdAt,
    startedAt: rental.startedAt,
  }
}

function machineOfInstance({ id, created, start, userMetadata, instance }: Instance): OwnMachine {
  return {
    kind: 'container',
    id,
    name: id,
    label: typeof userMetadata['label'] === 'string' ? userMetadata['label'] : null,
    status: rentalStatuses[instance.status],
    gpus: `${instance.gpu_count} × ${gpuWords(instance.hardware.gpus[0]?.model)}`,
    region: instance.location.region,
    pricePerHour: priceOfGpus(instance.pricing.price.amount, instance.gpu_count),
    createdAt: created,
    startedAt: start,
  }
}

/** The marketplace has words of its own for the states. */
const rentalStatuses = {
  creating: 'Pending',
  starting: 'Pending',
  online: 'Running',
  stopping: 'Terminating',
  terminated: 'Terminated',
  failed: 'Failed',
  unknown: 'Unknown',
} as const satisfies Record<InstanceStatus, RentalStatus>

function priceOfGpus(perGpuHour: number, gpuCount: number): NanoUsd {
  return nanoUsdOf((usdFromNumber(perGpuHour) ?? zeroUsd) * BigInt(gpuCount))
}

/** `NVIDIA-GeForce-RTX-4090` → `RTX 4090`. */
export function gpuWords(model: string | undefined): string {
  return (model ?? 'GPU')
    .replace(/^NVIDIA-/, '')
    .replace(/^GeForce-/, '')
    .replaceAll('-', ' ')
}

/** What people call it. */
export function callName({ label, name }: Pick<OwnMachine, 'label' | 'name'>): string {
  return label === null || label === '' ? name : label
}

/** Its price for all the time since it started; time in which its engine did not show it is free, so it may be less. */
export function maxCost({ status, startedAt, pricePerHour }: OwnMachine, nowMs: number): NanoUsd | undefined {
  if (startedAt === null || status !== 'Running') return undefined
  return costOfSpan(pricePerHour, Math.max(0, Math.floor(nowMs - Date.parse(startedAt))))
}

/** As `berth ssh` runs it: what is known of a host is known by the machine's name, since addresses are used again. */
export function sshCommand(name: string, { user, host, port }: Ssh): string {
  return `ssh -p ${port} -o HostKeyAlias=berth-${name} -o StrictHostKeyChecking=accept-new ${user}@${host}`
}

/** The marketplace gives the command as one text; undefined: nobody can log in. */
export function sshOfCommand(text: string): Ssh | undefined {
  const [, user, host, port] = /^ssh ([\w.-]+)@([\w.:-]+) -p (\d{1,5})$/.exec(text) ?? []
  if (user === undefined || host === undefined || port === undefined) return undefined
  return { user, host, port: Number.parseInt(port, 10) }
}

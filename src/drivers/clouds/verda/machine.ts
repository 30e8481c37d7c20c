/** Converts instances and disks of Verda into the machines of the driver port. */
import { nanoUsdOf, sumUsd, zeroUsd } from '../../../base/money.ts'
import type { ProviderData } from '../../../contract/provider-data.ts'
import type { CloudMachine, CloudOffer } from '../cloud.ts'
import { gpuOf } from '../offer.ts'
import type { Instance, InstanceType, Volume } from './api.ts'

export const LOGIN_USER = 'root'
/** The size of the boot disk that is ordered with each machine. */
export const DISK_GB = 200
/** Prefix of the id of a disk that outlived its machine and is listed in its place. */
export const DISK_PREFIX = 'disk:'
const HOURS_PER_MONTH = 730n

export const goneStates: readonly string[] = ['discontinued', 'notfound']
const startingStates: readonly string[] = ['new', 'ordered', 'pending', 'provisioning', 'validating', 'restoring']

/** The result is rounded up, so that the cost is never too low. */
function diskCostPerHour(pricePerMonthPerGb: bigint) {
  return nanoUsdOf((pricePerMonthPerGb * BigInt(DISK_GB) + HOURS_PER_MONTH - 1n) / HOURS_PER_MONTH)
}

export function offerOf(type: InstanceType, region: string, diskPrice: bigint): CloudOffer {
  return {
    type: type.instance_type,
    region,
    // In `8V100.48M` the last letter means bare metal; `V` means a virtual machine.
    kind: /\dM$/.test(type.instance_type) ? 'bare-metal' : 'virtual-machine',
    gpu: type.gpu.description,
    gpus: type.gpu.number_of_gpus,
    networkType: 'ethernet',
    available: null,
    costPerHour: nanoUsdOf(type.price_per_hour + diskCostPerHour(diskPrice)),
    cpus: type.cpu.number_of_cores,
    ramGb: type.memory.size_in_gigabytes,
    storageGb: DISK_GB,
  }
}

/** `disks` are the disks of the instance. */
export function showInstance(instance: Instance, disks: readonly Volume[]): CloudMachine {
  const { id, description, status } = instance
  const costPerHour = sumUsd([instance.price_per_hour, ...disks.map((disk) => disk.base_hourly_cost)])
  const base = { id, tag: description ?? '', costPerHour }
  const ip = instance.ip ?? ''
  const message = `Verda reports the state ${status}.`
  if (startingStates.includes(status) || (status === 'running' && ip === ''))
    return { ...base, state: 'starting', message: status }
  if (status === 'running') return { ...base, state: 'running', data: dataOf(instance, disks) }
  // Verda bills an instance only until its deletion is requested.
  if (status === 'deleting') return { ...base, costPerHour: zeroUsd, state: 'stopping' }
  // The instance never ran. If its disk exists, the disk is billed.
  if (status === 'no_capacity') {
    const diskCost = sumUsd(disks.map((disk) => disk.base_hourly_cost))
    return { ...base, costPerHour: diskCost, state: 'failed', failure: 'no_capacity', message }
  }
  // An instance with an address has run before and may come back.
  if (status === 'error' && ip === '') return { ...base, state: 'failed', failure: 'boot_failed', message }
  return { ...base, state: 'unreachable', message }
}

/**
 * Lists disks that outlived their machine, including those in the trash, which cost money for some days. They are listed
 * as failed machines, so that their cost is recorded and they are destroyed. A disk that is still being created is
 * left out.
 */
export function orphanedDisks(
  disks: readonly Volume[],
  trash: readonly Volume[],
  machines: readonly CloudMachine[],
): CloudMachine[] {
  const tags = new Set(machines.map(({ tag }) => tag))
  const orphans = [
    ...disks.filter(({ status, instance_id: owner }) => status === 'detached' && (owner ?? '') === ''),
    ...trash.filter((disk) => disk.is_permanently_deleted !== true),
  ]
  return orphans
    .filter(({ name }) => !tags.has(name))
    .map(({ id, name, base_hourly_cost: costPerHour }) => ({
      id: `${DISK_PREFIX}${id}`,
      tag: name,
      costPerHour,
      state: 'failed',
      failure: 'machine_lost',
      message: 'Only the disk of the machine is left.',
    }))
}

function dataOf({ ip, cpu, gpu, memory }: Instance, disks: readonly Volume[]): ProviderData {
  const formFactor = gpuOf(gpu.description)?.formFactor ?? undefined
  return {
    providerId: 'verda',
    resources: {
      cpuModel: 'x86-64',
      vcpuCount: cpu.number_of_cores,
      gpuCount: gpu.number_of_gpus,
      ramGb: memory.size_in_gigabytes,
      storageGb: disks.reduce((sum, disk) => sum + disk.size, 0),
    },
    sshNetworking: [{ host: ip ?? '', port: 22, user: LOGIN_USER }],
    networkType: 'ethernet',
    ...(formFactor === undefined ? {} : { gpuFormFactor: formFactor }),
  }
}

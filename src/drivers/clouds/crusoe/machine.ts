/** Converts types and virtual machines of Crusoe into offers and machines of the port. */
import { zeroUsd, type NanoUsd } from '../../../base/money.ts'
import type { ProviderData } from '../../../contract/provider-data.ts'
import type { CloudMachine, CloudOffer } from '../cloud.ts'
import { gpuOf } from '../offer.ts'
import type { Quota, Vm, VmType } from './api.ts'
import { costOf, sizeOf } from './price-list.ts'

export const LOGIN_USER = 'ubuntu'
/** The vendor gives every machine a boot disk of this size. */
const BOOT_DISK_GB = 128

const RUNNING_STATE = 'STATE_RUNNING'
const startingStates: readonly string[] = [
  'STATE_CREATING',
  'STATE_INITIALIZING',
  'STATE_STARTING',
  'STATE_PENDING',
  'STATE_UNSPECIFIED',
]
const failedStates: readonly string[] = ['STATE_FAILED', 'STATE_ERROR']
export const GONE_STATE = 'STATE_DELETED'
export const DELETING_STATE = 'STATE_DELETING'

export function offerOf(type: VmType, location: string, available: number, costPerHour: NanoUsd): CloudOffer {
  return {
    type: type.product_name,
    region: location,
    kind: 'virtual-machine',
    gpu: gpuText(type),
    gpus: type.num_gpu,
    // A machine that is ordered alone is alone in its InfiniBand partition.
    networkType: 'ethernet',
    available: Math.max(0, Math.floor(available)),
    costPerHour,
    cpus: type.cpu_cores,
    ramGb: type.memory_gb,
    storageGb: BOOT_DISK_GB + type.disk_gb,
  }
}

/**
 * Returns how many machines of a type the project may still create, as far as its quotas tell. Whether a quota counts
 * machines or GPUs is not documented: either way there can be no more machines than that.
 */
export function quotaFor(quotas: readonly Quota[], type: string): number {
  const { family } = sizeOf(type)
  const names = quotas.filter(({ category, programmatic_name: name }) => /instance/i.test(category ?? '') && name)
  const fits = (name: string): boolean => family.startsWith(name) || name.startsWith(family)
  const closest = names
    .filter(({ programmatic_name: name }) => fits(name ?? ''))
    .toSorted((a, b) => distance(family, a) - distance(family, b))[0]
  return closest === undefined ? Infinity : Math.max(0, closest.available ?? 0)
}

function distance(family: string, { programmatic_name: name }: Quota): number {
  return Math.abs((name ?? '').length - family.length)
}

/** `type` undefined: the vendor no longer sells it. */
export function showVm(vm: Vm, type: VmType | undefined, prices: ReadonlyMap<string, NanoUsd>): CloudMachine {
  const { id, name } = vm
  const state = vm.state ?? 'unknown'
  // The vendor bills running machines only, not stopped, blocked or broken ones.
  const isBilled = state === RUNNING_STATE
  const base = { id, tag: name, costPerHour: isBilled ? (costOf(prices, vm.type) ?? zeroUsd) : zeroUsd }
  const hasAddress = (addressesOf(vm)?.public_ipv4?.address ?? '') !== ''
  const message = `Crusoe reports the state ${state}.`
  if (startingStates.includes(state) || (state === RUNNING_STATE && !hasAddress))
    return { ...base, state: 'starting', message: state }
  if (state === RUNNING_STATE) return { ...base, state: 'running', data: dataOf(vm, type) }
  if (state === DELETING_STATE) return { ...base, state: 'stopping' }
  if (failedStates.includes(state) && !hasAddress) return { ...base, state: 'failed', failure: 'boot_failed', message }
  return { ...base, state: 'unreachable', message }
}

/** Adds the name of the type, which names the slot; the name of the GPU may not. */
function gpuText(type: VmType): string {
  return `${type.gpu_type} ${sizeOf(type.product_name).family}`
}

function addressesOf({ network_interfaces: interfaces }: Vm) {
  return interfaces?.[0]?.ips?.[0]
}

function dataOf(vm: Vm, type: VmType | undefined): ProviderData {
  const addresses = addressesOf(vm)
  const host = addresses?.public_ipv4?.address ?? ''
  const addressId = addresses?.public_ipv4?.id
  const formFactor = gpuOf(type === undefined ? vm.type : gpuText(type))?.formFactor ?? undefined
  return {
    providerId: 'crusoe',
    resources: {
      cpuModel: 'x86-64',
      vcpuCount: type?.cpu_cores ?? 0,
      gpuCount: type?.num_gpu ?? sizeOf(vm.type).gpus,
      ramGb: type?.memory_gb ?? 0,
      storageGb: BOOT_DISK_GB + (type?.disk_gb ?? 0),
    },
    sshNetworking: [{ host, port: 22, user: LOGIN_USER }],
    nodeNetworking: [{ publicIp: host, privateIp: addresses?.private_ipv4?.address ?? '' }],
    networkType: 'ethernet',
    ...(addressId === undefined ? {} : { publicIpAddressId: addressId }),
    ...(formFactor === undefined ? {} : { gpuFormFactor: formFactor }),
  }
}

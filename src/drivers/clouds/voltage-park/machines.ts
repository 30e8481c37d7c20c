/** Converts rentals and virtual machines of Voltage Park into machines and their `providerData`. */
import { nanoUsdOf } from '../../../base/money.ts'
import type { ProviderData } from '../../../contract/provider-data.ts'
import type { CloudMachine } from '../cloud.ts'
import { gpuOf } from '../offer.ts'
import type { MetalRental, VirtualMachine } from './api.ts'
import { missingPorts } from './ports.ts'

export const VM_LOGIN_USER = 'user'
export const METAL_LOGIN_USER = 'ubuntu'
const SSH_PORT = 22

/** The two kinds have separate ids, and different calls end them. */
export type Resource = { readonly kind: 'metal' | 'vm'; readonly id: string }

export function machineIdOf({ kind, id }: Resource): string {
  return `${kind}/${id}`
}

export function resourceOf(machineId: string): Resource {
  const [, id] = /^metal\/(.+)$/.exec(machineId) ?? []
  return id === undefined ? { kind: 'vm', id: machineId.replace(/^vm\//, '') } : { kind: 'metal', id }
}

export function showMetal(rental: MetalRental): CloudMachine {
  const { id, name, status, rate_hourly } = rental
  const base = { id: machineIdOf({ kind: 'metal', id }), tag: name, costPerHour: rate_hourly }
  const { specs_per_node: specs, node_networking: nodes } = rental
  switch (status) {
    case 'Pending':
      return { ...base, state: 'starting', message: 'installing' }
    case 'Failed':
      return {
        ...base,
        state: 'failed',
        failure: 'boot_failed',
        message: 'Voltage Park could not install the machine.',
      }
    case 'Running':
      break
    default:
      return { ...base, state: 'unreachable', message: `Voltage Park reports the state ${status}.` }
  }
  if (rental.power_status === 'Stopped')
    return { ...base, state: 'unreachable', message: 'The machine was turned off at Voltage Park.' }
  const hasAddresses = nodes !== undefined && nodes !== null && nodes.length > 0
  if (!hasAddresses || specs === undefined || specs === null) return { ...base, state: 'starting' }
  return { ...base, state: 'running', data: metalData(rental, specs, nodes) }
}

type Specs = NonNullable<MetalRental['specs_per_node']>
type Nodes = NonNullable<MetalRental['node_networking']>

function metalData(rental: MetalRental, specs: Specs, nodes: Nodes): ProviderData {
  const count = rental.node_count ?? nodes.length
  const subOrder = rental.sub_order ?? rental.suborder
  const user = rental.username ?? METAL_LOGIN_USER
  return {
    providerId: 'voltage-park',
    externalId: rental.id,
    resources: {
      cpuModel: specs.cpu_model,
      cpuCount: count * specs.cpu_count,
      gpuCount: count * specs.gpu_count,
      ramGb: count * specs.ram_gb,
      storageGb: count * specs.storage_gb,
    },
    sshNetworking: nodes.map(({ public_ip }) => ({ host: public_ip, port: SSH_PORT, user })),
    nodeNetworking: nodes.map(({ public_ip, private_ip }) => ({ publicIp: public_ip, privateIp: private_ip })),
    networkType: rental.network_type ?? 'ethernet',
    ...formFactorOf(specs.gpu_model),
    ...(subOrder === undefined || subOrder === null ? {} : { subOrder: String(subOrder) }),
  }
}

export function showVm(vm: VirtualMachine): CloudMachine {
  const { id, name, status, pricing } = vm
  const isAssociated = status !== 'StoppedDisassociated' && status !== 'Outbid'
  const costPerHour = isAssociated ? pricing.total_associated_per_hr : pricing.total_disassociated_per_hr
  const base = { id: machineIdOf({ kind: 'vm', id }), tag: name, costPerHour: nanoUsdOf(costPerHour) }
  switch (status) {
    case 'Running':
      break
    case 'Relocating':
      return { ...base, state: 'unreachable', message: 'Voltage Park moves the machine to another host.' }
    case 'Outbid':
      return { ...base, state: 'failed', failure: 'machine_lost', message: 'Voltage Park took the machine back.' }
    case 'Stopped':
    case 'StoppedDisassociated':
      return { ...base, state: 'unreachable', message: 'The machine was turned off at Voltage Park.' }
    default:
      return { ...base, state: 'unreachable', message: `Voltage Park reports the state ${status}.` }
  }
  const [ip, ssh] = [vm.public_ip, vm.port_forwards.find(({ internal_port }) => internal_port === SSH_PORT)]
  if (ip === undefined || ip === null || ip === '')
    return { ...base, state: 'starting', message: 'waits for an address' }
  if (missingPorts(vm).length > 0) return { ...base, state: 'starting', message: 'waits for its ports' }
  return { ...base, state: 'running', data: vmData(vm, ip, ssh?.external_port ?? SSH_PORT) }
}

function vmData(vm: VirtualMachine, publicIp: string, sshPort: number): ProviderData {
  const { gpus, ram_gb, storage_gb, vcpu_count } = vm.resources
  const gpuCount = Object.values(gpus).reduce((sum, { count }) => sum + count, 0)
  return {
    providerId: 'voltage-park',
    externalId: vm.id,
    resources: { cpuModel: 'x86-64', vcpuCount: vcpu_count, gpuCount, ramGb: ram_gb, storageGb: storage_gb },
    sshNetworking: [{ host: publicIp, port: sshPort, user: VM_LOGIN_USER }],
    nodeNetworking: [{ publicIp, privateIp: vm.internal_ip ?? '' }],
    networkType: 'ethernet',
    ...formFactorOf(Object.keys(gpus)[0] ?? ''),
    portForwards: vm.port_forwards.map(({ external_port, internal_port }) => ({
      externalPort: external_port,
      internalPort: internal_port,
    })),
  }
}

function formFactorOf(gpu: string): Pick<ProviderData, 'gpuFormFactor'> {
  const formFactor = gpuOf(gpu)?.formFactor
  return formFactor === undefined || formFactor === null ? {} : { gpuFormFactor: formFactor }
}

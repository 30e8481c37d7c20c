/** Machines and operations of the simulated Crusoe, and how it shows them. */
import { toDate, type Instant } from '../../../../src/base/instant.ts'
import { addressTail, type Machine } from '../fleet.ts'
import type { CrusoeType } from './things.ts'

export interface VmDetails {
  readonly image: string
  readonly sshKey: string
  readonly script: string
  readonly partitionId: string | undefined
  readonly diskId: string
  readonly addressId: string
}
export type Vm = Machine<CrusoeType, VmDetails>

export interface Operation {
  readonly id: string
  readonly resourceId: string
  readonly startedAt: Instant
  readonly endsAt: Instant
  /** Error code. undefined: it succeeds. */
  readonly failure: string | undefined
}

export function showVm(vm: Vm, state: string, projectId: string) {
  const tail = addressTail(vm.number)
  const created = toDate(vm.createdAt).toISOString()
  const ips = {
    private_ipv4: { address: `10.20.${tail}` },
    public_ipv4: { address: `192.0.${tail}`, id: vm.addressId, type: 'dynamic' },
  }
  const disk = { id: vm.diskId, name: `${vm.name}-os`, size: '128GiB', type: 'persistent-ssd' }
  return {
    id: vm.id,
    project_id: projectId,
    name: vm.name,
    type: vm.type.name,
    location: vm.place,
    state,
    created_at: created,
    updated_at: created,
    disks: [{ ...disk, attachment_type: 'os', mode: 'read-write' }],
    network_interfaces: [
      {
        id: vm.addressId,
        name: 'eth0',
        network: 'default',
        subnet: 'default',
        interface_type: 'INTERFACE_TYPE_ETHERNET',
        mac_address: '02:00:00:00:00:01',
        external_dns_name: '',
        ips: state === 'STATE_RUNNING' ? [ips] : [],
      },
    ],
    host_channel_adapters: [],
    maintenance_policy: 'unspecified',
  }
}

export function showOperation({ id, resourceId, startedAt, endsAt, failure: failed }: Operation, now: Instant) {
  const hasEnded = endsAt <= now
  return {
    operation_id: id,
    state: !hasEnded ? 'IN_PROGRESS' : failed === undefined ? 'SUCCEEDED' : 'FAILED',
    metadata: { id: resourceId, type: 'vm' },
    result: hasEnded && failed !== undefined ? { code: failed, message: 'It failed.' } : null,
    started_at: toDate(startedAt).toISOString(),
    completed_at: hasEnded ? toDate(endsAt).toISOString() : '',
  }
}

/**
 * The part of Crusoe's API that Berth uses, described in our words after version 1 of the vendor's description (July
 * 2026). Bodies are strict: a field that the vendor does not know is a mistake of ours.
 */
import { z } from 'zod'
import type { SimDescription } from '../server.ts'

const failure = z.strictObject({
  code: z.string(),
  message: z.string(),
  error_id: z.string().optional(),
  reason: z.string().optional(),
})
const common = { 401: failure, 403: failure }
const time = z.iso.datetime({ offset: true })

const operation = z.strictObject({
  operation_id: z.uuid(),
  state: z.enum(['IN_PROGRESS', 'SUCCEEDED', 'FAILED']),
  metadata: z.strictObject({ id: z.uuid(), type: z.string() }),
  result: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
  started_at: time,
  completed_at: z.union([time, z.literal('')]),
})
const started = z.strictObject({ operation })

const vmDisk = z.strictObject({
  id: z.uuid(),
  name: z.string(),
  size: z.string(),
  type: z.string(),
  attachment_type: z.enum(['os', 'data']),
  mode: z.enum(['read-write', 'read-only']),
})
const addresses = z.strictObject({
  private_ipv4: z.strictObject({ address: z.ipv4() }),
  public_ipv4: z.strictObject({ address: z.ipv4(), id: z.uuid(), type: z.enum(['dynamic', 'static']) }),
})
const vm = z.strictObject({
  id: z.uuid(),
  project_id: z.string(),
  name: z.string(),
  type: z.string(),
  location: z.string(),
  state: z.string().min(1),
  created_at: time,
  updated_at: time,
  disks: z.array(vmDisk),
  network_interfaces: z.array(
    z.strictObject({
      id: z.uuid(),
      name: z.string(),
      network: z.string(),
      subnet: z.string(),
      interface_type: z.string(),
      mac_address: z.string(),
      external_dns_name: z.string(),
      ips: z.array(addresses),
    }),
  ),
  host_channel_adapters: z.array(z.unknown()),
  maintenance_policy: z.enum(['manual', 'stop-vm', 'unspecified']),
})

const disk = z.strictObject({
  id: z.uuid(),
  name: z.string(),
  type: z.string(),
  size: z.string(),
  location: z.string(),
  block_size: z.int(),
  created_at: time,
  updated_at: time,
  serial_number: z.string(),
  attached_to: z.array(z.strictObject({ vm_id: z.uuid(), attachment_type: z.string(), mode: z.string() })),
})

const partition = z.strictObject({ id: z.uuid(), name: z.string(), ib_network_id: z.uuid() })

export const crusoeDescription: SimDescription = {
  listTypes: {
    answers: {
      ...common,
      200: z.strictObject({
        items: z.array(
          z.strictObject({
            product_name: z.string(),
            description: z.string(),
            cpu_cores: z.int(),
            cpu_type: z.string(),
            memory_gb: z.int(),
            memory_type: z.string(),
            disk_gb: z.int(),
            disk_type: z.string(),
            num_gpu: z.int(),
            gpu_type: z.string(),
          }),
        ),
      }),
    },
  },
  listCapacities: {
    query: z.strictObject({ product_name: z.string().optional(), location: z.string().optional() }),
    answers: {
      ...common,
      200: z.strictObject({
        items: z.array(
          z.strictObject({
            type: z.string(),
            location: z.string(),
            quantity: z.int(),
            num_slices: z.int(),
            quota_type: z.string(),
          }),
        ),
      }),
    },
  },
  listQuotas: {
    answers: {
      ...common,
      200: z.strictObject({
        quotas: z.array(
          z.strictObject({
            programmatic_name: z.string(),
            category: z.string(),
            available: z.int(),
            used: z.int(),
            max: z.int(),
          }),
        ),
      }),
    },
  },
  listInstances: {
    query: z.strictObject({ limit: z.string().regex(/^\d+$/), next_token: z.string().optional() }),
    answers: {
      ...common,
      200: z.strictObject({ items: z.array(vm), next_page_token: z.string(), prev_page_token: z.string() }),
    },
  },
  getInstance: { answers: { ...common, 200: vm, 404: failure } },
  createInstance: {
    body: z.strictObject({
      name: z.string().min(1).max(63),
      type: z.string(),
      location: z.string(),
      image: z.enum(['ubuntu22.04-nvidia-sxm-docker:latest', 'ubuntu22.04-nvidia-pcie-docker:latest']),
      ssh_public_key: z.string().startsWith('ssh-'),
      startup_script: z.string().startsWith('#!').optional(),
      install_crusoe_watch_agent: z.boolean().optional(),
      host_channel_adapters: z.array(z.strictObject({ ib_partition_id: z.uuid() })).optional(),
      reservation_specification: z
        .strictObject({ selection_strategy: z.enum(['lowest_cost', 'on_demand']) })
        .optional(),
    }),
    answers: { ...common, 200: started, 400: failure },
  },
  deleteInstance: { answers: { ...common, 200: started, 400: failure, 404: failure } },
  listOperations: {
    query: z.strictObject({ resource_id: z.uuid(), state: z.enum(['IN_PROGRESS', 'SUCCEEDED', 'FAILED']) }).partial(),
    answers: { ...common, 200: z.strictObject({ items: z.array(operation) }) },
  },
  listNetworks: {
    answers: {
      ...common,
      200: z.strictObject({
        items: z.array(
          z.strictObject({
            id: z.uuid(),
            name: z.string(),
            location: z.string(),
            capacities: z.array(z.strictObject({ slice_type: z.string(), quantity: z.int() })),
          }),
        ),
      }),
    },
  },
  listPartitions: { answers: { ...common, 200: z.strictObject({ items: z.array(partition) }) } },
  createPartition: {
    body: z.strictObject({ name: z.string().min(1).max(63), ib_network_id: z.uuid() }),
    answers: { ...common, 200: partition, 400: failure, 404: failure },
  },
  deletePartition: { answers: { ...common, 204: z.undefined(), 400: failure, 404: failure } },
  getOperation: { answers: { ...common, 200: operation, 404: failure } },
  listDisks: { answers: { ...common, 200: z.strictObject({ items: z.array(disk) }) } },
  deleteDisk: { answers: { ...common, 200: started, 400: failure, 404: failure } },
}

/**
 * The part of Voltage Park's API that Berth uses, described in our words after the vendor's published reference and typed
 * clients. Bodies are strict: a field that the vendor does not know is a mistake of ours.
 */
import { z } from 'zod'
import type { SimDescription } from '../server.ts'

const uuid = z.uuid()
const decimal = z.string().regex(/^\d+\.\d{2,6}$/)
const port = z.int().min(1).max(65_535)
const listOf = <S extends z.ZodType>(item: S) =>
  z.strictObject({
    results: z.array(item).max(15),
    total_result_count: z.int().min(0),
    has_previous: z.boolean(),
    has_next: z.boolean(),
  })
const paging = z.strictObject({ limit: z.coerce.number().int().min(1).max(15), offset: z.coerce.number().int().min(0) })

const failure = z.strictObject({ detail: z.string() })
const invalid = z.strictObject({
  detail: z.array(z.strictObject({ loc: z.array(z.string()), msg: z.string(), type: z.string() })),
})
const common = { 401: failure, 403: failure }

const nodeSpecs = z.strictObject({
  gpu_model: z.string(),
  gpu_count: z.int(),
  cpu_model: z.string(),
  cpu_count: z.int(),
  ram_gb: z.int(),
  storage_gb: z.int(),
})
const networkType = z.enum(['infiniband', 'ethernet'])
const metalLocation = z.strictObject({
  id: uuid,
  gpu_count_ethernet: z.int().min(0),
  gpu_price_ethernet: decimal,
  gpu_count_infiniband: z.int().min(0),
  gpu_price_infiniband: decimal,
  reserved_gpu_count_infiniband_cluster_one: z.int().nullable(),
  reserved_gpu_count_infiniband_cluster_two: z.int().nullable(),
  specs_per_node: nodeSpecs,
})

const resources = z.strictObject({
  gpus: z.record(z.string(), z.strictObject({ count: z.int().min(1) })),
  ram_gb: z.int(),
  storage_gb: z.int(),
  vcpu_count: z.int(),
})
const vmLocation = z.strictObject({
  id: uuid,
  available_presets: z.array(
    z.strictObject({
      id: uuid,
      resources,
      operating_system: z.string(),
      compute_rate_hourly: decimal,
      storage_rate_hourly: decimal,
      available_vms: z.int().min(0),
    }),
  ),
})

const rentalBase = {
  id: uuid,
  name: z.string(),
  creation_timestamp: z.iso.datetime(),
  rate_hourly: decimal,
  suborder: z.string().nullable(),
}
const pendingRental = z.strictObject({ ...rentalBase, status: z.literal('Pending') })
const rental = z.strictObject({
  ...rentalBase,
  status: z.enum(['Running', 'Terminated', 'Failed', 'Migrating']),
  power_status: z.enum(['Running', 'Stopped']),
  node_count: z.int().min(1),
  specs_per_node: nodeSpecs,
  network_type: networkType,
  username: z.string().nullable(),
  node_networking: z.array(z.strictObject({ public_ip: z.ipv4(), private_ip: z.ipv4() })),
  sub_order: z.string().nullable(),
  storage_id: uuid.nullable(),
  storage_pv: z.null(),
  storage_pvc: z.null(),
  k8s_cluster_id: z.null(),
  kubeconfig: z.null(),
  tags: z.array(z.string()),
})

const vm = z.strictObject({
  id: uuid,
  hostnode_id: uuid,
  type: z.enum(['ondem', 'spot', 'subscription']),
  status: z.enum(['Running', 'StoppedDisassociated', 'Stopped', 'Terminated', 'Outbid', 'Relocating', 'Migrating']),
  name: z.string(),
  resources,
  operating_system: z.string(),
  pricing: z.strictObject({
    gpus_per_hr: decimal,
    vcpu_per_hr: decimal,
    ram_per_hr: decimal,
    storage_per_hr: decimal,
    total_associated_per_hr: decimal,
    total_disassociated_per_hr: decimal,
  }),
  public_ip: z.union([z.ipv4(), z.literal('')]),
  internal_ip: z.union([z.ipv4(), z.literal('')]),
  port_forwards: z.array(z.strictObject({ internal_port: port, external_port: port })),
  timestamp_creation: z.iso.datetime(),
  tags: z.array(z.string()),
})

const storageName = z
  .string()
  .max(60)
  .regex(/^[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?$/)
const storage = z.strictObject({
  id: uuid,
  size_in_gb: z.int().min(1),
  name: storageName,
  status: z.enum(['active', 'inactive']),
  rate_hourly: decimal,
  order_ids: z.array(uuid),
  tenant_id: z.int(),
  vip: z.string(),
})

const keys = {
  organization_ssh_keys: z.strictObject({ mode: z.literal('none') }),
  ssh_keys: z.array(z.string().regex(/^ssh-|^ecdsa-|^sk-/)).optional(),
  tags: z.array(z.string()).optional(),
}
const cloudInit = z
  .strictObject({
    packages: z.array(z.string()).optional(),
    write_files: z
      .array(
        z.strictObject({
          path: z.string().startsWith('/'),
          content: z.string(),
          encoding: z.literal('b64').optional(),
          owner: z.string().optional(),
          permissions: z.string().optional(),
        }),
      )
      .optional(),
    runcmd: z.array(z.string()).optional(),
  })
  .optional()
const done = z.undefined()

export const voltageParkDescription: SimDescription = {
  getOrganization: {
    answers: {
      ...common,
      200: z.strictObject({
        id: uuid,
        name: z.string(),
        billing_notification_target_emails: z.array(z.string()),
        low_balance_emails_enabled: z.boolean(),
      }),
    },
  },
  listMetalLocations: { query: paging, answers: { ...common, 200: listOf(metalLocation) } },
  listVmLocations: { query: paging, answers: { ...common, 200: listOf(vmLocation) } },
  deployMetal: {
    body: z.strictObject({
      ...keys,
      location_id: uuid,
      gpu_count: z.int().min(8).multipleOf(8),
      name: z.string().min(1),
      network_type: networkType,
      suborder: z.int().optional(),
      storage_id: uuid.optional(),
      cloudinit_script: cloudInit,
    }),
    answers: {
      ...common,
      201: z.strictObject({ rental_id: uuid, warning: z.string().nullable() }),
      400: failure,
      422: invalid,
    },
  },
  listMetal: { query: paging, answers: { ...common, 200: listOf(z.union([pendingRental, rental])) } },
  terminateMetal: { answers: { ...common, 204: done, 400: failure, 404: failure } },
  deployVm: {
    body: z.strictObject({
      ...keys,
      config_id: uuid,
      name: z.string().min(1),
      password: z.string().min(8).optional(),
      cloud_init: cloudInit,
    }),
    answers: { ...common, 201: z.strictObject({ vm_id: uuid }), 400: failure, 422: invalid },
  },
  listVms: { query: paging, answers: { ...common, 200: listOf(vm) } },
  terminateVm: { answers: { ...common, 204: done, 400: failure, 404: failure } },
  forwardPort: {
    body: z.strictObject({ internal_port: port, external_port: port }),
    answers: {
      ...common,
      201: z.strictObject({ internal_port: port, external_port: port }),
      400: failure,
      404: failure,
    },
  },
  getHostNode: {
    answers: {
      ...common,
      200: z.strictObject({ id: uuid, location_id: uuid, available_ports: z.array(port) }),
      404: failure,
    },
  },
  createStorage: {
    body: z.strictObject({ size_in_gb: z.int().min(1), name: storageName, order_ids: z.array(uuid) }),
    answers: { ...common, 201: storage, 400: failure, 422: invalid },
  },
  listStorage: { query: paging, answers: { ...common, 200: listOf(storage) } },
  getStorage: {
    answers: { ...common, 200: storage.extend({ used_capacity_bytes: z.int().min(0) }), 404: failure },
  },
  updateStorage: {
    body: z.strictObject({
      size_in_gb: z.int().min(1).optional(),
      name: storageName.optional(),
      order_ids: z.array(uuid).optional(),
    }),
    answers: { ...common, 200: storage, 400: failure, 404: failure, 422: invalid },
  },
  deleteStorage: { answers: { ...common, 204: done, 400: failure, 404: failure } },
}

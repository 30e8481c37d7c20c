/**
 * The part of the Voltage Park API that we use, as far as we read it. Unknown fields and states are ignored. Prices are
 * decimal texts; the vendor's own dashboard also accepts numbers, so we do too.
 */
import { z } from 'zod'
import { fromDecimal, fromNumber } from '../../../base/vendor-price.ts'

const price = z.union([z.string().transform(fromDecimal), z.number().transform(fromNumber)])

/** All lists have this form. */
export function pageOf<S extends z.ZodType>(item: S) {
  return z.object({ results: z.array(item), total_result_count: z.int(), has_next: z.boolean() })
}

/** A machine without a field that we need is still one of ours. */
const bare = z
  .object({ id: z.string().min(1), name: z.string() })
  .transform(({ id, name }) => ({ id, name, unread: true as const }))
export type Bare = z.output<typeof bare>

export function orBare<S extends z.ZodType>(machine: S) {
  return z.union([machine, bare])
}

const nodeSpecs = z.object({
  gpu_model: z.string(),
  gpu_count: z.int(),
  cpu_model: z.string(),
  cpu_count: z.int(),
  ram_gb: z.number(),
  storage_gb: z.number(),
})

export const metalLocation = z.object({
  id: z.string().min(1),
  gpu_count_ethernet: z.int(),
  gpu_price_ethernet: price,
  gpu_count_infiniband: z.int(),
  gpu_price_infiniband: price,
  specs_per_node: nodeSpecs,
})
export type MetalLocation = z.output<typeof metalLocation>

const vmResources = z.object({
  gpus: z.record(z.string(), z.object({ count: z.int() })),
  ram_gb: z.number(),
  storage_gb: z.number(),
  vcpu_count: z.int(),
})

const preset = z.object({
  id: z.string().min(1),
  resources: vmResources,
  operating_system: z.string(),
  compute_rate_hourly: price,
  storage_rate_hourly: price,
  available_vms: z.int(),
})
export type Preset = z.output<typeof preset>

export const vmLocation = z.object({ id: z.string().min(1), available_presets: z.array(preset) })

/** A pending rental has only the first fields. */
export const metalRental = z.object({
  id: z.string().min(1),
  name: z.string(),
  status: z.string(),
  rate_hourly: price,
  power_status: z.string().nullish(),
  node_count: z.int().nullish(),
  specs_per_node: nodeSpecs.nullish(),
  network_type: z.enum(['infiniband', 'ethernet']).nullish(),
  username: z.string().nullish(),
  node_networking: z.array(z.object({ public_ip: z.string(), private_ip: z.string() })).nullish(),
  // Answers use both spellings.
  suborder: z.union([z.string(), z.number()]).nullish(),
  sub_order: z.union([z.string(), z.number()]).nullish(),
})
export type MetalRental = z.output<typeof metalRental>

export const virtualMachine = z.object({
  id: z.string().min(1),
  hostnode_id: z.string(),
  name: z.string(),
  status: z.string(),
  resources: vmResources,
  pricing: z.object({ total_associated_per_hr: price, total_disassociated_per_hr: price }),
  public_ip: z.string().nullish(),
  internal_ip: z.string().nullish(),
  port_forwards: z.array(z.object({ internal_port: z.int(), external_port: z.int() })),
  tags: z.array(z.string()).nullish(),
})
export type VirtualMachine = z.output<typeof virtualMachine>

export const hostNode = z.object({ id: z.string(), available_ports: z.array(z.int()) })

export const storageVolume = z.object({
  id: z.string().min(1),
  name: z.string(),
  size_in_gb: z.int(),
  status: z.string(),
  rate_hourly: price,
  order_ids: z.array(z.string()),
  vip: z.string().nullish(),
})
export type StorageVolume = z.output<typeof storageVolume>

export const organization = z.object({ id: z.string(), name: z.string() })
export const deployedVm = z.object({ vm_id: z.string().min(1) })
export const deployedMetal = z.object({ rental_id: z.string().min(1) })
/** The body does not matter. */
export const anything = z.unknown()
